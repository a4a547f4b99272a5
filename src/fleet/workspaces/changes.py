"""Differences between two commits, entry by entry as in git's trees. Renames are not guessed and filters do not run."""

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
    """A path that differs."""

    path: str
    before: Entry | None  # None: it did not exist
    after: Entry | None  # None: it is gone


def changes_between(view: View, base: str, commit: str) -> list[Change]:
    """Return each path in which a commit differs from its base. Raises FleetError."""
    told = view.git(
        *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none"),
        *("--end-of-options", base, commit),
    )
    parts = told.split(b"\0")[:-1]
    if len(parts) % 2:
        raise FleetError("git did not say in pairs what was changed")
    return [_change(row.decode(), os.fsdecode(path)) for row, path in zip(parts[::2], parts[1::2], strict=True)]


def changed_rules(view: View, onto: str, tip: str) -> list[str]:
    """Return the project files that merging a branch would change. fleet judges work by them. Raises FleetError."""
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
    """Return True for a link or a submodule."""
    return entry.mode in (LINK, SUBMODULE)


def contents(view: View, entries: Iterable[Entry], *, each: int, together: int) -> dict[str, bytes]:
    """Return the content of files by their ids, in order.

    Files with more than `each` bytes are left out, and so are files that exceed `together` bytes in total.
    """
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
    found, at = {}, 1  # each content is between two line ends, because its header line is empty
    for name, size in wanted:
        found[name] = data[at : at + size]
        at += size + 2
    return found
