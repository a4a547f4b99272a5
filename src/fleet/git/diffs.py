"""Differences between two commits or trees: entry by entry, as size, and as text."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.git.process import GitFault, git_start
from fleet.git.view import ALONE
from fleet.home import PROJECT_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.git.view import View


#: More than a person reads. A longer difference is cut, with a note.
MOST_BYTES = 32 * 1024 * 1024
#: No external programs, no text conversion of binaries, renames as long as detection is cheap. Large files count as
#: binary.
PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "-r", "-M", "-l1000", "--ignore-submodules=none")
LARGE = ("-c", "core.bigFileThreshold=8m", "-c", "core.quotePath=false")
CUT = b"\n(truncated: the difference is longer)\n"
COUNTS = re.compile(r"(\d+) (file|insertion|deletion)")


class DiffSize(Record):
    """The size of a difference."""

    files: int = 0
    added: int = 0
    removed: int = 0


def shortstat(view: View, base: str, tree: str) -> DiffSize:
    told = _run_diff(view, base, tree, "--shortstat").decode(errors="replace")
    found = {what: int(number) for number, what in COUNTS.findall(told)}
    return DiffSize(files=found.get("file", 0), added=found.get("insertion", 0), removed=found.get("deletion", 0))


def diff(view: View, base: str, tree: str, *, stat: bool = False, names: bool = False) -> bytes:
    """Return the difference in git's format, or only its sizes, or only the names. Binary files are only named."""
    if names:
        return _run_diff(view, base, tree, "--name-only")
    if stat:
        return _run_diff(view, base, tree, "--stat=120")
    return _run_diff(view, base, tree, "-p", "--full-index")


def rows(view: View, base: str, tree: str, *form: str) -> bytes:
    """Return the difference in a machine format of git, with fields ended by NUL. A rename counts as two changes."""
    return _run_diff(view, base, tree, "--no-renames", "-z", *form)


def _run_diff(view: View, base: str, tree: str, *form: str) -> bytes:
    view.make()
    words = (*LARGE, "diff-tree", *PLAIN, *form, "--end-of-options", base, tree)
    told, status = git_start(MOST_BYTES + 1, *words, env=ALONE | {"GIT_DIR": view.path})
    if len(told) > MOST_BYTES:
        return told[:MOST_BYTES] + CUT
    if status:
        raise GitFault(("diff-tree",), status, f"{base} and {tree} cannot be compared")
    return told


NOTHING = "000000"
LINK, SUBMODULE = "120000", "160000"


class TreeEntry(NamedTuple):
    """One entry of a tree."""

    mode: str
    id: str


class PathChange(NamedTuple):
    """A path that differs."""

    path: str
    before: TreeEntry | None  # None: it did not exist
    after: TreeEntry | None  # None: it is gone


def changes_between(view: View, base: str, commit: str) -> list[PathChange]:
    """Return each path in which a commit differs from its base. Raises FleetError."""
    told = view.git(
        *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none"),
        *("--end-of-options", base, commit),
    )
    parts = told.split(b"\0")[:-1]
    if len(parts) % 2:
        raise FleetError("git printed an incomplete list of changes")
    return [_parse_change(row.decode(), os.fsdecode(path)) for row, path in zip(parts[::2], parts[1::2], strict=True)]


def changed_rules(view: View, onto: str, tip: str) -> list[str]:
    """Return the project files that merging a branch would change. fleet judges work by them. Raises FleetError."""
    globs = [f":(glob,icase)**/{name}" for file in PROJECT_FILES for name in (file, file.split("/")[0])]
    told = view.git(
        *("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none"),
        *("--end-of-options", f"{onto}...{tip}", "--", *globs),
    )
    return [os.fsdecode(path) for path in told.split(b"\0") if path]


def _parse_change(row: str, path: str) -> PathChange:
    old_mode, mode, old_id, new_id, _ = row.removeprefix(":").split(" ")
    before = None if old_mode == NOTHING else TreeEntry(old_mode, old_id)
    return PathChange(path, before, None if mode == NOTHING else TreeEntry(mode, new_id))


def is_special(entry: TreeEntry) -> bool:
    """Return True for a link or a submodule."""
    return entry.mode in (LINK, SUBMODULE)


def contents(view: View, entries: Iterable[TreeEntry], *, each: int, together: int) -> dict[str, bytes]:
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
