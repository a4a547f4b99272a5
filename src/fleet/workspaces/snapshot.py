"""Snapshots of a worktree: the tree of tracked, changed and untracked files, without running an agent's code.

Git runs on fleet's view with an index of fleet. `git add` and `git status` would run git inside nested repositories
with their settings; listing files and adding them by name never does.
"""

# Git's paths may contain any bytes.
# ruff: noqa: PTH108, PTH120
from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.files import make_private
from fleet.workspaces.commits import tree_of
from fleet.workspaces.contents import drop_files, enter
from fleet.workspaces.git import GitFault
from fleet.workspaces.listing import LIST, LeftOut, sort_out
from fleet.workspaces.theirs import filtered_by_them, sparse_paths, unknown_filters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.workspaces.place import Place
    from fleet.workspaces.view import View

#: Larger files are not put into a commit that fleet makes on its own initiative.
LARGEST_BYTES = 100 * 1024 * 1024
#: More untracked files than this are a mistake, such as a forgotten `node_modules`, and not work.
MOST_UNTRACKED = 200_000
#: A larger index is always read into again: git would compare files of the index's own second in each later step.
LARGEST_INDEX = 1 << 16
#: What tells each index that fleet took over from a new worktree, and the commit that was checked out.
MOST_TAKEN = 1024
_taken_over: dict[str, tuple[tuple[int, ...], str]] = {}
#: How often a snapshot is tried, because files come and go while an agent works.
ATTEMPTS = 3


class Taken(Record):
    """The tree of a worktree."""

    tree: str
    changed: tuple[str, ...] = ()  # paths that differ from the base commit
    left_out: tuple[LeftOut, ...] = ()


def note_taken_over(index: str, commit: str) -> None:
    """Note that an index of fleet's is the one that git made when it checked out a commit."""
    if len(_taken_over) >= MOST_TAKEN:
        _taken_over.clear()
    _taken_over[index] = _identity(index), commit


def _is_taken_over(index: str, commit: str) -> bool:
    """Return True if an index is unchanged since git checked out a commit with it. Asked once, before it changes."""
    known = _taken_over.pop(index, None)
    with contextlib.suppress(OSError):
        found = _identity(index)
        return known == (found, commit) and found[0] <= LARGEST_INDEX
    return False


def _identity(path: str) -> tuple[int, ...]:
    found = os.lstat(path)
    return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


class Snapshot:
    """Repeated snapshots of one worktree, which do not read unchanged files again."""

    def __init__(self, view: View, place: Place, index_file: str) -> None:
        self._view = view
        self._place = place
        self._index = index_file

    def tree(self, base: str) -> str:
        """Return the id of the current tree, without ignored files."""
        return self.take(base, again=True).tree

    def take(self, base: str, *, again: bool = False) -> Taken:
        """Return the current tree and its differences from the commit `base`. Raises GitFault.

        Pass `again` if more snapshots follow.
        """
        make_private(os.path.dirname(self._index))
        with _alone(self._index):
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._read(base, again=again)
                    return self._take(base)
                except GitFault:
                    if attempt == ATTEMPTS:
                        raise
        raise AssertionError("unreachable")

    def _take(self, base: str) -> Taken:
        found = sort_out(self._place.path, self._git(*LIST), largest=LARGEST_BYTES, most_untracked=MOST_UNTRACKED)
        filtered = unknown_filters(self._view, self._place, self._index, found.put)
        by_them = filtered_by_them(self._view, self._place, self._index + ".theirs", filtered)
        put = [path for path in found.put if path not in filtered]
        sparse = sparse_paths(self._view, self._place, self._index + ".theirs") if found.gone else set()
        gone = [path for path in found.gone if path not in sparse]
        drop_files(self._view, self._place.path, self._index, gone)
        enter(self._view, self._index, list(by_them.values()))
        # Handles files that vanished since the listing, and a file in the place of a folder or the reverse.
        if put:
            self._git("update-index", "-z", "--add", "--replace", "--remove", "--stdin", stdin=b"\0".join(put))
        is_changed = put or gone or by_them
        tree = self._git("write-tree").decode().strip() if is_changed else tree_of(self._view, base)
        notes = [_filter_note(path, name) for path, name in filtered.items() if path not in by_them]
        notes += [LeftOut(path=os.fsdecode(path), why="a repository of its own") for path in found.nested]
        changed = tuple(os.fsdecode(path) for path in sorted({*put, *gone}))
        if by_them:  # some of these entries may equal those in the base
            told = self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, tree)
            changed = tuple(os.fsdecode(path) for path in told.split(b"\0") if path)
        return Taken(tree=tree, changed=changed, left_out=(*found.left_out, *notes))

    def _read(self, base: str, *, again: bool) -> None:
        """Have fleet's index hold the files of a commit."""
        if _is_taken_over(self._index, base) and not again:
            return
        try:
            self._git("read-tree", "-m", base)
        except GitFault:  # no index yet, or an incomplete one
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._index)
            self._git("read-tree", base)
        if again:  # stores the times of unchanged files, so that the next snapshot need not read them
            self._git("update-index", "-q", "--ignore-submodules", "--refresh", allow=(1,))

    def _git(self, *words: str, stdin: bytes = b"", allow: tuple[int, ...] = ()) -> bytes:
        return self._view.git(*words, tree=self._place.path, index=self._index, stdin=stdin, allow=allow)


def _filter_note(path: bytes, name: str) -> LeftOut:
    return LeftOut(path=os.fsdecode(path), why=f"its filter {name} is not fleet's to run")


@contextlib.contextmanager
def _alone(index: str) -> Iterator[None]:
    """Hold the lock of this index, so that any lock of git on it is stale and can be removed."""
    handle = os.open(index + ".use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(index + ".lock")
        yield
    finally:
        os.close(handle)
