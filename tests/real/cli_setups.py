"""What each real CLI needs to talk to the scripted model in place of its vendor, and to nobody else."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from model_server import Scenario

#: Where `make test` put them.
PLACE = Path(os.environ.get("FLEET_TEST_CLIS") or "/nonexistent")

#: How each is started without a terminal; the prompt comes on stdin. The model has a name that the CLI knows, so that
#: it offers the tools it offers to a real one.
ARGVS = {
    "claude": [
        *("-p", "--verbose", "--output-format", "stream-json", "--dangerously-skip-permissions"),
        *("--model", "claude-sonnet-4-5"),
    ],
    "codex": [
        *("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--model", "gpt-5.5"),
    ],
    "copilot": ["--allow-all", "--output-format", "json", "--no-ask-user", "--no-auto-update"],
    "gemini": ["-o", "stream-json", "--approval-mode", "yolo", "--model", "gemini-2.5-flash"],
    "opencode": ["run", "--format", "json", "--auto", "--model", "scripted/scripted"],
    "pi": ["-p", "--mode", "json", "--model", "scripted/scripted"],
    "qwen": ["--auth-type", "openai", "-o", "stream-json", "-y", "--model", "scripted"],
}


class Setup(NamedTuple):
    """What a CLI needs to find the scripted model: its whole environment, and files in its home."""

    env: dict[str, str]
    files: dict[Path, str]


def cli_env(cli: str, scenario: Scenario, home: Path) -> Setup:
    """The environment and the settings that make a CLI talk to a scenario, and to nobody else."""
    env = {
        "PATH": f"{PLACE / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    own, files = SETUPS[cli](scenario, home)
    return Setup(env | own, files)


def claude(scenario: Scenario, home: Path) -> Setup:
    """Claude: all in the environment; root must say that it knows what it does."""
    env = {
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "ANTHROPIC_BASE_URL": scenario.url("anthropic"),
        "ANTHROPIC_API_KEY": scenario.key,
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return Setup(env, {})


def codex(scenario: Scenario, home: Path) -> Setup:
    """Codex: a provider of its own in the settings, with retries off so that a fault shows at once."""
    settings = f"""
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
[model_providers.scripted]
name = "scripted"
base_url = "{scenario.url("responses")}"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
    place = home / "codex"
    return Setup({"CODEX_HOME": str(place), "SCRIPTED_KEY": scenario.key}, {place / "config.toml": settings})


def gemini(scenario: Scenario, home: Path) -> Setup:
    """Gemini: the address in the environment counts only with this kind of sign-in; one attempt, no second process."""
    env = {
        "GEMINI_CLI_HOME": str(home),
        "GEMINI_API_KEY": scenario.key,
        "GOOGLE_GEMINI_BASE_URL": scenario.url("gemini"),
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    }
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "maxAttempts": 1},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return Setup(env, {home / ".gemini" / "settings.json": json.dumps(settings)})


def opencode(scenario: Scenario, home: Path) -> Setup:
    """Opencode: a provider of its own, all in one variable."""
    model = {"limit": {"context": 200_000, "output": 8_192}, "cost": {"input": 1, "output": 2, "cache_read": 0.1}}
    options = {"baseURL": scenario.url("chat"), "apiKey": scenario.key}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": model}}
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow"},
        "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
    }
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "STATE", "CACHE")}
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    disabled = {f"OPENCODE_DISABLE_{switch}": "1" for switch in switches}
    return Setup(folders | disabled | {"OPENCODE_CONFIG_CONTENT": json.dumps(settings)}, {})


def qwen(scenario: Scenario, home: Path) -> Setup:
    """Qwen: all in the environment."""
    return Setup(
        {"OPENAI_API_KEY": scenario.key, "OPENAI_BASE_URL": scenario.url("chat"), "OPENAI_MODEL": "scripted"}, {}
    )


def pi(scenario: Scenario, home: Path) -> Setup:
    """Pi: a provider of its own in a file."""
    provider = {
        "baseUrl": scenario.url("chat"),
        "api": "openai-completions",
        "apiKey": scenario.key,
        "models": [{"id": "scripted"}],
    }
    models = {"providers": {"scripted": provider}}
    return Setup({"PI_OFFLINE": "1"}, {home / ".pi" / "agent" / "models.json": json.dumps(models)})


def copilot(scenario: Scenario, home: Path) -> Setup:
    """Copilot: all in the environment."""
    env = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": scenario.url("chat"),
        "COPILOT_PROVIDER_API_KEY": scenario.key,
        "COPILOT_MODEL": "scripted",
    }
    return Setup(env, {})


SETUPS: dict[str, Callable[[Scenario, Path], Setup]] = {
    "claude": claude,
    "codex": codex,
    "copilot": copilot,
    "gemini": gemini,
    "opencode": opencode,
    "pi": pi,
    "qwen": qwen,
}
