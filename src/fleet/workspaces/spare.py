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
import threading
import time
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.workspaces.git import git
from fleet.workspaces.registering import is_usual, point
from fleet.workspaces.sharing import RECENT_SECONDS
from fleet.workspaces.touched import gnu_find, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.workspaces.repository import Repository

    Files = tuple[bytes, ...]

#: As worktrees that wait for their deletion are called.
ASIDE = ".gone-"
TREE, INDEX = "tree", "index"
SMALL = 300
#: A partial clone fetches what it lacks when it is checked out.
FETCHING = {"GIT_NO_LAZY_FETCH": "0"}


class Spare:
    """One checkout that nobody has yet."""

    def __init__(self, folder: str, handle: int, commit: str) -> None:
        self._folder, self._handle, self._commit = folder, handle, commit
        self._tree, self._index = os.path.join(folder, TREE), os.path.join(folder, INDEX)
        self._seen: list[tuple[str, int, int]] = []
        self._files: Files = ()
        self._is_small = False  # so few files that a program of its own would take longer
        self._moved = ""
        self._turn = threading.Lock()  # of who looks, and who moves it
        self._looked = 0.0  # when it was last as git wrote it
        self.bytes = 0  # what it takes on the disk, about

    def take_note(self) -> None:
        """Remember what tells whether anything is added to it or taken from it. Raises OSError."""
        self._seen, self.bytes = _directories(self._tree)
        self._files = _files(self._tree, by_hand=True)
        self._is_small = len(self._files) < SMALL
        self._files = self._files if self._is_small else _files(self._tree)
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
        with self._turn:
            return self.is_untouched() and self._move_in(path, admin)

    def _move_in(self, path: str, admin: str) -> bool:
        index = os.path.join(admin, "index")
        point(self._tree, admin)
        shutil.copy2(self._index, index)  # with its time; the repository may lie on another disk
        try:
            os.rename(self._tree, path)
        except OSError:
            os.unlink(index)
            return False
        os.unlink(self._index)
        self._moved = path
        return True

    def is_checked_out(self, path: str, commit: str) -> bool:
        """Whether it became the worktree at a path, and is this commit, file for file as git wrote it."""
        if self._moved != path or self._commit != commit:
            return False
        return time.monotonic() - self._looked < RECENT_SECONDS or self._is_as_written(path)

    def expect(self) -> None:
        """It is about to be taken: look at it now."""
        with self._turn:
            began = time.monotonic()
            if not self._moved and self._is_as_written(self._tree):
                self._looked = began

    def _is_as_written(self, path: str) -> bool:
        try:
            return _files(path, by_hand=self._is_small) == self._files
        except OSError:
            return False

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
        spare = Spare(folder, _hold(folder), commit)
        try:
            os.mkdir(os.path.join(folder, TREE))
            env = FETCHING | {"GIT_DIR": repository.common, "GIT_WORK_TREE": os.path.join(folder, TREE)}
            env |= {"GIT_INDEX_FILE": os.path.join(folder, INDEX)}
            git(
                "read-tree",
                "--reset",
                "-u",
                "--no-recurse-submodules",
                commit,
                cwd=os.path.join(folder, TREE),
                env=env,
                gently=True,
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


def _files(root: str, *, by_hand: bool = False) -> Files:
    """Every file but git's pointer, with what changes when it does. Raises OSError.

    By a program of its own where there is one that can: thousands of looks would have to share this one with others.
    """
    if by_hand or gnu_find() is None:
        return tuple(sorted(_looked_at(root, "")))
    told = listed(root, "-printf", "%P %i %C@\\0")
    if told is None:
        raise OSError(f"cannot look at {root}")
    return tuple(sorted(told.split(b"\0")))


def _looked_at(root: str, folder: str) -> Iterator[bytes]:
    with os.scandir(os.path.join(root, folder)) as entries:
        for entry in entries:
            name = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from _looked_at(root, name)
            elif name != ".git":
                found = entry.stat(follow_symlinks=False)
                yield os.fsencode(f"{name} {found.st_ino} {found.st_ctime_ns}")


def _mark(path: str) -> tuple[str, int, int]:
    found = os.lstat(path)
    return path, found.st_ino, found.st_ctime_ns
