"""The budgets that a live run shares with others: it is stopped once they have spent what all of them may."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from fleet.core.budget import budgets_in
from fleet.core.errors import FleetError
from fleet.core.spending import check_budgets
from fleet.engine.budgets import LOOK_SECONDS, budgets_of

if TYPE_CHECKING:
    from fleet.core.run import Outcome, Run
    from fleet.core.task import Task
    from fleet.engine.office import Office


class RunBudget:
    """The budgets that a live run shares with others. Most runs have none beyond their own limits."""

    def __init__(self, office: Office, task: Task) -> None:
        self._office = office
        self._task = task
        self._may_have = bool(task.made_by or budgets_in(task.limits))
        self._looked = 0.0

    @property
    def pause(self) -> float:
        """In how many seconds to check again although the run's own agent is silent: others spend too."""
        return LOOK_SECONDS if self._may_have else math.inf

    async def alarm(self, run: Run) -> Outcome | None:
        """Return why the agent must be stopped if a budget is used up. Checks at most once per LOOK_SECONDS."""
        now = time.monotonic()
        if not self._may_have or run.result_at is not None or now - self._looked < LOOK_SECONDS:
            return None
        self._looked = now
        try:
            return await self._office.ask(self._check)
        except FleetError:  # the store does not answer now; the run's own limits hold meanwhile
            return None

    def _check(self) -> Outcome | None:
        store, settings = self._office.store, self._office.settings
        budgets = budgets_of(store, self._task)
        self._may_have = bool(budgets)
        ledger = self._office.ledger
        return check_budgets((each, ledger.read(store, each.task_id, settings)) for each in budgets)
