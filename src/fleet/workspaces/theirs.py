"""The worktree's own index, read as data: files that were never checked out, and results of the agent's filters.

Git reads a copy of it on fleet's view and obeys no setting of the agent.
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

#: Git's exit code for an invalid index, which then counts as empty.
BROKEN = (128,)


def unknown_filters(view: View, place: Place, index: str, paths: Iterable[bytes]) -> dict[bytes, str]:
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
    plain = {"unspecified", "unset", *_known_filters(view)}
    return {path: name for path, name in answers.items() if name not in plain}


def filtered_by_them(
    view: View, place: Place, copy: str, filtered: Mapping[bytes, str]
) -> dict[bytes, tuple[bytes, bytes, bytes]]:
    """Return the entries of these files in the worktree's index that are up to date.

    For these, the agent's filter did run.
    """
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
    """Return the paths that were never checked out according to the worktree's index: missing but not deleted."""
    with _their_index(place, copy) as theirs:
        listing = view.git("ls-files", "-z", "-t", index=theirs, allow=BROKEN) if theirs else b""
    return {path for tag, path in listed(listing) if tag in (b"S", b"s")}


@contextlib.contextmanager
def _their_index(place: Place, copy: str) -> Iterator[str]:
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


def _known_filters(view: View) -> set[str]:
    """Return the filters that fleet's settings run."""
    told = view.git("config", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$", allow=(1,))
    return {line.removeprefix("filter.").rpartition(".")[0] for line in told.decode(errors="replace").splitlines()}
