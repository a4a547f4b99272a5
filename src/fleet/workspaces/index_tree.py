"""The tree that an index is of, read from the index itself: git notes it there, and takes the note away at a change."""

# ruff: noqa: PTH123
from __future__ import annotations

import re

#: What git writes first of the noted trees: no path, for it is the root; how many files and how many trees are in it.
ROOT = re.compile(rb"\0(\d+) \d+\n")
#: The only trees that are noted are those of repositories with names of this length; others are not looked for.
SHA1 = 20
MARK = b"TREE"
HEADER = 8


def tree_of_index(path: str) -> str:
    """The id of the tree with just the files of an index; empty where the index does not say. Raises OSError."""
    with open(path, "rb") as file:
        data = file.read()
    found = ROOT.match(data, _notes(data) or len(data))
    if found is None or int(found[1]) != int.from_bytes(data[8:12], "big"):
        return ""
    return data[found.end() : found.end() + SHA1].hex()


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
