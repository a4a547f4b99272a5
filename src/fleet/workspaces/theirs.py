"""The worktree's own index, read as data: what was never checked out, and what a filter of the agent's made.

It is a copy of what the agent could write; git reads it on fleet's view and obeys no setting of the agent's.
"""

# ruff: noqa: PTH108, PTH118, PTH120, PTH123
from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from fleet.workspaces.listing import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fleet.workspaces.place import Place
    from fleet.workspaces.view import View

#: git's exit code when an index makes no sense: then it says nothing.
BROKEN = (128,)
#: How an index begins that has no room for the mark of a file that was never checked out.
PLAIN_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")  # of an index in which each path stands whole
ATTRIBUTES = b".gitattributes"
PLAIN_INDEX = b"DIRC\0\0\0\2"


def unknown_filters(view: View, place: Place, index: str, paths: Iterable[bytes]) -> dict[bytes, str]:
    """Files that a program fleet does not run makes into what git holds: git-crypt's would go in as plain text."""
    wanted = list(paths)
    if not wanted or not _has_attributes(place.path, index, wanted):
        return {}
    asked = b"\0".join(wanted)
    told = view.git("check-attr", "-z", "--stdin", "filter", tree=place.path, index=index, stdin=asked).split(b"\0")
    answers = {path: os.fsdecode(value) for path, value in zip(told[::3], told[2::3], strict=False)}
    if set(answers.values()) <= {"unspecified", "unset"}:
        return {}
    plain = {"unspecified", "unset", *_known_filters(view)}
    return {path: name for path, name in answers.items() if name not in plain}


def _has_attributes(root: str, index: str, paths: Iterable[bytes]) -> bool:
    """Whether a file says anything of these paths: one that lies above them, or one in the index."""
    with open(index, "rb") as file:
        known = file.read()
    if known[4:8] not in PLAIN_VERSIONS or ATTRIBUTES in known:
        return True
    folders, top = {b""}, os.fsencode(root)
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    return any(os.path.lexists(os.path.join(top, folder, ATTRIBUTES)) for folder in folders)


def filtered_by_them(
    view: View, place: Place, copy: str, filtered: Mapping[bytes, str]
) -> dict[bytes, tuple[bytes, bytes, bytes]]:
    """Of these files the entries of the worktree's index that are up to date: there their filter did run."""
    if not filtered:
        return {}
    with _their_index(place, copy) as theirs:
        if not theirs:
            return {}
        listing = view.git("ls-files", "-z", "-t", "-m", tree=place.path, index=theirs, allow=BROKEN)
        told = view.git("ls-files", "-z", "-s", index=theirs, allow=BROKEN)
    changed = {path for _, path in listed(listing)}
    rows = (row.partition(b"\t") for row in told.split(b"\0"))
    heads = {path: head.split(b" ") for head, _, path in rows if head.endswith(b" 0")}
    entries = {path: (heads[path][0], heads[path][1], path) for path in filtered if path in heads.keys() - changed}
    there = _blobs(view, [made for _, made, _ in entries.values()])
    return {path: entry for path, entry in entries.items() if entry[1] in there}


def sparse_paths(view: View, place: Place, copy: str) -> set[bytes]:
    """What the worktree's own index says was never checked out there: missing, but not deleted."""
    if place.head_of_index() == PLAIN_INDEX:
        return set()
    with _their_index(place, copy) as theirs:
        listing = view.git("ls-files", "-z", "-t", index=theirs, allow=BROKEN) if theirs else b""
    return {path for tag, path in listed(listing) if tag in (b"S", b"s")}


@contextlib.contextmanager
def _their_index(place: Place, copy: str) -> Iterator[str]:
    """A copy of the worktree's own index, to be read; nothing when there is none."""
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


def _blobs(view: View, ids: Iterable[bytes]) -> set[bytes]:
    told = view.git("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=b"".join(i + b"\n" for i in ids))
    return {line.split(b" ")[0] for line in told.splitlines() if line.endswith(b" blob")}


def _known_filters(view: View) -> set[str]:
    """The filters that fleet's own settings run."""
    told = view.git("config", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$", allow=(1,))
    return {line.removeprefix("filter.").rpartition(".")[0] for line in told.decode(errors="replace").splitlines()}
