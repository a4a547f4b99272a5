"""What every history makes of a run that begins, of the one before it, and of what an ended one took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.run import AccountTotal, Ending

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.core.run import Run
    from fleet.core.task import Claim


#: Where sums end: what agents tell is not to be trusted, and a number too large must not keep a run from ending.
MOST_TOKENS = 2**60
MOST_USD = 1e15
_DEAREST_RUN = 1e12


def begun(run: Run, claim: Claim, earlier: list[Run]) -> Run:
    """The run as the next of its task, under the claim it was begun with; one that was begun before has its number."""
    task_id = claim.task.id
    number = max(run.number, max((each.number for each in earlier), default=0) + 1)
    return run.replace(id=f"{task_id}/{number}", task_id=task_id, number=number, epoch=claim.epoch, owner=claim.owner)


def left_over(run: Run, now: datetime) -> Run:
    """A run that nobody ended before the next one began: at most one run of a task is live."""
    return run.replace(ended_at=now, ending=Ending.LOST, reason="its claim was lost, and the task begun again")


def taken_by(run: Run) -> AccountTotal:
    """What an ended run adds to the sums of its account; what is not a sensible number adds nothing."""
    cost = run.cost_usd if run.cost_usd is not None and 0 <= run.cost_usd <= _DEAREST_RUN else 0.0
    tokens = min(max(run.tokens, 0), MOST_TOKENS)
    return AccountTotal(coder=run.coder, account=run.account, runs=1, tokens=tokens, cost_usd=float(cost))
