"""Claims, runs and questions for the tests of histories, made with as little said as a test needs."""

from datetime import datetime
from itertools import count
from typing import Any

from builders import HOUR, NOON, a_task
from fleet.core.filter import Lane
from fleet.core.run import Question, Run
from fleet.core.task import Claim
from fleet.store.base import Queue

_numbers = count(1)


def a_claim(queue: Queue, *, owner: str = "host", **changes: Any) -> Claim:
    """A claim on a task made for it."""
    queue.add(a_task(**changes))
    return next_claim(queue, owner)


def next_claim(queue: Queue, owner: str = "host") -> Claim:
    """A claim on the first task that is ready."""
    [claim] = queue.claim(owner, [Lane(room=1)], room=1, ttl=HOUR)
    return claim


def a_run(**changes: Any) -> Run:
    """A run as whoever begins it knows it: without its number."""
    return Run(**{"id": "", "task_id": "", "number": 0, "epoch": 0, "owner": "", "started_at": NOON, **changes})


def a_question(task_id: str, text: str = "red or blue?", *, asked_at: datetime = NOON, **changes: Any) -> Question:
    """What an agent wants to know."""
    given = {"id": f"q-{next(_numbers):06}", **changes}
    return Question(task_id=task_id, text=text, asked_at=asked_at, **given)
