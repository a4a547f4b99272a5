"""Waiting for tasks to end, with progress reports."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.dependency import HARD, SCHEDULING
from fleet.core.filter import Filter
from fleet.core.run import BY_TOOL
from fleet.core.task import RESOLVED, Status
from fleet.core.task_status import QUESTION
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fleet.assembly import Fleet
    from fleet.core.task import Task
    from fleet.store.base import Store

PAUSE_SECONDS = 0.2
UNDER_WAY = (Status.IN_PROGRESS, Status.HOOKED)


class WaitProgress(NamedTuple):
    """The states of the awaited tasks."""

    closed: list[Task]
    blocked: list[Task]  # need a person, or wait for a task that does
    running: list[Task]
    waiting: list[Task]
    gone: list[str]  # deleted meanwhile
    asking: Sequence[Task] = ()  # running tasks whose agents wait for a person

    @property
    def is_over(self) -> bool:
        return not self.running and not self.waiting


def wait(
    fleet: Fleet, ids: Sequence[str] | None, *, timeout: float | None, tell: Callable[[WaitProgress], None]
) -> WaitProgress:
    """Wait until these tasks, or all unfinished ones, are closed or need a person, or until the timeout.

    Call `tell` with each progress. After a timeout, the returned progress is not over.
    """
    wake(fleet.home)
    deadline = None if timeout is None else time.monotonic() + timeout
    if ids is None:
        ids = [task.id for task in fleet.store.tasks.find(Filter(unfinished=True), sort="id")]
    while True:
        progress = look(fleet.store, ids)
        tell(progress)
        left = PAUSE_SECONDS if deadline is None else min(PAUSE_SECONDS, deadline - time.monotonic())
        if progress.is_over or left <= 0:
            return progress
        time.sleep(left)


def wait_for_runs(fleet: Fleet, ids: Collection[str], *, is_served: Callable[[], bool]) -> bool:
    """Wait until no run of these tasks is live. Return False if no process is left that ends them."""
    while any(run.task_id in ids for run in fleet.store.runs.live()):
        if not is_served():
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def look(store: Store, ids: Sequence[str]) -> WaitProgress:
    found = store.tasks.find(Filter(ids=tuple(ids)), sort="id") if ids else []
    ended = [task for task in found if task.is_at_rest]
    going = [task for task in found if not task.is_at_rest]
    running = [task for task in going if task.status in UNDER_WAY or task.is_supervised]
    rest = [task for task in going if task.status not in UNDER_WAY and not task.is_supervised]
    stuck = _stuck(store, rest) if rest and not running else set()
    here = {task.id for task in found}
    return WaitProgress(
        closed=[task for task in ended if task.status in RESOLVED],
        blocked=[task for task in found if task.id in stuck or (task.is_at_rest and task.status == Status.BLOCKED)],
        running=running,
        waiting=[task for task in rest if task.id not in stuck],
        gone=[key for key in ids if key not in here],
        asking=_asking(store, running),
    )


def _asking(store: Store, running: Sequence[Task]) -> list[Task]:
    """Return the tasks whose agents wait for a choice on their screens or for an answer to their tool's question."""
    if not running:
        return []
    keys = {run.task_id for run in store.runs.live() if run.screen == QUESTION}
    keys |= {each.task_id for each in store.questions.find(unanswered=True) if each.source == BY_TOOL}
    return [task for task in running if task.id in keys]


def _stuck(store: Store, tasks: list[Task]) -> set[str]:
    """Return the tasks that wait, directly or not, for a task that needs a person. Called only if nothing runs."""
    step = {task.id for task in store.tasks.find(Filter(statuses=(Status.BLOCKED,)), sort="id")}
    held: set[str] = set()
    kinds: tuple[str, ...] = HARD
    while step:
        step = {edge.task for edge in store.edges.find(step, up=True) if edge.type in kinds} - held
        held |= step
        kinds = SCHEDULING
    return {task.id for task in tasks if task.is_blocked and task.id in held}
