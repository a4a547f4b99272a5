"""Budgets of runs, read from the store: what tasks may spend, and what their families of tasks have spent."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet import coders
from fleet.core.budget import COST, TOKENS, Budget, Spent, budgets_in, check_budgets, left_in, no_price
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.run import COMPUTED, REPORTED, UNKNOWN
from fleet.core.task import HEADLESS
from fleet.settings.prices import dollars, price_of
from fleet.supervisor.run.fold import TOKEN_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from fleet.coders.base import Coder
    from fleet.core.run import Outcome, Run
    from fleet.core.task import Task
    from fleet.settings import Settings
    from fleet.store.base import Store
    from fleet.supervisor.store_calls import StoreCalls


class Cost(NamedTuple):
    """A cost in dollars, None if unknown, and its basis as recorded in a run."""

    usd: float | None
    basis: str


def costed(settings: Settings, run: Run) -> Run:
    """Return the run with its cost and the basis of that cost."""
    found = cost_of(settings, run)
    return run if found == (run.cost_usd, run.cost_basis) else run.replace(cost_usd=found.usd, cost_basis=found.basis)


def cost_of(settings: Settings, run: Run) -> Cost:
    """Return the cost of a run so far. A coder that reports $0 for tokens has no price for them."""
    paid = run.notes.get("paid", {})
    if not paid and run.cost_usd and run.cost_basis in (REPORTED, ""):
        return Cost(run.cost_usd, REPORTED)
    if not run.tokens:
        return Cost(run.cost_usd, run.cost_basis)
    usd, at = (paid["usd"], paid["tokens"]) if paid.get("usd") else (0.0, (0, 0, 0, 0))
    since = [getattr(run, f"{name}_tokens") - count for name, count in zip(TOKEN_KINDS, at, strict=True)]
    if not any(since):
        return Cost(usd, REPORTED)
    sources = set()
    for name, size, counts in _parts(run, since):
        price = price_of(settings, [name] if name else names_of(run), run.started_at.date(), size=size)
        if price is None:
            return Cost(paid.get("usd") or None, UNKNOWN)
        usd += dollars(price.rates, *counts)
        sources.add(price.source)
    return Cost(usd, f"{COMPUTED}:{max(sources)}")


def names_of(run: Run) -> list[str]:
    """Return the names of a run's model: as requested and as reported. The report resolves "sonnet", for example."""
    return [name for name in (run.model, str(run.notes.get("model") or "")) if name]


def model_of(run: Run) -> str:
    """Return the name of a run's model for prices. Return a description if the name is unknown."""
    return str(run.notes.get("model") or "") or run.model or f"the default model of {run.coder}"


def reports_cost(coder: Coder, *, interactive: bool) -> bool:
    """Return True if a coder reports the cost of a run itself, at the latest at the end."""
    return coder.tells_cost and (coder.session_tells_cost or not interactive)


def why_no_price(settings: Settings, coder: Coder, model: str, day: date, *, interactive: bool) -> str:
    """Return why a dollar budget cannot hold for a new run. Return "" if it can.

    A short model name is allowed if the coder reports the full name. The run is stopped if that model has no price.
    """
    if reports_cost(coder, interactive=interactive) or (
        coder.tells_tokens and (model in coder.short_names or price_of(settings, [model], day))
    ):
        return ""
    if not coder.tells_tokens:
        return f"{coder.name} reports neither cost nor tokens: a dollar budget does not limit it"
    return no_price(model or f"the default model of {coder.name}")


