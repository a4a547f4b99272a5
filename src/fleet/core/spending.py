"""Budgets for a task's runs together with the tasks that they created, directly or indirectly: pure decisions.

A budget is set in a task's own limits (`max_tokens`, `max_cost_usd`). It applies to each of its runs. It also applies
to the last run together with all tasks that came from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.budget import COST, TOKENS, amount, no_price
from fleet.core.record import Record
from fleet.core.run import Ending, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Budget(Record):
    """The budget of one task together with all tasks that came from it."""

    task_id: str
    amounts: Mapping[str, float]


class Spent(Record):
    """The consumption of runs so far, by budget name, and one of their models whose price is unknown."""

    amounts: Mapping[str, float]
    unpriced: str = ""


def check_budgets(budgets: Iterable[tuple[Budget, Spent]]) -> Outcome | None:
    """Return the outcome of a run that must stop because a budget is used up, or None."""
    for budget, spent in budgets:
        if COST in budget.amounts and spent.unpriced:
            return Outcome(ending=Ending.OVER_BUDGET, reason=no_price(spent.unpriced))
        for name, most in budget.amounts.items():
            used = spent.amounts[name]
            if used >= most:
                words = (
                    f"{budget.task_id} and what came of it took {amount(name, used)} of {amount(name, most)} allowed"
                )
                return Outcome(ending=Ending.OVER_BUDGET, reason=words)
    return None


def left_in(budgets: Iterable[tuple[Budget, Spent]]) -> dict[str, float]:
    """Return the remainder of the tightest budget for each name. Names without a budget are left out.

    If a model has no known price, nothing is left of a dollar budget.
    """
    left: dict[str, float] = {}
    for budget, spent in budgets:
        for name, most in budget.amounts.items():
            rest = 0.0 if name == COST and spent.unpriced else most - spent.amounts[name]
            left[name] = min(left.get(name, rest), rest)
    return {name: int(rest) if name == TOKENS else round(rest, 4) for name, rest in left.items()}
