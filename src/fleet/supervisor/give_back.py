"""Tasks that go back to the queue uncounted. Each consecutive time doubles the wait before the next claim."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.filter import Filter
from fleet.core.run import Ending
from fleet.core.task import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.core.run import Run
    from fleet.core.task import Claim, Task
    from fleet.store.base import Store

SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 20.0
#: Maximum number of given-back tasks to return.
MOST_TASKS = 100
TOO_MANY = "its caller allows no more agents at once"


def put_off(store: Store, task: Task, reason: str, seconds: float = SHORTEST_SECONDS) -> Task:
    """Let a task that was just given back wait, at first for `seconds`.

    Call this in the transaction that freed the task.

    Return the task as it is then.
    """
    if task.status != Status.OPEN:
        return task
    wait = timedelta(seconds=pause(times_given_back(task, store.runs.of_task(task.id)), seconds))
    task = task.replace(defer_until=store.now() + wait, reason=reason)
    store.tasks.save(task)
    return task


def release(store: Store, claims: Sequence[Claim]) -> None:
    """Give back claims of tasks that already have too many agents."""
    with store.atomic():
        for claim in claims:
            put_off(store, store.claims.release(claim), claim.task.reason or TOO_MANY)


def times_given_back(task: Task, runs: Sequence[Run]) -> int:
    """Return how often in a row a claim of a task led to nothing: no run began, or its run was given back.

    No counter is needed: each claim is an epoch, and each run knows its epoch. Pure.
    """
    released = 0
    while released < len(runs) and runs[-1 - released].ending == Ending.RELEASED:
        released += 1
    return released + max(0, task.epoch - (runs[-1].epoch if runs else 0))


def pause(times: int, seconds: float) -> float:
    """Return how many seconds a task waits that was given back `times` times in a row. Pure."""
    return min(max(LONGEST_SECONDS, seconds), seconds * (1 << min(max(times - 1, 0), 16)))


def waiting(store: Store) -> list[Task]:
    """Return tasks that were given back and wait, with the reason in each. At most MOST_TASKS are read."""
    put_off = Filter(statuses=(Status.OPEN,), defer_after=store.now(), blocked=False)
    found = [task for task in store.tasks.find(put_off, sort="id", limit=MOST_TASKS) if task.reason]
    last = store.runs.last([task.id for task in found]) if found else {}
    return [task for task in found if times_given_back(task, [last[task.id]] if task.id in last else [])]