def _parts(run: Run, since: list[int]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield token counts by model and request size, first those kept apart, then the rest under the run's own model."""
    for key, counts in run.notes.get("apart", {}).items():
        size, _, name = key.partition(" ")
        yield name, int(size), counts
        since = [max(whole - part, 0) for whole, part in zip(since, counts, strict=True)]
    yield "", 0, since


#: How many makers above a task can set its budget, and how many tasks of a family are counted.
MOST_ABOVE, MOST_TASKS = 100, 10_000
#: Minimum time between two counts of a family. The figures of other runs are about this old anyway.
LOOK_SECONDS = 1.0


class BudgetLedger:
    """A cache of what families of tasks spent. Many runs of a family check together. Use it on the store's thread."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Spent]] = {}

    def read(self, store: Store, task_id: str, settings: Settings) -> Spent:
        """Return what a family spent. Count again after LOOK_SECONDS."""
        now = time.monotonic()
        if task_id not in self._kept or now - self._kept[task_id][0] >= LOOK_SECONDS:
            self._kept = {each: kept for each, kept in self._kept.items() if now - kept[0] < LOOK_SECONDS}
            self._kept[task_id] = (now, spent(store, task_id, settings))
        return self._kept[task_id][1]


class RunBudget:
    """The budgets that a live run shares with others. Most runs have only their own limits."""

    def __init__(self, store: StoreCalls, ledger: BudgetLedger, task: Task) -> None:
        self._store, self._ledger, self._task = store, ledger, task
        self._may_have = bool(task.made_by or budgets_in(task.limits))
        self._looked = 0.0

    @property
    def pause(self) -> float:
        """Return the seconds until the next check even if the run's agent is silent, because other runs spend too."""
        return LOOK_SECONDS if self._may_have else math.inf

    async def alarm(self, run: Run, settings: Settings) -> Outcome | None:
        """Return why to stop the agent if a budget is used up, else None. Checks at most once per LOOK_SECONDS."""
        now = time.monotonic()
        if not self._may_have or run.result_at is not None or now - self._looked < LOOK_SECONDS:
            return None
        self._looked = now
        try:
            return await self._store.call(self._check, self._store.ports, settings)
        except FleetError:  # the store is unreachable; the run's own limits hold meanwhile
            return None

    def _check(self, store: Store, settings: Settings) -> Outcome | None:
        budgets = budgets_of(store, self._task)
        self._may_have = bool(budgets)
        return check_budgets((each, self._ledger.read(store, each.task_id, settings)) for each in budgets)


def budgets_of(store: Store, task: Task) -> list[Budget]:
    """Return the budgets that apply to a task's runs: its own, and those of the tasks that led to it."""
    found, above = [], MOST_ABOVE
    while True:
        if amounts := budgets_in(task.limits):
            found.append(Budget(task_id=task.id, amounts=amounts))
        makers = store.tasks.find(Filter(ids=(task.made_by,)), sort="id", limit=1) if task.made_by and above else []
        if not makers:
            return found
        task, above = makers[0], above - 1


def spent(store: Store, task_id: str, settings: Settings) -> Spent:
    """Return what the last run of a task and all runs of its descendant tasks have used."""
    runs = store.runs.of_task(task_id)[-1:]
    for key in _family(store, task_id):
        runs += store.runs.of_task(key)
    # Recorded costs used the prices of their time. Runs of earlier fleet versions have no basis.
    costs = [(run, Cost(run.cost_usd, run.cost_basis) if run.cost_basis else cost_of(settings, run)) for run in runs]
    unpriced = next(
        (model_of(run) for run, cost in costs if cost.basis == UNKNOWN and not _may_report(run, settings)), ""
    )
    amounts = {TOKENS: float(sum(run.tokens for run in runs)), COST: sum(cost.usd or 0.0 for _, cost in costs)}
    return Spent(amounts=amounts, unpriced=unpriced)


def left_of(store: Store, settings: Settings, task: Task) -> dict[str, float]:
    """Return the remainder of the budgets that apply to a task's runs. Return an empty dict if none applies."""
    return left_in((each, spent(store, each.task_id, settings)) for each in budgets_of(store, task))


def _may_report(run: Run, settings: Settings) -> bool:
    """Return True if a run is live and its coder reports the cost at the end."""
    if not run.is_live:
        return False
    try:
        coder = coders.load(run.coder, settings)
    except FleetError:
        return False
    return reports_cost(coder, interactive=run.launcher != HEADLESS)


def _family(store: Store, task_id: str) -> list[str]:
    """Return the tasks that runs of a task created, and recursively those that runs of these tasks created."""
    found: list[str] = []
    makers, known = [task_id], {task_id}
    while makers and len(found) < MOST_TASKS:
        made = store.tasks.find(Filter(made_by=makers.pop()), sort="id")
        new = [each.id for each in made if each.id not in known]
        known.update(new)
        found += new
        makers += new
    return found
