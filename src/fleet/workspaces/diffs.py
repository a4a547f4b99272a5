"""Differences between a commit and a tree, as size and text, through fleet's view, which obeys no agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.workspaces.git import GitFault, git_start
from fleet.workspaces.view import ALONE

if TYPE_CHECKING:
    from fleet.workspaces.view import View

#: More than a person reads. A longer difference is cut, with a note.
MOST_BYTES = 32 * 1024 * 1024
#: No external programs, no text conversion of binaries, renames as long as detection is cheap. Large files count as
#: binary.
PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "-r", "-M", "-l1000", "--ignore-submodules=none")
LARGE = ("-c", "core.bigFileThreshold=8m", "-c", "core.quotePath=false")
CUT = b"\n(cut here: the difference is longer)\n"
COUNTS = re.compile(r"(\d+) (file|insertion|deletion)")


class DiffSize(Record):
    """The size of a difference."""

    files: int = 0
    added: int = 0
    removed: int = 0


def shortstat(view: View, base: str, tree: str) -> DiffSize:
    told = _diff(view, base, tree, "--shortstat").decode(errors="replace")
    found = {what: int(number) for number, what in COUNTS.findall(told)}
    return DiffSize(files=found.get("file", 0), added=found.get("insertion", 0), removed=found.get("deletion", 0))


def diff(view: View, base: str, tree: str, *, stat: bool = False, names: bool = False) -> bytes:
    """Return the difference in git's format, or only its sizes, or only the names. Binary files are only named."""
    if names:
        return _diff(view, base, tree, "--name-only")
    if stat:
        return _diff(view, base, tree, "--stat=120")
    return _diff(view, base, tree, "-p", "--full-index")


def rows(view: View, base: str, tree: str, *form: str) -> bytes:
    """Return the difference in a machine format of git, with fields ended by NUL. A rename counts as two changes."""
    return _diff(view, base, tree, "--no-renames", "-z", *form)


def _diff(view: View, base: str, tree: str, *form: str) -> bytes:
    view.make()
    words = (*LARGE, "diff-tree", *PLAIN, *form, "--end-of-options", base, tree)
    told, status = git_start(MOST_BYTES + 1, *words, env=ALONE | {"GIT_DIR": view.path})
    if len(told) > MOST_BYTES:
        return told[:MOST_BYTES] + CUT
    if status:
        raise GitFault(("diff-tree",), status, f"{base} and {tree} cannot be compared")
    return told
