"""Collisions: two live branches of one repository whose changes git could not merge."""

from __future__ import annotations

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime


class Collision(Record):
    """Two tasks whose branches collide, and the files in conflict. `task_id` is the task that began first."""

    common: str  # the repository's git directory
    task_id: str
    other_id: str
    tip: str  # the commits that were compared
    other_tip: str
    files: tuple[str, ...]
    seen_at: datetime
    told_at: datetime | None = None  # when the later agent was told

    @property
    def pair(self) -> tuple[str, str]:
        return self.task_id, self.other_id
