"""The budgets that a live run is under with others: it is stopped once they have spent what all of them may."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING

from fleet.core.budget import COST, amount, budgets_in, no_price
from fleet.core.errors import FleetError
from fleet.core.run import Ending, Outcome
from fleet.engine.spending import LOOK_SECONDS, budgets_of, spent

if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.engine.office import Office


class Purse:
    """The budgets of one live run; most have none beyond their own limits, and cost nothing here."""

    def __init__(self, office: Office, task: Task) -> None:
        self._office = office
        self._task = task
        self._may_have = bool(task.made_by or budgets_in(task.limits))
        self._looked = 0.0

    @property
    def pause(self) -> float:
        """In how many seconds to look again, though its own agent says nothing: others spend too."""
        return LOOK_SECONDS if self._may_have else math.inf

    async def alarm(self, run: Run) -> Outcome | None:
        """Why the agent must be stopped, if others have spent what it may: looked at now and then."""
        now = time.monotonic()
        if not self._may_have or run.result_at is not None or now - self._looked < LOOK_SECONDS:
            return None
        self._looked = now
        try:
            return await self._office.ask(self._over)
        except FleetError:  # the store cannot answer now: its own limits hold meanwhile
            return None

    def _over(self) -> Outcome | None:
        store = self._office.store
        budgets = budgets_of(store, self._task)
        self._may_have = bool(budgets)
        settings = self._office.settings
        for budget in budgets:
            took = self._office.books.read(budget.task.id, partial(spent, store, budget.task, settings))
            if COST in budget.amounts and took.unpriced:
                return Outcome(ending=Ending.OVER_BUDGET, reason=no_price(took.unpriced))
            for name, most in budget.amounts.items():
                amount = took.amounts[name]
                if amount >= most:
                    return Outcome(ending=Ending.OVER_BUDGET, reason=_reason(budget.task.id, name, amount, most))
        return None


def _reason(task_id: str, name: str, took: float, most: float) -> str:
    return f"{task_id} and what came of it took {amount(name, took)} of {amount(name, most)} allowed"
