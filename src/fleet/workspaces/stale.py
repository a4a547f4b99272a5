"""Stale locks of killed git processes, and removing them if no live process can own them."""

# ruff: noqa: PTH108, PTH115, PTH120, PTH123, PTH208
from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from typing import TYPE_CHECKING

from fleet.core.errors import RepositoryBusy
from fleet.workspaces.admin import worktrees

if TYPE_CHECKING:
    from fleet.workspaces.git import GitFault
    from fleet.workspaces.repository import Repository

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
        f"the repository is locked by {lock}", hint="wait for the git that runs there; if none does, delete that file."
    )


def git_lives(repository: Repository) -> bool:
    """Return True if a git process may be working on this repository. True if processes cannot be listed."""
    places = [repository.top, repository.common, *(path for _, path in worktrees(repository) if path)]
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    return any(_works_there(pid, places, repository) for pid in pids)


def _works_there(pid: str, places: list[str], repository: Repository) -> bool:
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
