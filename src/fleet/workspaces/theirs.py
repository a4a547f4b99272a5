"""The worktree's own index, read as data: what was never checked out, and what a filter of the agent's made.

It is a copy of what the agent could write; git reads it on fleet's view and obeys no setting of the agent's.
"""

# ruff: noqa: PTH108, PTH123
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


def unknown_filters(view: View, place: Place, index: str, paths: Iterable[bytes]) -> dict[bytes, str]:
    """Files that a program fleet does not run makes into what git holds: git-crypt's would go in as plain text."""
    wanted = list(paths)
    if not wanted:
        return {}
    asked = b"\0".join(wanted)
    told = view.git("check-attr", "-z", "--stdin", "filter", tree=place.path, index=index, stdin=asked).split(b"\0")
    answers = {path: os.fsdecode(value) for path, value in zip(told[::3], told[2::3], strict=False)}
    if set(answers.values()) <= {"unspecified", "unset"}:
        return {}
    plain = {"unspecified", "unset", *_known_filters(view)}
    return {path: name for path, name in answers.items() if name not in plain}


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
    there = {made.encode() for made, kind in view.kinds(made for _, made, _ in entries.values()) if kind == "blob"}
    return {path: entry for path, entry in entries.items() if entry[1] in there}


def sparse_paths(view: View, place: Place, copy: str) -> set[bytes]:
    """What the worktree's own index says was never checked out there: missing, but not deleted."""
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


def _known_filters(view: View) -> set[str]:
    """The filters that fleet's own settings run."""
    told = view.git("config", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$", allow=(1,))
    return {line.removeprefix("filter.").rpartition(".")[0] for line in told.decode(errors="replace").splitlines()}
