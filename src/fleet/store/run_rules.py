"""What every history makes of a run that begins, and of the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.run import Ending

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.core.run import Run
    from fleet.core.task import Claim


def begun(run: Run, claim: Claim, earlier: list[Run]) -> Run:
    """The run as the next of its task, under the claim it was begun with."""
    task_id = claim.task.id
    number = max((each.number for each in earlier), default=0) + 1
    return run.replace(id=f"{task_id}/{number}", task_id=task_id, number=number, epoch=claim.epoch, owner=claim.owner)


def left_over(run: Run, now: datetime) -> Run:
    """A run that nobody ended before the next one began: at most one run of a task is live."""
    return run.replace(ended_at=now, ending=Ending.LOST, reason="its claim was lost, and the task begun again")
