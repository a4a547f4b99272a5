"""Git's records about worktrees, read as data. Git does not run, and nothing that an agent wrote there is obeyed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time

from fleet.core.errors import RepositoryBusy
from fleet.core.record import Record
from fleet.files import read_start

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fleet.git.process import GitFault
    from fleet.git.repository import Repository


# ruff: noqa: PTH118, PTH120, PTH208


#: Longer than any of these files. The rest of a longer file is not read.
LONGEST = 8192
MOST_FOLDERS = 10_000
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: Files that git keeps in a worktree's folder during an operation, and the operation's name.
GOING_ON = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


class WorktreeState(Record):
    """The state of a worktree on disk."""

    path: str
    exists: bool  # a folder exists at the path
    admin: str | None  # git's folder for it; None if git knows no worktree here
    branch: str | None = None  # the branch that is checked out
    commit: str | None = None  # the commit that is checked out, if no branch is
    going_on: tuple[str, ...] = ()  # operations: rebase, merge, cherry-pick, revert, bisect
    tampered: tuple[str, ...] = ()  # pointers that do not lead where git set them: .git, commondir, gitdir, HEAD, admin


def state_of(repository: Repository, path: str, admin: str = "") -> WorktreeState:
    """Return the state of the worktree at a path. `admin` is git's folder for it, if known from its creation."""
    path = real(path)
    admin = admin or admin_of(repository, path) or ""
    exists = os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114
    if not admin or not _is_folder(admin):
        return WorktreeState(path=path, exists=exists, admin=None, tampered=("admin",) if exists else ())
    branch, commit = head_of(admin)
    going_on = {word for name, word in GOING_ON.items() if os.path.lexists(os.path.join(admin, name))}
    return WorktreeState(
        path=path,
        exists=exists,
        admin=admin,
        branch=branch,
        commit=commit,
        going_on=tuple(sorted(going_on)),
        tampered=_tampered(repository, path, admin) if exists else (),
    )


def admin_of(repository: Repository, path: str) -> str | None:
    """Return git's folder for the worktree at a path. Only that folder's own record counts, not the worktree's."""
    place = real(path)
    return next((admin for admin, where in worktrees(repository) if where == place), None)


def worktrees(repository: Repository) -> list[tuple[str, str]]:
    """Return git's folder and the path of each worktree. The path is "" if the folder does not name one."""
    folder = os.path.join(repository.common, "worktrees")
    if not _is_folder(folder):
        return []
    found = []
    for name in sorted(os.listdir(folder))[:MOST_FOLDERS]:
        admin = os.path.join(folder, name)
        if _is_folder(admin):
            found.append((admin, place_of(admin)))
    return found


def branches_checked_out(repository: Repository) -> dict[str, str]:
    """Return each branch that is checked out or being rebased, and where, in the main checkout and all worktrees."""
    places = [] if repository.top == repository.common else [(repository.common, repository.top)]
    found: dict[str, str] = {}
    for admin, path in places + worktrees(repository):
        heads = (head_of(admin)[0], _read_rebased(admin, "rebase-merge"), _read_rebased(admin, "rebase-apply"))
        for branch in heads:
            if branch:
                found.setdefault(branch, path)
    return found


def head_of(admin: str) -> tuple[str | None, str | None]:
    """Return the branch or the commit that is checked out. Both are None if HEAD is invalid."""
    text = read(os.path.join(admin, "HEAD")).strip()
    if text.startswith("ref: refs/heads/"):
        return text.removeprefix("ref: refs/heads/"), None
    return None, text if COMMIT.fullmatch(text) else None


def read(path: str, limit: int = LONGEST) -> str:
    """Return the beginning of a regular file as text, or "". Links are not followed, and pipes do not block."""
    return os.fsdecode(read_start(path, limit))


def real(path: str) -> str:
    """Return the path as git writes it.

    Links are resolved except in the last name, which an agent could make a link.
    """
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    return os.path.join(os.path.realpath(folder), name)


def _tampered(repository: Repository, path: str, admin: str) -> tuple[str, ...]:
    pointer = read(os.path.join(path, ".git"))
    checks = {
        ".git": pointer.startswith("gitdir: ") and leads(path, pointer.removeprefix("gitdir: ")) == admin,
        "commondir": leads(admin, read(os.path.join(admin, "commondir"))) == repository.common,
        "gitdir": place_of(admin) == path,
        "HEAD": any(head_of(admin)),
    }
    return tuple(name for name, right in checks.items() if not right)


def place_of(admin: str) -> str:
    """Return the worktree's path from git's folder for it, or "" if the folder names none."""
    text = read(os.path.join(admin, "gitdir")).removesuffix("\n")
    return os.path.dirname(leads(admin, text)) if text else ""


def leads(folder: str, text: str) -> str:
    """Return the path that the text of a pointer file in a folder leads to."""
    return os.path.normpath(os.path.join(folder, text.removesuffix("\n"))).replace("\0", "")


def _read_rebased(admin: str, what: str) -> str | None:
    text = read(os.path.join(admin, what, "head-name")).strip()
    return text.removeprefix("refs/heads/") if text.startswith("refs/heads/") else None


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


# ruff: noqa: PTH108, PTH115, PTH120, PTH123, PTH208


#: Git holds a lock for moments, or for some seconds on a slow disk.
STALE_SECONDS = 10.0
NAMED = re.compile(r"'([^'\n]+\.lock)'")


def lock_named(fault: GitFault) -> str | None:
    """Return the lock that git found taken, according to its message, or None."""
    if "File exists" not in fault.said:
        return None
    found = NAMED.search(fault.said)
    return found.group(1) if found else None


def clear_stale(repository: Repository, lock: str, *, seconds: float = STALE_SECONDS) -> bool:
    """Remove a lock of the repository if it is old and no live git can own it. Return True if the lock is gone."""
    folder = os.path.realpath(os.path.dirname(lock))
    if folder != repository.common and not folder.startswith(repository.common + os.sep):
        return False
    try:
        found = os.lstat(lock)
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(found.st_mode) or time.time() - found.st_mtime < seconds or git_lives(repository):
        return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(lock)
    return True


def busy(lock: str) -> RepositoryBusy:
    """Return the error for a repository that is locked."""
    return RepositoryBusy(
        f"the repository is locked by {lock}",
        hint="wait for the git process there; if none is running, delete that file",
    )


def git_lives(repository: Repository) -> bool:
    """Return True if a git process may be working on this repository. True if processes cannot be listed."""
    places = [repository.top, repository.common, *(path for _, path in worktrees(repository) if path)]
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    return any(_is_working_there(pid, places, repository) for pid in pids)


def _is_working_there(pid: str, places: list[str], repository: Repository) -> bool:
    if not _read(pid, "comm").startswith(b"git"):
        return False
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except FileNotFoundError:  # it has ended
        return False
    except OSError:  # another user's process, which might
        return True
    words = _read(pid, "cmdline") + _read(pid, "environ")
    # The path of fleet's view of a repository contains its key.
    names = (os.fsencode(repository.common), os.fsencode(repository.key))
    return any(cwd == place or cwd.startswith(place + os.sep) for place in places) or any(n in words for n in names)


def _read(pid: str, what: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""
