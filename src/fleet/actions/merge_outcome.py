"""What is wished of a merge, and what became of it: as every face tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.record import Record

if TYPE_CHECKING:
    from typing import Any

WAIT_SECONDS = 600.0


class Terms(Record):
    """How to merge; what is not said is as the settings say."""

    into: str = ""
    strategy: str = ""
    conflicts: str = ""
    verify: str = ""  # the command that the result is verified with, in place of the tasks' and the project's
    dry_run: bool = False
    unverified: bool = False  # also what nothing has proven, where it is named exactly
    wait: float = WAIT_SECONDS


class Landed(Record):
    """A task whose work is in the target, or waits for it."""

    task: str
    branch: str
    title: str
    commit: str
    tip: str


class LeftOut(Record):
    """A task whose work is not."""

    task: str
    branch: str
    why: str
    files: tuple[str, ...] = ()  # those in conflict
    tail: str = ""  # the end of what its verify command printed

    @property
    def is_merged_already(self) -> bool:
        return "merged already" in self.why


class Merging(Record):
    """What became of a merge."""

    repo: str
    target: str
    before: str  # the commit it was at
    commit: str  # the one that holds all that was merged; as before where nothing was
    moved: bool = False
    waiting: str = ""  # the ref at which it waits to be taken
    why_not: str = ""  # why it waits
    merged: tuple[Landed, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    handed: bool = False  # whether an agent was asked for anything
    verifies: int = 0
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def command(self) -> str:
        """How to take what waits."""
        return f"git merge --ff-only {self.waiting}" if self.waiting else ""

    @property
    def is_whole(self) -> bool:
        return all(each.is_merged_already for each in self.left_out)

    def view(self) -> dict[str, Any]:
        told = self.as_dict() | {"command": self.command or None, "waiting": self.waiting or None}
        told |= {"merged": [each.as_dict() for each in self.merged], "why_not": self.why_not or None}
        left = [each.as_dict() | {"files": list(each.files)} for each in self.left_out]
        return told | {"left_out": left, "notes": list(self.notes)}
