"""Builders of test data with defaults for everything that a test does not set."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from fleet.core.dependency import BLOCKS, Edge
from fleet.core.task import Comment, Task

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

_numbers = count(1)


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start: datetime = NOON) -> None:
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def advance(self, step: timedelta) -> None:
        """Move the clock forward, or back."""
        self._now += step


def a_task(**changes: Any) -> Task:
    """Return a task with defaults for all other fields. Ids grow, so that later tasks sort last."""
    number = next(_numbers)
    given: dict[str, Any] = {"id": f"fleet-{number:06}", "title": f"task {number}", "created_at": NOON}
    given |= changes
    given.setdefault("updated_at", given["created_at"])
    if given.get("status") == "closed":
        given.setdefault("closed_at", given["updated_at"])
    return Task(**given)


def an_edge(task: Task | str, needs: Task | str, type: str = BLOCKS, **changes: Any) -> Edge:
    """Return an edge by which `task` depends on `needs`, or belongs to it."""
    return Edge(**{"task": _id(task), "needs": _id(needs), "type": type, "created_at": NOON, **changes})


def a_comment(task: Task | str, **changes: Any) -> Comment:
    number = next(_numbers)
    given = {"id": f"comment-{number:06}", "author": "ada", "text": "well", "created_at": NOON}
    return Comment(**{"task_id": _id(task), **given, **changes})


def _id(task: Task | str) -> str:
    return task if isinstance(task, str) else task.id
