"""What differs between two commits, entry by entry, as git's trees have it; no rename is guessed, no filter is run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.home import PROJECT_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.workspaces.view import View

NOTHING = "000000"
LINK, SUBMODULE = "120000", "160000"


class Entry(NamedTuple):
    """One entry of a tree."""

    mode: str
    id: str


class Change(NamedTuple):
    """One path that is not the same in both."""

    path: str
    before: Entry | None  # none: it was not there
    after: Entry | None  # none: it is gone


def changes_between(view: View, base: str, commit: str) -> list[Change]:
    """Every path in which a commit differs from its base. Raises FleetError."""
    told = view.git(
        *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none"),
        *("--end-of-options", base, commit),
    )
    parts = told.split(b"\0")[:-1]
    if len(parts) % 2:
        raise FleetError("git did not say in pairs what was changed")
    return [_change(row.decode(), os.fsdecode(path)) for row, path in zip(parts[::2], parts[1::2], strict=True)]


def changed_rules(view: View, onto: str, tip: str) -> list[str]:
    """The project files that a branch would change where it is merged: fleet judges work by them. Raises FleetError."""
    globs = [f":(glob,icase)**/{name}" for file in PROJECT_FILES for name in (file, file.split("/")[0])]
    told = view.git(
        *("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none"),
        *("--end-of-options", f"{onto}...{tip}", "--", *globs),
    )
    return [os.fsdecode(path) for path in told.split(b"\0") if path]


def _change(row: str, path: str) -> Change:
    old_mode, mode, old_id, new_id, _ = row.removeprefix(":").split(" ")
    before = None if old_mode == NOTHING else Entry(old_mode, old_id)
    return Change(path, before, None if mode == NOTHING else Entry(mode, new_id))


def is_special(entry: Entry) -> bool:
    """Whether it is a link or a submodule, and no file."""
    return entry.mode in (LINK, SUBMODULE)


def contents(view: View, entries: Iterable[Entry], *, each: int, together: int) -> dict[str, bytes]:
    """The bytes of files by their ids, in order, as long as there is room; none of a file with more than so many."""
    ids = list(dict.fromkeys(entry.id for entry in entries if not is_special(entry)))
    told = view.git("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin="\n".join([*ids, ""]).encode())
    wanted = []
    for name, row in zip(ids, told.splitlines(), strict=True):
        kind, _, number = row.partition(b" ")
        size = int(number) if kind == b"blob" else each + 1
        if size <= min(each, together):
            wanted.append((name, size))
            together -= size
    data = view.git("cat-file", "--batch=", stdin="".join(f"{name}\n" for name, _ in wanted).encode())
    found, at = {}, 1  # each is between two ends of lines, for the line about it is empty
    for name, size in wanted:
        found[name] = data[at : at + size]
        at += size + 2
    return found
