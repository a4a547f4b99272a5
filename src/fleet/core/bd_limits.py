"""Limits of bd: it stores each number as a double, and counts the bytes of a title."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from fleet.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fleet.core.task import Task

LONGEST_TITLE = 500
#: bd prints whole numbers up to this limit digit by digit. Of larger numbers it prints only as many digits as identify
#: the double.
LARGEST = 2**63
AS_TEXT = 'write such a number as text, in quotes: {"ns": "1794994930026341016"}'
SHORTER = "shorten the title, and put the rest into the description"
#: Maximum number of tasks in one refusal, and of digits shown of a number.
MOST_NAMED, MOST_DIGITS = 50, 40


def faults(task: Task, before: Task | None = None) -> dict[str, str]:
    """Return the parts of a task that bd cannot store, each with its remedy.

    Parts that `before` already has are skipped.
    """
    found = {}
    size = len(task.title.encode())
    if size > LONGEST_TITLE and (before is None or before.title != task.title):
        found[f"its title has {size} bytes; the maximum is {LONGEST_TITLE}"] = SHORTER
    known = {} if before is None else before.metadata
    new = {key: value for key, value in task.metadata.items() if key not in known or known[key] != value}
    return found | number_faults(new)


def number_faults(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the numbers in metadata that bd would change, each with its remedy."""
    return {fact: AS_TEXT for key, value in metadata.items() for fact in _find_changed_values(f"metadata {key}", value)}


def refusal(found: Mapping[str, Mapping[str, str]]) -> BadInput:
    """Return the error that lists all parts that bd cannot store, by task."""
    told = [f"{name} ({', '.join(each)})" for name, each in found.items()]
    more = [f"{len(told) - MOST_NAMED} more"] if len(told) > MOST_NAMED else []
    remedies = dict.fromkeys(remedy for each in found.values() for remedy in each.values())
    return BadInput(
        f"bd cannot hold {'; '.join([*told[:MOST_NAMED], *more])}", hint=f"nothing was written; {'; '.join(remedies)}"
    )


def _find_changed_values(where: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _find_changed_values(f"{where}.{key}", inner)
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _find_changed_values(f"{where}[{at}]", inner)
    elif isinstance(value, int | float) and (kept := _format_as_bd(value)) != value:
        yield f"{where} is {_digits(value)} and would become {_digits(kept)}"


def _format_as_bd(number: float) -> float:
    """Return the number that bd prints after it was given `number`."""
    try:
        double = float(number)
    except OverflowError:
        return float("inf")
    if not double.is_integer():
        return double
    return int(double) if -LARGEST <= double < LARGEST else int(Decimal(repr(double)))


def _digits(number: float) -> str:
    text = str(number)
    return text if len(text) <= MOST_DIGITS else f"{text[:MOST_DIGITS]}…"
