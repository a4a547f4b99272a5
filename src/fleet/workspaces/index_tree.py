"""The tree that an index is of, read from the index itself: git notes it there, and takes the note away at a change.

Where the note is gone, those of the folders in which nothing changed are still there: the others are written here.
"""

# ruff: noqa: PTH123
from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from fleet.workspaces.objects import write_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.workspaces.view import View

#: What git writes first of the noted trees: no path, for it is the root; how many files and how many trees are in it.
ROOT = re.compile(rb"\0(\d+) \d+\n")
#: The only trees that are noted are those of repositories with names of this length; others are not looked for.
SHA1 = 20
MARK = b"TREE"
HEADER = 8
#: How an index begins in which each path stands whole and no entry has more marks than these.
PLAIN = b"DIRC\0\0\0\2"
#: Of an entry: what tells whether its file changed, its mode among it; its object; marks and the length of its path.
ENTRY = struct.Struct(">24xI12x20sH")
#: All marks but the length: one is about a conflict, one hides what changed.
MARKS, LONGEST = 0xF000, 0x0FFF
#: Git itself is quicker with a larger one.
LARGEST = 64 * 1024
NOTE = re.compile(rb"([^\0]*)\0(-?\d+) (\d+)\n")


class Entry(NamedTuple):
    """A file of an index."""

    path: bytes
    mode: int
    id: bytes


def tree_of_index(path: str) -> str:
    """The id of the tree with just the files of an index; empty where the index does not say. Raises OSError."""
    with open(path, "rb") as file:
        data = file.read()
    found = ROOT.match(data, _notes(data) or len(data))
    if found is None or int(found[1]) != int.from_bytes(data[8:12], "big"):
        return ""
    return data[found.end() : found.end() + SHA1].hex()


def write_tree(view: View, path: str) -> str:
    """Write the tree of a small and plain index; its id, empty where that is git's to do. Raises OSError, FleetError.

    What the index names is there: git put it into the repository when it was entered.
    """
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    entries = list(_entries(data)) if len(data) <= LARGEST else []
    if not entries or len(entries) != int.from_bytes(data[8:12], "big"):
        return ""
    noted = dict(_noted(data))
    return _written(view, entries, b"", noted).hex()


def _written(view: View, entries: list[Entry], folder: bytes, noted: dict[bytes, bytes]) -> bytes:
    """The tree of a folder's entries, which are in git's order."""
    rows, at, skip = [], 0, len(folder)
    while at < len(entries):
        name, slash, _ = entries[at].path[skip:].partition(b"/")
        if not slash:
            rows.append(b"%o %s\0%s" % (entries[at].mode, name, entries[at].id))
            at += 1
            continue
        below = folder + name + b"/"
        end = at + 1
        while end < len(entries) and entries[end].path.startswith(below):
            end += 1
        made = noted.get(below[:-1]) or _written(view, entries[at:end], below, noted)
        rows.append(b"40000 %s\0%s" % (name, made))
        at = end
    return bytes.fromhex(write_object(view, b"tree", b"".join(rows)))


def _entries(data: bytes) -> Iterator[Entry]:
    """The entries of a plain index; it ends early where one is not."""
    if not data.startswith(PLAIN):
        return
    at, end = 12, len(data) - SHA1
    for _ in range(int.from_bytes(data[8:12], "big")):
        if at + ENTRY.size > end:
            return
        mode, made, marks = ENTRY.unpack_from(data, at)
        length = marks & LONGEST
        start = at + ENTRY.size
        if marks & MARKS or length == LONGEST:
            return
        yield Entry(data[start : start + length], mode, made)
        at += (ENTRY.size + length + HEADER) & ~7  # at least one NUL, up to a multiple of eight


def _noted(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The folders whose trees an index still notes."""
    at, above = _notes(data), [(b"", 1)]
    while at and above:
        folder, left = above.pop()
        found = NOTE.match(data, at) if left else None
        if found is None:
            continue
        name, count, below = found[1], int(found[2]), int(found[3])
        at = found.end()
        path = b"/".join(part for part in (folder, name) if part)
        if count >= 0:
            yield path, data[at : at + SHA1]
            at += SHA1
        above += [(folder, left - 1), (path, below)]


def _notes(data: bytes) -> int:
    """Where an index begins to note trees; 0: nowhere."""
    at = data.rfind(MARK)
    while at >= 0:
        if _is_extension(data, at):
            return at + HEADER
        at = data.rfind(MARK, 0, at)
    return 0


def _is_extension(data: bytes, at: int) -> bool:
    """Whether from here on there are extensions up to the checksum at the end, and not the name of a file."""
    end = len(data) - SHA1
    while at + HEADER <= end:
        if not data[at : at + 4].isalpha():
            return False
        at += HEADER + int.from_bytes(data[at + 4 : at + HEADER], "big")
    return at == end
