"""The environment of an agent: allowed variables, variables of its coder and the settings, and access to the queue."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from fleet.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace

ALLOWED = (
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "COLORTERM", "LC_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
)
#: What a verify command gets of the user's environment: no secrets, no paths of settings or sockets.
OF_A_VERIFY_COMMAND = (
    *("USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "LC_*", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
)
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class RunPlace(NamedTuple):
    """The directory and worktree of a run."""

    cwd: str
    workspace: Workspace | None = None

    @property
    def env(self) -> dict[str, str]:
        """Return the variables that describe the place to an agent."""
        if self.workspace is None:
            return {}
        first, count = self.workspace.first_port, self.workspace.port_count
        ports = {"FLEET_PORT": first, "PORT": first, "FLEET_PORT_BASE": first, "FLEET_PORT_COUNT": count}
        return {"FLEET_BRANCH": self.workspace.branch} | ({k: str(v) for k, v in ports.items()} if first else {})


def agent_environment(
    home: Home,
    task: Task,
    run: Run | None,  # None for a command that fleet runs for the task
    *,
    ours: Mapping[str, str],
    passed: Iterable[str] = (),
    added: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the complete environment of an agent. No other variable of the supervisor reaches the agent."""
    globs = (*ALLOWED, *passed)
    env = {name: value for name, value in ours.items() if any(fnmatchcase(name, glob) for glob in globs)}
    env.pop("FLEET_QUEUE", None)  # a secret; fleet's programs find the queue through the home
    env |= added or {}
    folder = (Home(run.home) if run and run.home else home).task(task.id)
    return env | {
        "PATH": agent_path(home, task, ours),
        "FLEET_HOME": home.root,
        "FLEET_TASK_ID": task.id,
        "FLEET_TASK_DIR": folder,
        "FLEET_ARTIFACT_DIR": f"{folder}/artifacts",
        "FLEET_RUN_ID": run.id if run else "",
        "FLEET_RUN_TOKEN": "",  # an agent gets its token when it starts
        "BEADS_DIR": home.beads if os.path.isdir(home.beads) else home.root,  # noqa: PTH112
        "BEADS_ACTOR": run.id if run else "fleet",
    }


def agent_path(home: Home, task: Task, ours: Mapping[str, str]) -> str:
    """Return the PATH of an agent: fleet's own `bd` first, then the PATH of the task's maker, then the supervisor's."""
    return f"{home.bin}:{path_of(task, ours)}"


def path_of(task: Task, ours: Mapping[str, str]) -> str:
    """Return the PATH of the task's maker, followed by the PATH in `ours`.

    A task that cron or another host created may have a PATH without the coder.
    """
    folders = [*task.path.split(":"), *(ours.get("PATH") or DEFAULT_PATH).split(":")]
    return ":".join(dict.fromkeys(each for each in folders if each))


def setup_environment(home: Home, task: Task, workspace: Workspace, passed: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of setup and teardown commands: an agent's, without its token and its coder's secrets."""
    env = agent_environment(home, task, None, ours=os.environ, passed=passed)
    del env["FLEET_RUN_TOKEN"]
    return env | RunPlace(workspace.path, workspace).env


def verify_environment(home: Home, ours: Mapping[str, str], *, path: str = "", scratch: str) -> dict[str, str]:
    """Return the environment of a verify command: nothing of an agent's, with its own home and temporary folder.

    Programs are found in the PATH of the task's maker (`path`). Folders that an agent can fill are left out: those in
    fleet's home, and relative names.
    """
    env = {name: ours[name] for name in ours if any(fnmatchcase(name, glob) for glob in OF_A_VERIFY_COMMAND)}
    folders = [each for each in (path or ours.get("PATH") or DEFAULT_PATH).split(":") if each.startswith("/")]
    kept = [each for each in folders if not home.contains(each)]
    return env | {
        "PATH": ":".join(kept) or DEFAULT_PATH,
        "HOME": f"{scratch}/home",
        "TMPDIR": f"{scratch}/tmp",
        "SHELL": "/bin/sh",
        "TERM": "dumb",
    }
