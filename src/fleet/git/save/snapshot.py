"""Snapshots of a worktree: the tree of tracked, changed and untracked files, without running an agent's code.

Git runs on fleet's view with an index of fleet. `git add` and `git status` would run git inside nested repositories
with their settings; listing files and adding them by name never does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.files import make_private
from fleet.git.commits import tree_of
from fleet.git.process import GitFault
from fleet.git.worktree_index import LIST, LeftOutFile, filtered_by_them, sort_out, sparse_paths, unknown_filters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.git.view import View
    from fleet.git.worktree_place import WorktreePlace


# Git's paths may contain any bytes.
# ruff: noqa: PTH118


#: Names that git accepts in no tree, because some system would treat them as a repository's own folder.
REFUSED = re.compile(rb"(\.git|git~1)[ .]*(:.*)?", re.IGNORECASE | re.DOTALL)
#: Maximum number of paths in one call of git.
AT_ONCE = 5000


def put_files(view: View, root: str, index: str, files: Iterable[tuple[bytes, bytes]]) -> None:
    """Add files in their current state to an index: pairs of the path below `root` and the name in the index."""
    plain: list[tuple[bytes, bytes, bytes]] = []
    links: list[tuple[bytes, bytes]] = []
    for path, name in files:
        where = os.path.join(os.fsencode(root), path)
        mode = os.lstat(where).st_mode
        if stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
            os.chmod(where, 0o600)  # noqa: PTH101
        if stat.S_ISLNK(mode):
            links.append((path, name))
        else:
            plain.append((b"100755" if mode & stat.S_IXUSR else b"100644", path, name))
    for some in _split_entries(plain):
        ids = _hash_files(view, root, [path for _, path, _ in some])
        enter(view, index, [(mode, made, name) for (mode, _, name), made in zip(some, ids, strict=True)])
    for path, name in links:
        target = os.readlink(os.path.join(os.fsencode(root), path))  # noqa: PTH115
        made = view.git("hash-object", "-w", "--no-filters", "--stdin", stdin=target).strip()
        enter(view, index, [(b"120000", made, name)])


def drop_files(view: View, root: str, index: str, names: Iterable[bytes]) -> None:
    gone = b"\0".join(names)
    if gone:
        view.git("update-index", "-z", "--force-remove", "--stdin", tree=root, index=index, stdin=gone)


def enter(view: View, index: str, entries: list[tuple[bytes, bytes, bytes]]) -> None:
    """Add entries of mode, object and name to an index."""
    if not entries:
        return
    lines = b"".join(mode + b" " + made + b"\t" + name + b"\0" for mode, made, name in entries)
    view.git("update-index", "-z", "--index-info", index=index, stdin=lines)


def storable(path: bytes) -> bytes:
    """Return the path, or a similar one without parts that git refuses."""
    parts = path.split(b"/")
    return b"/".join(
        part.replace(b":", b"_").rstrip(b" .") + b"-saved" if REFUSED.fullmatch(part) else part for part in parts
    )


def _hash_files(view: View, root: str, paths: list[bytes]) -> list[bytes]:
    asked = b"".join(_quote_path(path) + b"\n" for path in paths)
    # Git resolves the names from its working directory.
    return view.git("hash-object", "-w", "--no-filters", "--stdin-paths", tree=root, stdin=asked).split()


def _quote_path(path: bytes) -> bytes:
    """Return a path quoted as git reads it from a line."""
    return b'"' + b"".join(b"\\%03o" % byte if byte < 32 or byte in b'"\\' else bytes([byte]) for byte in path) + b'"'


def _split_entries(entries: list[tuple[bytes, bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes, bytes]]]:
    return (entries[first : first + AT_ONCE] for first in range(0, len(entries), AT_ONCE))


# Git's paths may contain any bytes.
# ruff: noqa: PTH108, PTH120


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


class WorktreeTree(Record):
    """The tree of a worktree."""

    tree: str
    changed: tuple[str, ...] = ()  # paths that differ from the base commit
    left_out: tuple[LeftOutFile, ...] = ()


def note_taken_over(index: str, commit: str) -> None:
    """Note that an index of fleet's is the one that git made when it checked out a commit."""
    if len(_taken_over) >= MOST_TAKEN:
        _taken_over.clear()
    _taken_over[index] = _identify_file(index), commit


def _is_taken_over(index: str, commit: str) -> bool:
    """Return True if an index is unchanged since git checked out a commit with it. Asked once, before it changes."""
    known = _taken_over.pop(index, None)
    with contextlib.suppress(OSError):
        found = _identify_file(index)
        return known == (found, commit) and found[0] <= LARGEST_INDEX
    return False


def _identify_file(path: str) -> tuple[int, ...]:
    found = os.lstat(path)
    return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


class Snapshot:
    """Repeated snapshots of one worktree, which do not read unchanged files again."""

    def __init__(self, view: View, place: WorktreePlace, index_file: str) -> None:
        self._view = view
        self._place = place
        self._index = index_file

    def tree(self, base: str) -> str:
        """Return the id of the current tree, without ignored files."""
        return self.take(base, again=True).tree

    def take(self, base: str, *, again: bool = False) -> WorktreeTree:
        """Return the current tree and its differences from the commit `base`. Raises GitFault.

        Pass `again` if more snapshots follow.
        """
        make_private(os.path.dirname(self._index))
        with _hold_index(self._index):
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._read(base, again=again)
                    return self._take_once(base)
                except GitFault:
                    if attempt == ATTEMPTS:
                        raise
        raise AssertionError("unreachable")

    def _take_once(self, base: str) -> WorktreeTree:
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
        notes += [LeftOutFile(path=os.fsdecode(path), why="a separate repository") for path in found.nested]
        changed = tuple(os.fsdecode(path) for path in sorted({*put, *gone}))
        if by_them:  # some of these entries may equal those in the base
            told = self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, tree)
            changed = tuple(os.fsdecode(path) for path in told.split(b"\0") if path)
        return WorktreeTree(tree=tree, changed=changed, left_out=(*found.left_out, *notes))

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


def _filter_note(path: bytes, name: str) -> LeftOutFile:
    return LeftOutFile(path=os.fsdecode(path), why=f"its filter {name} is not run by fleet")


@contextlib.contextmanager
def _hold_index(index: str) -> Iterator[None]:
    """Hold the lock of this index, so that any lock of git on it is stale and can be removed."""
    handle = os.open(index + ".use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(index + ".lock")
        yield
    finally:
        os.close(handle)
