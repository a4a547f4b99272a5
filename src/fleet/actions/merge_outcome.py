"""Options and results of merges, shared by all user interfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.record import Record

if TYPE_CHECKING:
    from typing import Any

WAIT_SECONDS = 600.0


class Terms(Record):
    """The options of a merge. Missing values come from the settings."""

    into: str = ""
    strategy: str = ""
    conflicts: str = ""
    verify: str = ""  # replaces the verify commands of the tasks and the project
    dry_run: bool = False
    unverified: bool = False  # merges unproven work too, if its task is named exactly
    wait: float = WAIT_SECONDS


class Landed(Record):
    """A task whose work is in the target or waits to be taken."""

    task: str
    branch: str
    title: str
    commit: str
    tip: str


class LeftOut(Record):
    """A task whose work was not merged."""

    task: str
    branch: str
    why: str
    files: tuple[str, ...] = ()  # files in conflict
    tail: str = ""  # the end of the verify command's output

    @property
    def is_merged_already(self) -> bool:
        return "merged already" in self.why


class Merging(Record):
    """The result of a merge."""

    repo: str
    target: str
    before: str  # the target's previous commit
    commit: str  # the commit with all merged work; equal to `before` if nothing was merged
    moved: bool = False
    waiting: str = ""  # the ref of a result that waits to be taken
    why_not: str = ""  # why it waits
    merged: tuple[Landed, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    handed: bool = False  # True if agents were asked to resolve conflicts
    verifies: int = 0
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def command(self) -> str:
        """Return the command that takes the waiting result."""
        return f"git merge --ff-only {self.waiting}" if self.waiting else ""

    @property
    def is_whole(self) -> bool:
        return all(each.is_merged_already for each in self.left_out)

    def view(self) -> dict[str, Any]:
        told = self.as_dict() | {"command": self.command or None, "waiting": self.waiting or None}
        told |= {"merged": [each.as_dict() for each in self.merged], "why_not": self.why_not or None}
        left = [each.as_dict() | {"files": list(each.files)} for each in self.left_out]
        return told | {"left_out": left, "notes": list(self.notes)}
