"""The setup that makes each real CLI talk to the scripted model alone, in place of its vendor."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from model_server import Scenario

#: The folder in which `make test` installed the CLIs.
PLACE = Path(os.environ.get("FLEET_TEST_CLIS") or "/nonexistent")

#: The command of each CLI without a terminal. The prompt comes on stdin. The CLI knows the name of the model, so that
#: it offers the same tools as to a real one.
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
    """The setup of a CLI for the scripted model: its whole environment, and files in its home."""

    env: dict[str, str]
    files: dict[Path, str]


def cli_env(cli: str, scenario: Scenario, home: Path) -> Setup:
    """Return the environment and files that make a CLI talk to a scenario alone."""
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
    """Return the setup of claude: all in the environment. Root must confirm its permissions."""
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
    """Return the setup of codex: a provider in the settings, without retries so that a fault shows at once."""
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
    """Return the setup of gemini. Its address needs this kind of sign-in. It gets one attempt and no second process."""
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
    """Return the setup of opencode: a provider, all in one variable."""
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
    """Return the setup of qwen: all in the environment."""
    return Setup(
        {"OPENAI_API_KEY": scenario.key, "OPENAI_BASE_URL": scenario.url("chat"), "OPENAI_MODEL": "scripted"}, {}
    )


def pi(scenario: Scenario, home: Path) -> Setup:
    """Return the setup of pi: a provider in a file."""
    provider = {
        "baseUrl": scenario.url("chat"),
        "api": "openai-completions",
        "apiKey": scenario.key,
        "models": [{"id": "scripted"}],
    }
    models = {"providers": {"scripted": provider}}
    return Setup({"PI_OFFLINE": "1"}, {home / ".pi" / "agent" / "models.json": json.dumps(models)})


def copilot(scenario: Scenario, home: Path) -> Setup:
    """Return the setup of copilot: all in the environment."""
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
