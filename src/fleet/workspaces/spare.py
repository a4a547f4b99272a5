"""Spare checkouts: the files of a commit, made before anybody asks, that become a worktree by being renamed.

A spare lies among the worktrees of its repository under a name that every sweep deletes, and is held: as long as we
live nobody sweeps it, and when we are gone, however that came, the next sweep does. What is known of it is in memory
alone: nobody who could write to its files can make us believe that they are as git wrote them.
"""

# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH118
from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.workspaces.git import git
from fleet.workspaces.registering import is_usual, point

if TYPE_CHECKING:
    from fleet.workspaces.repository import Repository

#: As worktrees that wait for their deletion are called.
ASIDE = ".gone-"
TREE, INDEX = "tree", "index"
#: A partial clone fetches what it lacks when it is checked out.
FETCHING = {"GIT_NO_LAZY_FETCH": "0"}


class Spare:
    """One checkout that nobody has yet."""

    def __init__(self, folder: str, handle: int) -> None:
        self._folder, self._handle = folder, handle
        self._tree, self._index = os.path.join(folder, TREE), os.path.join(folder, INDEX)
        self._seen: list[tuple[str, int, int]] = []
        self.bytes = 0  # what it takes on the disk, about

    def take_note(self) -> None:
        """Remember what tells whether anything is added to it or taken from it. Raises OSError."""
        self._seen, self.bytes = _directories(self._tree)
        self._seen.append(_mark(self._index))

    def is_untouched(self) -> bool:
        """Whether every directory has what git put there; of its files git itself will see it."""
        try:
            return all(_mark(path) == (path, inode, at) for path, inode, at in self._seen)
        except OSError:
            return False

    def move_in(self, path: str, admin: str) -> bool:
        """Become the worktree at a path, about which git has this folder; whether that could be. Raises OSError.

        The pointer to git's folder is there before the path is: what a kill leaves at the path is always a worktree.
        """
        if not self.is_untouched():
            return False
        index = os.path.join(admin, "index")
        point(self._tree, admin)
        shutil.copy2(self._index, index)  # with its time; the repository may lie on another disk
        try:
            os.rename(self._tree, path)
        except OSError:
            os.unlink(index)
            return False
        os.unlink(self._index)
        return True

    def let_go(self) -> None:
        """Nobody wants it any more: what is left of it goes at once if it is empty, else with the next sweep."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                os.rmdir(self._folder)
            os.close(self._handle)
            self._handle = -1


def make(repository: Repository, place: str, commit: str) -> Spare | None:
    """Check a commit out into a new spare in a folder; none where worktrees are git's own affair.

    As with a worktree git obeys the repository's settings and filters: only for one that is trusted. Raises FleetError.
    """
    if not is_usual(repository):
        return None
    folder = os.path.join(place, f"{ASIDE}{os.urandom(6).hex()}")
    try:
        os.mkdir(folder, 0o700)
        spare = Spare(folder, _hold(folder))
        try:
            os.mkdir(os.path.join(folder, TREE))
            env = FETCHING | {"GIT_DIR": repository.common, "GIT_WORK_TREE": os.path.join(folder, TREE)}
            env |= {"GIT_INDEX_FILE": os.path.join(folder, INDEX)}
            git(
                "read-tree", "--reset", "-u", "--no-recurse-submodules", commit, cwd=os.path.join(folder, TREE), env=env
            )
            spare.take_note()
        except BaseException:
            spare.let_go()
            raise
    except OSError as error:
        raise FleetError(f"no spare checkout of {repository.top}: {error.strerror}") from error
    return spare


def _hold(folder: str) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _directories(root: str) -> tuple[list[tuple[str, int, int]], int]:
    """Every directory with what changes when an entry of it does, and the size of all files together."""
    marks, size, todo = [_mark(root)], 0, [root]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    marks.append(_mark(entry.path))
                    todo.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_size
    return marks, size


def _mark(path: str) -> tuple[str, int, int]:
    found = os.lstat(path)
    return path, found.st_ino, found.st_ctime_ns
