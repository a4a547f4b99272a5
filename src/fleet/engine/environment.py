"""What an agent's environment holds: an allow-list, the settings' own, and how to reach the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.home import Home

ALLOWED = (
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "COLORTERM"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "ALL_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    *("SSH_AUTH_SOCK", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
)
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def agent_environment(
    home: Home,
    task: Task,
    run: Run,
    *,
    token: str,
    ours: Mapping[str, str],
    passed: tuple[str, ...] = (),
    added: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of an agent; nothing else of the supervisor's reaches it."""
    names = (*ALLOWED, *passed)
    env = {name: value for name, value in ours.items() if name in names or name.startswith("LC_")}
    env |= added or {}
    folder = home.task(task.id)
    path = task.path or ours.get("PATH") or DEFAULT_PATH
    return env | {
        "PATH": f"{home.bin}:{path}",
        "FLEET_HOME": home.root,
        "FLEET_TASK_ID": task.id,
        "FLEET_TASK_DIR": folder,
        "FLEET_ARTIFACT_DIR": f"{folder}/artifacts",
        "FLEET_RUN_ID": run.id,
        "FLEET_RUN_TOKEN": token,
        "BEADS_DIR": home.root,
        "BEADS_ACTOR": run.id,
    }
