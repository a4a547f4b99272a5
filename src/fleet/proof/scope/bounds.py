"""Bounds: where a run may write, who owns other places, and how serious a write there is."""

# Paths of agents and of git are plain text.
# ruff: noqa: PTH118, PTH120
from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.git.repository import NoRepository, NotOwned, Repository, find_repository
from fleet.git.worktree_records import branches_checked_out, worktrees
from fleet.home import find_checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.core.workspace import Workspace
    from fleet.home import Home

#: Owners of places.
OWN, CHECKOUT, WORKTREE, GIT, FLEET, HOME, SYSTEM, ELSEWHERE = (
    *("its own", "in the main checkout", "in another worktree", "in the repository's git folder"),
    *("in fleet's home", "in the user's home", "in the system", "outside of its workspace"),
)
#: What an agent does at a place.
DELETES, WRITES, MAKES, WORKS = "deletes", "writes to", "makes", "works in"
#: How certain it is that an action is out of bounds.
SURE, DOUBTFUL, FINE = "sure", "doubtful", ""

TEMPORARY = (
    "/tmp",
    "/var/tmp",
    "/private/tmp",
    "/private/var/tmp",
    "/var/folders",
    "/private/var/folders",
    "/run/user",
)
DEVICES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd", "/dev/shm", "/dev/zero", "/dev/full")
THE_SYSTEMS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/srv"),
    *("/sys", "/usr", "/var", "/Applications", "/Library", "/System", "/private"),
)
#: Folders below a home that programs keep for themselves and can recreate.
CACHES = (
    *(".cache", ".npm", ".yarn", ".pnpm-store", ".bun", ".deno", ".nvm", ".volta", ".cargo", ".rustup", ".go", "go"),
    *(".m2", ".gradle", ".ivy2", ".sbt", ".konan", ".gem", ".bundle", ".rbenv", ".pyenv", ".conda", ".virtualenvs"),
    *(
        ".nuget",
        ".dotnet",
        ".pub-cache",
        ".composer",
        ".cpan",
        ".cabal",
        ".stack",
        ".hex",
        ".mix",
        ".ccache",
        ".sccache",
    ),
    *(".local/share", ".local/state", ".local/lib", ".local/pipx", ".docker/buildx", ".terraform.d/plugin-cache"),
    *(
        ".matplotlib",
        ".keras",
        ".ipython",
        ".jupyter",
        ".node-gyp",
        ".electron",
        ".cypress",
        ".playwright",
        "Library/Caches",
    ),
)
#: Folders where users install programs. Another program there is harmless.
PROGRAMS = (".local/bin",)
#: Folders of coders for their own work.
CODERS = (".claude", ".codex", ".gemini", ".qwen", ".copilot", ".pi", ".opencode", ".config/opencode", ".config/claude")
CODERS_OWN = ("plans", "projects", "todos", "tmp", "memory", "memories", "sessions", "log", "logs", "history", "cache")
#: Entries of a git folder that control what git runs, or without which git does not work.
VITAL = ("config", "config.worktree", "hooks", "objects", "refs", "packed-refs", "HEAD", "worktrees", "modules")
#: Variables of an agent's environment whose values a command line may use.
KNOWN = (
    *("HOME", "TMPDIR", "USER", "LOGNAME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("FLEET_HOME", "FLEET_TASK_DIR", "FLEET_ARTIFACT_DIR", "FLEET_TASK_ID", "FLEET_BRANCH"),
)


class WriteBounds(Record):
    """The places of a run. All paths are absolute. The longest place that contains a path decides its owner."""

    workspace: str
    places: Mapping[str, str] = MappingProxyType({})  # the owner of each folder
    home: str = ""  # the user's home
    common: str = ""  # the repository's git folder
    admin: str = ""  # the git folder of its own worktree
    branch: str = ""
    others: tuple[str, ...] = ()  # branches that belong to others
    variables: Mapping[str, str] = MappingProxyType({})

    def whose(self, path: str) -> str:
        """Return the owner of the place that contains a path."""
        while len(path) > 1:
            if owner := self.places.get(path):
                return owner
            path = path[: path.rfind("/")]
        return ELSEWHERE

    def judged(self, verb: str, path: str, *, whole: bool = False, exact: bool = True) -> tuple[str, str]:
        """Return how certain it is that an action is out of bounds, and the owner of the place.

        `whole` means that everything below the path is included. Without `exact` the place is somewhere below the path.
        """
        owner = self.whose(path)
        if verb == DELETES and whole and (above := self._find_owner_below(path)):
            return SURE, above if owner in (OWN, ELSEWHERE) else owner
        if owner == OWN or path == "/dev":
            return FINE, owner
        if owner == GIT:
            return self._judge_in_git(verb, path, exact=exact), owner
        if owner in (CHECKOUT, WORKTREE, FLEET):
            return (DOUBTFUL if verb in (MAKES, WORKS) else SURE), owner
        if owner == HOME:
            return self._judge_in_home(verb, path, exact=exact), owner
        if verb == WORKS:
            return FINE, owner
        sure = verb == DELETES and exact and (owner == SYSTEM or whole)
        return (SURE if sure else DOUBTFUL), owner

    def _find_owner_below(self, path: str) -> str:
        """Return the owner of a protected place below a folder, which would be deleted with it.

        Return "" if none exists.
        """
        inner = self.workspace + "/"
        others = [each for each in self.places.items() if each[1] not in (OWN, SYSTEM)]
        kept = [(folder, owner) for folder, owner in others if not folder.startswith(inner)]
        if path == "/" or (self.workspace != path and _contains(path, self.workspace)):
            kept.append((self.workspace, ELSEWHERE))
        return next((owner for folder, owner in kept if folder != path and _contains(path, folder)), "")

    def _judge_in_git(self, verb: str, path: str, *, exact: bool) -> str:
        base = self.common if _contains(self.common, path) else os.path.join(self.workspace, ".git")
        inner = path[len(base) :].strip("/")
        if verb == WORKS:
            return FINE
        if inner.endswith(".lock") or (inner and inner.split("/")[0] not in VITAL):
            return DOUBTFUL if self.admin else FINE  # an agent without its own worktree may use the folder
        return SURE if exact or inner else DOUBTFUL

    def _judge_in_home(self, verb: str, path: str, *, exact: bool) -> str:
        inner = path[len(self.home) :].strip("/")
        if any(_contains(cache, inner) for cache in CACHES) or _is_coders_own(inner) or verb == WORKS:
            return FINE
        if verb == MAKES or not exact:
            return DOUBTFUL
        vital = inner.startswith(".") and not any(_contains(folder, inner) for folder in PROGRAMS)
        return SURE if verb == DELETES or vital else DOUBTFUL


def bounds_of(
    home: Home, folder: str, directory: str, workspace: Workspace | None, env: Mapping[str, str]
) -> WriteBounds:
    """Return the bounds of a task's run in `directory`, which is its worktree or was named for it.

    `folder` is the folder of the task.
    """
    user = env.get("HOME", "")
    repository = _find_repository(directory, workspace)
    places = _outer(home, user, env)
    others: tuple[str, ...] = ()
    branch = workspace.branch if workspace else ""
    if repository and workspace:
        places += [(repository.top, CHECKOUT), (repository.common, GIT)] if repository.top != "/" else []
        places += [
            (path, WORKTREE) for path in _list_other_worktrees(home, repository) if path != _resolve_path(directory)
        ]
        others = _list_taken_branches(repository, directory, branch)
        places += _find_parent_place(directory, [repository.top, user])
    elif repository:
        places += [(find_checkout(directory) or directory, OWN), (repository.common, GIT)]
    admin = str(workspace.made.get("admin") or "") if workspace else ""
    places += [(admin, OWN)] if admin else []
    places += [(os.path.join(directory, ".git"), GIT), (directory, OWN), (folder, OWN)]
    return WriteBounds(
        workspace=_resolve_path(directory),
        places=dict(_add_real_paths(places)),
        home=_resolve_path(user) if user else "",
        common=repository.common if repository else "",
        admin=admin,
        branch=branch,
        others=others,
        variables={name: env[name] for name in KNOWN if env.get(name)},
    )


def _outer(home: Home, user: str, env: Mapping[str, str]) -> list[tuple[str, str]]:
    own = [*TEMPORARY, *DEVICES, env.get("TMPDIR", ""), env.get("XDG_CACHE_HOME", ""), env.get("XDG_RUNTIME_DIR", "")]
    found = [(path, SYSTEM) for path in THE_SYSTEMS] + [(path, OWN) for path in own if len(path) > 1]
    found += [(user, HOME)] if len(user) > 1 else []
    return [*found, (home.root, FLEET), (home.worktrees, WORKTREE)]


def _list_other_worktrees(home: Home, repository: Repository) -> list[str]:
    """Return the worktrees of a repository outside of fleet's own folder, which is a place already."""
    return [path for _, path in worktrees(repository) if path and not _contains(home.worktrees, path)]


def _list_taken_branches(repository: Repository, directory: str, branch: str) -> tuple[str, ...]:
    """Return branches that others have checked out. Branches that the run itself checked out are its own."""
    own, taken = _resolve_path(directory), branches_checked_out(repository).items()
    return tuple(name for name, path in taken if name != branch and _resolve_path(path) != own)


def _find_repository(directory: str, workspace: Workspace | None) -> Repository | None:
    if workspace is not None:
        return Repository(top=workspace.repo, common=workspace.common)
    try:
        return find_repository(directory) if find_checkout(directory) else None
    except (NoRepository, NotOwned, OSError):
        return None


def _find_parent_place(directory: str, above: list[str]) -> list[tuple[str, str]]:
    """Return the parent of a worktree as a place of worktrees, unless it also contains one of the folders `above`."""
    parent = os.path.dirname(directory)
    shared = any(_contains(parent, _resolve_path(path)) or _contains(parent, path) for path in above if path)
    return [] if shared or len(parent) < 2 else [(parent, WORKTREE)]


def _add_real_paths(places: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Yield each place with its given path and its real path, because an agent may use either."""
    for path, owner in places:
        yield os.path.normpath(path), owner
        if not path.startswith("/dev/"):  # some of these paths lead to files that this process has open
            yield _resolve_path(path), owner


def _resolve_path(path: str) -> str:
    return os.path.realpath(path)


def _contains(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_coders_own(inner: str) -> bool:
    for coder in CODERS:
        if _contains(coder, inner):
            part = inner[len(coder) :].strip("/").split("/")[0]
            return part in CODERS_OWN
    return False
