"""Git's list of a worktree's files, and the worktree's own index read as data."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fleet.git.view import View
    from fleet.git.worktree_place import WorktreePlace


# Git's paths may contain any bytes.
# ruff: noqa: PTH118, PTH120


#: Changed, deleted and untracked files with their tags. A nested repository appears as one directory and is not
#: entered.
LIST = ("ls-files", "-z", "-t", "-o", "-m", "-d", "--exclude-standard")

#: The same with ignored files. A directory with only such files appears as one entry, so the list is usually short.
LIST_ALL = ("ls-files", "-z", "-t", "-o", "-m", "-d", "--directory")


class LeftOutFile(Record):
    """A file that is not in the tree, and the reason."""

    path: str
    why: str


class SortedFiles(Record):
    """The paths of a listing, by how to handle them."""

    put: tuple[bytes, ...] = ()
    gone: tuple[bytes, ...] = ()
    nested: tuple[bytes, ...] = ()  # directories that are separate repositories
    left_out: tuple[LeftOutFile, ...] = ()


def sort_out(root: str, listing: bytes, *, largest: int | None, most_untracked: int | None) -> SortedFiles:
    """Return how to handle each path of `ls-files -z -t`, by its state on disk."""
    put, gone, nested, left_out = [], [], [], []
    real, untracked = Directories(root), 0
    for tag, path in listed(listing):
        untracked += tag == b"?"
        found = real.lstat(path.rstrip(b"/"))
        if found is None:
            gone += [path] if tag != b"?" else []
        elif stat.S_ISDIR(found.st_mode):
            nested.append(path.rstrip(b"/"))
        elif why := _explain_refusal(found, largest):
            left_out.append(LeftOutFile(path=os.fsdecode(path), why=why))
        elif tag != b"?" or most_untracked is None or untracked <= most_untracked:
            put.append(path)
    if most_untracked is not None and untracked > most_untracked:
        why = f"of {untracked:,} untracked files only {most_untracked:,} were taken"
        left_out.append(LeftOutFile(path=".", why=why))
    return SortedFiles(put=tuple(put), gone=tuple(gone), nested=tuple(nested), left_out=tuple(left_out))


class Directories:
    """Access to files below a root that never passes through a link."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(os.path.realpath(root))
        self._plain: dict[bytes, bool] = {b"": True}

    def lstat(self, path: bytes) -> os.stat_result | None:
        """Return the stat result, or None if the path is missing or passes through a link."""
        if not self._is_plain(os.path.dirname(path)):
            return None
        try:
            return os.lstat(os.path.join(self._root, path))
        except OSError:
            return None

    def _is_plain(self, folder: bytes) -> bool:
        known = self._plain.get(folder)
        if known is None:
            found = self.lstat(folder)
            known = self._plain[folder] = found is not None and stat.S_ISDIR(found.st_mode)
        return known


def listed(listing: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the tag and path of each entry, each path once. Git lists a deleted file as modified too."""
    seen: set[bytes] = set()
    for entry in listing.split(b"\0"):
        tag, _, path = entry.partition(b" ")
        if path and path not in seen:
            seen.add(path)
            yield tag, path


def _explain_refusal(found: os.stat_result, largest: int | None) -> str:
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        return "no plain file"
    if largest is not None and found.st_size > largest:
        return f"larger than {largest // 1024 // 1024} MB"
    return ""


# ruff: noqa: PTH108, PTH123


#: Git's exit code for an invalid index, which then counts as empty.
BROKEN = (128,)


def unknown_filters(view: View, place: WorktreePlace, index: str, paths: Iterable[bytes]) -> dict[bytes, str]:
    """Return the files with a filter that fleet does not run, by path.

    For example, files of git-crypt would otherwise be stored as plain text.
    """
    wanted = list(paths)
    if not wanted:
        return {}
    asked = b"\0".join(wanted)
    told = view.git("check-attr", "-z", "--stdin", "filter", tree=place.path, index=index, stdin=asked).split(b"\0")
    answers = {path: os.fsdecode(value) for path, value in zip(told[::3], told[2::3], strict=False)}
    if set(answers.values()) <= {"unspecified", "unset"}:
        return {}
    plain = {"unspecified", "unset", *_list_known_filters(view)}
    return {path: name for path, name in answers.items() if name not in plain}


def filtered_by_them(
    view: View, place: WorktreePlace, copy: str, filtered: Mapping[bytes, str]
) -> dict[bytes, tuple[bytes, bytes, bytes]]:
    """Return the entries of these files in the worktree's index that are up to date.

    For these, the agent's filter did run.
    """
    if not filtered:
        return {}
    with _copy_index(place, copy) as theirs:
        if not theirs:
            return {}
        listing = view.git("ls-files", "-z", "-t", "-m", tree=place.path, index=theirs, allow=BROKEN)
        told = view.git("ls-files", "-z", "-s", index=theirs, allow=BROKEN)
    changed = {path for _, path in listed(listing)}
    rows = (row.partition(b"\t") for row in told.split(b"\0"))
    heads = {path: head.split(b" ") for head, _, path in rows if head.endswith(b" 0")}
    entries = {path: (heads[path][0], heads[path][1], path) for path in filtered if path in heads.keys() - changed}
    there = {made.encode() for made, kind in view.kinds(made for _, made, _ in entries.values()) if kind == "blob"}
    return {path: entry for path, entry in entries.items() if entry[1] in there}


def sparse_paths(view: View, place: WorktreePlace, copy: str) -> set[bytes]:
    """Return the paths that were never checked out according to the worktree's index: missing but not deleted."""
    with _copy_index(place, copy) as theirs:
        listing = view.git("ls-files", "-z", "-t", index=theirs, allow=BROKEN) if theirs else b""
    return {path for tag, path in listed(listing) if tag in (b"S", b"s")}


@contextlib.contextmanager
def _copy_index(place: WorktreePlace, copy: str) -> Iterator[str]:
    """Yield the path of a copy of the worktree's index, or "" if it has none."""
    data = place.read("index")
    if not data:
        yield ""
        return
    try:
        with open(copy, "wb") as file:
            file.write(data)
        yield copy
    finally:
        os.unlink(copy)


def _list_known_filters(view: View) -> set[str]:
    """Return the filters that fleet's settings run."""
    told = view.git("config", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$", allow=(1,))
    return {line.removeprefix("filter.").rpartition(".")[0] for line in told.decode(errors="replace").splitlines()}
