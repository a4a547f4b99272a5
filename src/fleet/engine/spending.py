"""What a task's runs may spend together with the tasks that they made, and those that these made: one budget for all.

A budget is what a task's own limits say (`max_tokens`, `max_cost_usd`). It holds for each of its runs, and for the last
of them with all that came of the task.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from fleet import coders
from fleet.core.budget import COST, TOKENS, budgets_in
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.run import UNKNOWN
from fleet.core.task import HEADLESS
from fleet.engine.costs import Cost, cost_of, model_of, reports_cost

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.config import Settings
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.store.base import Store

#: How far up it is looked whose budget holds, and how many tasks of a family are counted.
MOST_ABOVE, MOST_TASKS = 100, 10_000
#: How often a family is counted at most: other runs' figures are this old anyway.
LOOK_SECONDS = 1.0


class Budget(NamedTuple):
    """What one task may spend with all that comes of it."""

    task: Task
    amounts: dict[str, float]


def budgets_of(store: Store, task: Task) -> list[Budget]:
    """The budgets that a task's runs are under: its own, and those of the tasks that led to it."""
    found, above = [], MOST_ABOVE
    while True:
        if amounts := budgets_in(task.limits):
            found.append(Budget(task, amounts))
        makers = store.tasks.find(Filter(ids=(task.made_by,)), sort="id", limit=1) if task.made_by and above else []
        if not makers:
            return found
        task, above = makers[0], above - 1


class Spent(NamedTuple):
    """What runs took so far, by the names of budgets; and a model of theirs whose cost nothing tells."""

    amounts: dict[str, float]
    unpriced: str = ""


def spent(store: Store, task: Task, settings: Settings) -> Spent:
    """What the last run of a task and all runs of the tasks that came of it took so far."""
    runs = store.runs.of_task(task.id)[-1:]
    for key in _family(store, task):
        runs += store.runs.of_task(key)
    # What is on record was computed by the prices of its day; the runs of earlier fleets have no basis.
    costs = [(run, Cost(run.cost_usd, run.cost_basis) if run.cost_basis else cost_of(settings, run)) for run in runs]
    unpriced = next(
        (model_of(run) for run, cost in costs if cost.basis == UNKNOWN and not _may_report(run, settings)), ""
    )
    amounts = {TOKENS: float(sum(run.tokens for run in runs)), COST: sum(cost.usd or 0.0 for _, cost in costs)}
    return Spent(amounts, unpriced)


def left_of(store: Store, settings: Settings, task: Task) -> dict[str, float]:
    """What is left, by the budgets that a task's runs are under; empty where there is none.

    Where the cost of a run is not known, no dollar is left: a budget that nobody can count is used up.
    """
    left: dict[str, float] = {}
    for budget in budgets_of(store, task):
        took = spent(store, budget.task, settings)
        for name, most in budget.amounts.items():
            rest = 0.0 if name == COST and took.unpriced else most - took.amounts[name]
            left[name] = min(left.get(name, rest), rest)
    return {name: int(rest) if name == TOKENS else round(rest, 4) for name, rest in left.items()}


def _may_report(run: Run, settings: Settings) -> bool:
    """Whether a run is still at work with a coder that reports its cost at the end."""
    if not run.is_live:
        return False
    try:
        coder = coders.load(run.coder, settings)
    except FleetError:
        return False
    return reports_cost(coder, interactive=run.launcher != HEADLESS)


class Books:
    """What families spent, as last counted: many runs of one family ask at the same time. Of the store's thread."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Spent]] = {}

    def read(self, key: str, count: Callable[[], Spent]) -> Spent:
        """What a family spent, counted anew where that was too long ago."""
        now = time.monotonic()
        if key not in self._kept or now - self._kept[key][0] >= LOOK_SECONDS:
            self._kept = {each: kept for each, kept in self._kept.items() if now - kept[0] < LOOK_SECONDS}
            self._kept[key] = (now, count())
        return self._kept[key][1]


def _family(store: Store, task: Task) -> list[str]:
    """The tasks that runs of a task made, and runs of theirs."""
    found: list[str] = []
    makers, known = [task.id], {task.id}
    while makers and len(found) < MOST_TASKS:
        made = store.tasks.find(Filter(made_by=makers.pop()), sort="id")
        new = [each.id for each in made if each.id not in known]
        known.update(new)
        found += new
        makers += new
    return found
