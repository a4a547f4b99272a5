"""How many agents of MCP workers and workflow stages may work at once: pure decisions.

These agents take no slot of `max_concurrent`. Each task names its own limit, which is known only after the claim. Tasks
over the limit are given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.rules import rules_of
from fleet.core.task import INTERACTIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.core.task import Claim, Task

#: Their mode in admission. The tasks themselves are headless.
POOLED = "pooled"
ORIGINS = ("mcp", "workflow")
#: The limit of tasks that name none.
USUAL = 50


def is_pooled(task: Task) -> bool:
    """Return True if a task was created by an MCP tool or as a stage, and runs without a terminal."""
    return task.origin in ORIGINS and task.mode != INTERACTIVE


def room_of(tasks: Iterable[Task], *, otherwise: int) -> int:
    """Return the highest limit among the running tasks, or `otherwise` if there is none."""
    return max((_at_once(task) for task in tasks), default=otherwise)


def fitting(claims: Sequence[Claim], running: int) -> tuple[list[Claim], list[Claim]]:
    """Split claims into those that may start while `running` agents work, and those over the limit."""
    start: list[Claim] = []
    back: list[Claim] = []
    for claim in claims:
        fits = not is_pooled(claim.task) or running + len(start) < _at_once(claim.task)
        (start if fits else back).append(claim)
    return start, back


def _at_once(task: Task) -> int:
    said = rules_of(task).at_once
    return USUAL if said is None else said
