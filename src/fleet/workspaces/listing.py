"""Git's list of a worktree's files, and how to handle each path by its state on disk."""

# Git's paths may contain any bytes.
# ruff: noqa: PTH118, PTH120
from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Changed, deleted and untracked files with their tags. A nested repository appears as one directory and is not
#: entered.
LIST = ("ls-files", "-z", "-t", "-o", "-m", "-d", "--exclude-standard")

#: The same with ignored files. A directory with only such files appears as one entry, so the list is usually short.
LIST_ALL = ("ls-files", "-z", "-t", "-o", "-m", "-d", "--directory")


class LeftOut(Record):
    """A file that is not in the tree, and the reason."""

    path: str
    why: str


class Sorted(Record):
    """The paths of a listing, by how to handle them."""

    put: tuple[bytes, ...] = ()
    gone: tuple[bytes, ...] = ()
    nested: tuple[bytes, ...] = ()  # directories that are separate repositories
    left_out: tuple[LeftOut, ...] = ()


def sort_out(root: str, listing: bytes, *, largest: int | None, most_untracked: int | None) -> Sorted:
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
        elif why := _refusal(found, largest):
            left_out.append(LeftOut(path=os.fsdecode(path), why=why))
        elif tag != b"?" or most_untracked is None or untracked <= most_untracked:
            put.append(path)
    if most_untracked is not None and untracked > most_untracked:
        why = f"of {untracked:,} untracked files only {most_untracked:,} were taken"
        left_out.append(LeftOut(path=".", why=why))
    return Sorted(put=tuple(put), gone=tuple(gone), nested=tuple(nested), left_out=tuple(left_out))


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


def _refusal(found: os.stat_result, largest: int | None) -> str:
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        return "no plain file"
    if largest is not None and found.st_size > largest:
        return f"larger than {largest // 1024 // 1024} MB"
    return ""
