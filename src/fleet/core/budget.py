"""Budgets: the spending limits of a task's runs, alone and together with the tasks that they create."""

from __future__ import annotations

from fleet.core.jsontext import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOKENS, COST = "max_tokens", "max_cost_usd"
#: Minimum of each limit.
LEAST: dict[str, float] = {TOKENS: 1, COST: 0.01}


def limits_in(text: str) -> dict[str, Any]:
    """Return the limits that a task carries. Raises ValueError if they are invalid."""
    found = decode(text) if text else {}
    if not isinstance(found, dict):
        raise ValueError("limits are an object")
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


def amount(name: str, value: float) -> str:
    return f"${value:.2f}" if name == COST else f"{value:.0f} tokens"
