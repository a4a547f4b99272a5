"""Budgets: the spending limits of a task's runs, alone and together with the tasks that they created."""

from __future__ import annotations

from fleet.core.jsontext import decode
from fleet.core.record import Record
from fleet.core.run import Ending, Outcome

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


TOKENS, COST = "max_tokens", "max_cost_usd"
#: Minimum of each limit.
LEAST: dict[str, float] = {TOKENS: 1, COST: 0.01}


def limits_in(text: str) -> dict[str, Any]:
    """Return the limits that a task carries. Raises ValueError if they are invalid."""
    found = decode(text) if text else {}
    if not isinstance(found, dict):
        raise ValueError("limits must be an object")
    return found


def budgets_in(text: str) -> dict[str, float]:
    """Return the budgets among a task's limits. Empty if the limits cannot be read."""
    try:
        table = limits_in(text)
    except (ValueError, RecursionError):
        return {}
    return {name: table[name] for name in LEAST if type(table.get(name)) in (int, float)}


def no_price(name: str) -> str:
    """Return why a dollar budget cannot hold for a model."""
    return f"no price for {name}: set [prices] or use a token budget"


def format_amount(name: str, value: float) -> str:
    return f"${value:.2f}" if name == COST else f"{value:.0f} tokens"


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
                amounts = f"{format_amount(name, used)} of {format_amount(name, most)}"
                words = f"{budget.task_id} and its tasks used {amounts} allowed"
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
