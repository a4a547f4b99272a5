"""What a task's runs may spend together with the tasks that they made, and those that these made: one budget for all.

A budget is what a task's own limits say (`max_tokens`, `max_cost_usd`). It holds for each of its runs, and for the last
of them with all that came of the task.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.config import load, price_of
from fleet.core.budget import COST, TOKENS, budgets_in
from fleet.core.filter import Filter

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.config import Settings
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.home import Home
    from fleet.store.base import History, Queue

#: How far up it is looked whose budget holds, and how many tasks of a family are counted.
MOST_ABOVE, MOST_TASKS = 100, 10_000
#: How often a family is counted at most: other runs' figures are this old anyway.
LOOK_SECONDS = 1.0


class Budget(NamedTuple):
    """What one task may spend with all that comes of it."""

    task: Task
    amounts: dict[str, float]


def budgets_of(queue: Queue, task: Task) -> list[Budget]:
    """The budgets that a task's runs are under: its own, and those of the tasks that led to it."""
    found, above = [], MOST_ABOVE
    while True:
        if amounts := budgets_in(task.limits):
            found.append(Budget(task, amounts))
        makers = queue.find(Filter(ids=(task.made_by,)), sort="id", limit=1) if task.made_by and above else []
        if not makers:
            return found
        task, above = makers[0], above - 1


def spent(queue: Queue, history: History, task: Task, price: Callable[[Run], float]) -> dict[str, float]:
    """What the last run of a task and all runs of the tasks that came of it took so far."""
    runs = history.runs(task.id)[-1:]
    for key in _family(queue, task):
        runs += history.runs(key)
    return {TOKENS: float(sum(run.tokens for run in runs)), COST: sum(map(price, runs))}


def left_of(queue: Queue, history: History, home: Home, task: Task) -> dict[str, float]:
    """What is left, by the budgets that a task's runs are under; empty where there is none."""
    budgets = budgets_of(queue, task)
    if not budgets:
        return {}
    price = pricing(load(home, env={}, lenient=True))
    left: dict[str, float] = {}
    for budget in budgets:
        took = spent(queue, history, budget.task, price)
        for name, most in budget.amounts.items():
            rest = most - took[name]
            left[name] = min(left.get(name, rest), rest)
    return {name: int(rest) if name == TOKENS else round(rest, 4) for name, rest in left.items()}


def pricing(settings: Settings) -> Callable[[Run], float]:
    """What a run costs: as its coder told, else by the prices in the settings, else nothing that is known."""

    def price(run: Run) -> float:
        if run.cost_usd is not None:
            return run.cost_usd
        counts = {"input": run.input_tokens, "output": run.output_tokens}
        cached = {"cache_read": run.cache_read_tokens, "cache_write": run.cache_write_tokens}
        return price_of(settings, run.model, **counts, **cached) or 0.0

    return price


class Books:
    """What families spent, as last counted: many runs of one family ask at the same time. Of the store's thread."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, dict[str, float]]] = {}

    def read(self, key: str, count: Callable[[], dict[str, float]]) -> dict[str, float]:
        """What a family spent, counted anew where that was too long ago."""
        now = time.monotonic()
        if key not in self._kept or now - self._kept[key][0] >= LOOK_SECONDS:
            self._kept = {each: kept for each, kept in self._kept.items() if now - kept[0] < LOOK_SECONDS}
            self._kept[key] = (now, count())
        return self._kept[key][1]


def _family(queue: Queue, task: Task) -> list[str]:
    """The tasks that runs of a task made, and runs of theirs."""
    found: list[str] = []
    makers, known = [task.id], {task.id}
    while makers and len(found) < MOST_TASKS:
        made = queue.find(Filter(made_by=makers.pop()), sort="id")
        new = [each.id for each in made if each.id not in known]
        known.update(new)
        found += new
        makers += new
    return found
