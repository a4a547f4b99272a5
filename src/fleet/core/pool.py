"""Agents of workers and stages: they take no slot of `max_concurrent`, and each says how many of them may work at once.

Pure. How many that is, is known of a task only once it is claimed: what is too many then is given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.rules import rules_of
from fleet.core.task import INTERACTIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.core.task import Claim, Task

#: A mode of its own for admission, which the task does not know of: it is headless.
POOLED = "pooled"
ORIGINS = ("mcp", "workflow")
#: Where a task does not say.
USUAL = 50


def is_pooled(task: Task) -> bool:
    """Whether a task was made through tools or as a stage."""
    return task.origin in ORIGINS and task.mode != INTERACTIVE


def room_of(tasks: Iterable[Task], *, otherwise: int) -> int:
    """How many may work at once while these do: as many as the most generous of them says."""
    return max((_at_once(task) for task in tasks), default=otherwise)


def fitting(claims: Sequence[Claim], running: int) -> tuple[list[Claim], list[Claim]]:
    """Those that may start while so many work, and those that are too many."""
    start: list[Claim] = []
    back: list[Claim] = []
    for claim in claims:
        fits = not is_pooled(claim.task) or running + len(start) < _at_once(claim.task)
        (start if fits else back).append(claim)
    return start, back


def _at_once(task: Task) -> int:
    said = rules_of(task).at_once
    return USUAL if said is None else said
