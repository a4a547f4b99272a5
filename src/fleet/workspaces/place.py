"""Where an agent worked, and what its git folder holds: read as data, since the agent could write all of it."""

# The paths are git's: text with any byte in it.
# ruff: noqa: PTH118, PTH123
from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.files import open_plain
from fleet.workspaces.admin import GOING_ON, head_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.workspaces.view import View

#: An index is the longest file of a worktree's git folder: this one holds some five million files.
LONGEST = 512 * 1024 * 1024
COMMIT = re.compile(rb"\b([0-9a-f]{64}|[0-9a-f]{40})\b")


class Place(Record):
    """A worktree that fleet made."""

    path: str
    branch: str
    admin: str | None  # its folder below the repository's `worktrees`; none when the agent removed it
    made: Mapping[str, tuple[int, int]] = MappingProxyType({})  # what setup put there: path to (size, mtime in ns)
    known: str = ""  # an index of fleet's own from earlier looks: what did not change since need not be read again
    index: tuple[int, int] | None = None  # size and mtime of git's own index when the worktree was made

    def head(self, view: View) -> str | None:
        """The commit its HEAD is at; the branch's where that cannot be told."""
        branch, commit = head_of(self.admin) if self.admin else (None, None)
        named = f"refs/heads/{branch}" if branch else commit
        names = [name for name in dict.fromkeys((named, f"refs/heads/{self.branch}")) if name and "\n" not in name]
        return next(filter(None, map(view.commit_of, names)), None)

    def on_branch(self) -> bool:
        """Whether its HEAD is the branch that fleet gave it."""
        return self.admin is not None and head_of(self.admin)[0] == self.branch

    def nothing_staged(self) -> bool:
        """Whether git's index is the one that the worktree was made with: then nothing can be staged."""
        if self.admin is None or self.index is None:
            return False
        try:
            found = os.lstat(os.path.join(self.admin, "index"))
        except OSError:
            return False
        return (found.st_size, found.st_mtime_ns) == tuple(self.index)

    def going_on(self) -> str:
        """What git is in the middle of there, in a word; empty when it is not."""
        if self.admin is None:
            return ""
        words = GOING_ON | {"sequencer": "cherry-pick"}
        return next((word for name, word in words.items() if os.path.lexists(os.path.join(self.admin, name))), "")

    def read(self, name: str) -> bytes:
        """A plain file of its git folder; nothing when there is none."""
        return read_plain(os.path.join(self.admin, name), LONGEST) if self.admin else b""


def read_plain(path: str, most: int) -> bytes:
    """At most the last so many bytes of a plain file; nothing when there is none. Links and pipes are not followed."""
    try:
        handle = open_plain(path)
    except (OSError, ValueError):
        return b""
    with open(handle, "rb") as file:
        size = os.fstat(handle).st_size
        file.seek(max(0, size - most))
        return file.read(min(most, size))
