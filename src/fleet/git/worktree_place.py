"""An agent's worktree and its git folder, read as data because the agent could write all of it."""

# Git's paths may contain any bytes.
# ruff: noqa: PTH118, PTH123
from __future__ import annotations

import contextlib
import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.files import open_plain
from fleet.git.process import GitFault
from fleet.git.worktree_records import GOING_ON, head_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.git.view import View

#: The index is the largest file of a worktree's git folder. One of this size holds about five million files.
LONGEST = 512 * 1024 * 1024
COMMIT = re.compile(rb"\b([0-9a-f]{64}|[0-9a-f]{40})\b")


class WorktreePlace(Record):
    """A worktree that fleet created."""

    path: str
    branch: str
    admin: str | None  # its folder in the repository's `worktrees`; None if the agent removed it
    made: Mapping[str, tuple[int, int]] = MappingProxyType({})  # files that setup created: path to (size, mtime in ns)
    known: str = ""  # an index of fleet from earlier snapshots, so that unchanged files need not be read again
    index: tuple[int, int] | None = None  # size and mtime of git's own index when the worktree was created

    def head(self, view: View) -> str | None:
        """Return the commit of its HEAD, or of the branch if HEAD is unreadable, or None."""
        branch, commit = head_of(self.admin) if self.admin else (None, None)
        named = f"refs/heads/{branch}" if branch else commit
        names = [name for name in dict.fromkeys((named, f"refs/heads/{self.branch}")) if name and "\n" not in name]
        with contextlib.suppress(GitFault):  # git cannot read the repository
            return next(filter(None, view.resolve_each(names)), None)
        return None

    def on_branch(self) -> bool:
        """Return True if its HEAD is the branch that fleet gave it."""
        return self.admin is not None and head_of(self.admin)[0] == self.branch

    def nothing_staged(self) -> bool:
        """Return True if git's index did not change since the worktree was created, so that nothing can be staged."""
        if self.admin is None or self.index is None:
            return False
        try:
            found = os.lstat(os.path.join(self.admin, "index"))
        except OSError:
            return False
        return (found.st_size, found.st_mtime_ns) == tuple(self.index)

    def going_on(self) -> str:
        """Return the git operation in progress there as a word, or ""."""
        if self.admin is None:
            return ""
        words = GOING_ON | {"sequencer": "cherry-pick"}
        return next((word for name, word in words.items() if os.path.lexists(os.path.join(self.admin, name))), "")

    def read(self, name: str) -> bytes:
        """Return the content of a plain file of its git folder, or nothing if missing."""
        return read_plain(os.path.join(self.admin, name), LONGEST) if self.admin else b""


def read_plain(path: str, most: int) -> bytes:
    """Return the last `most` bytes of a plain file, or nothing if missing.

    Links are not followed, pipes do not block.
    """
    try:
        handle = open_plain(path)
    except (OSError, ValueError):
        return b""
    with open(handle, "rb") as file:
        size = os.fstat(handle).st_size
        file.seek(max(0, size - most))
        return file.read(min(most, size))
