"""An agent's environment: an allow-list, what its coder reads, the settings' own, and how to reach the queue."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from fleet.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.core.run import Run
    from fleet.core.task import Task

ALLOWED = (
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "COLORTERM", "LC_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    *("SSH_AUTH_SOCK", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
)
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def agent_environment(
    home: Home,
    task: Task,
    run: Run,
    *,
    token: str,
    ours: Mapping[str, str],
    passed: Iterable[str] = (),
    added: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of an agent; nothing else of the supervisor's reaches it."""
    globs = (*ALLOWED, *passed)
    env = {name: value for name, value in ours.items() if any(fnmatchcase(name, glob) for glob in globs)}
    env |= added or {}
    folder = (Home(run.home) if run.home else home).task(task.id)
    return env | {
        "PATH": agent_path(home, task, ours),
        "FLEET_HOME": home.root,
        "FLEET_TASK_ID": task.id,
        "FLEET_TASK_DIR": folder,
        "FLEET_ARTIFACT_DIR": f"{folder}/artifacts",
        "FLEET_RUN_ID": run.id,
        "FLEET_RUN_TOKEN": token,
        "BEADS_DIR": home.root,
        "BEADS_ACTOR": run.id,
    }


def agent_path(home: Home, task: Task, ours: Mapping[str, str]) -> str:
    """Where an agent finds programs: fleet's own `bd` first, then as whoever made the task would."""
    return f"{home.bin}:{task.path or ours.get('PATH') or DEFAULT_PATH}"
