"""Following new tasks until their agents work, or until it is known why they do not start."""

from __future__ import annotations

import os
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.supervisor import ensure
from fleet.agents.lock import is_locked
from fleet.core.clock import iterate_pauses
from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace

#: How often to check that a supervisor still runs.
HOLDER_SECONDS = 1.0
#: A task without a claim after this time is waiting for a slot.
CLAIM_SECONDS = 3.0


class StartState:
    """The states of a starting task."""

    WAITING = "queued"
    SETTING_UP = "setting up"
    RUNNING = "running"
    ENDED = "ended"  # ended before it was seen running
    FAILED = "failed"


class StartingTask(NamedTuple):
    """A task that is about to get an agent."""

    task: Task
    run: Run | None
    workspace: Workspace | None
    state: str
    lacks: str = ""  # why no host can take it yet

    def view(self) -> dict[str, Any]:
        run, space = self.run, self.workspace
        return {
            "task": self.task.id,
            "branch": self.task.branch,
            "status": self.state,
            "reason": self.task.reason or self.lacks or None,
            "worktree": space.path if space else None,
            "session": (run.session_name or None) if run else None,
            "batch": self.task.batch,
            "base": self.task.base,
            "coder": run.coder if run else self.task.coder,
            "model": run.model if run else self.task.model,
            "repo": self.task.repo,
        }


def watch(
    fleet: Fleet,
    ids: Sequence[str],
    *,
    seconds: float,
    tell: Callable[[list[StartingTask]], None],
    lacking: Mapping[str, str] = MappingProxyType({}),
) -> list[StartingTask]:
    """Wait until each task has an agent or a reason to have none, or until `seconds` have passed.

    Tasks in `lacking` cannot be taken yet, for the given reasons.
    """
    # Short pauses at first, because an agent starts in a moment; longer ones later, because many may wait at once.
    began, looked, pauses = time.monotonic(), 0.0, iterate_pauses(0.01, 0.2, 1.1)
    while True:
        found = [_with_reason(each, lacking) for each in look(fleet, ids)]
        tell(found)
        waited = time.monotonic() - began
        moving = [
            each for each in found if each.state in (StartState.WAITING, StartState.SETTING_UP) and not each.lacks
        ]
        claimed = any(each.state == StartState.SETTING_UP for each in moving)
        if not moving or waited >= seconds or (waited >= CLAIM_SECONDS and not claimed):
            return found
        if waited >= looked + HOLDER_SECONDS:
            looked = waited
            ensure(fleet.home)  # the earlier supervisor may have been killed
        time.sleep(next(pauses))


def _with_reason(start: StartingTask, lacking: Mapping[str, str]) -> StartingTask:
    return start._replace(lacks=lacking.get(start.task.id, "")) if start.state == StartState.WAITING else start


def look(fleet: Fleet, ids: Sequence[str]) -> list[StartingTask]:
    """Return the current state of these tasks, in the given order."""
    with fleet.store.snapshot():
        tasks = {task.id: task for task in fleet.store.tasks.find(Filter(ids=tuple(ids)), sort="id")}
        live = {run.task_id: run for run in fleet.store.runs.live()}
        return [_start(fleet, tasks[key], live.get(key)) for key in ids if key in tasks]


def _start(fleet: Fleet, task: Task, run: Run | None) -> StartingTask:
    space = fleet.store.workspaces.get(task.id)
    if run is not None:
        home = Home(run.home) if run.home else fleet.home
        folder = home.run(task.id, run.number)
        alive = is_locked(folder) and os.path.lexists(f"{folder}/control")  # by then its shim answers
        return StartingTask(
            task, run, space, StartState.RUNNING if alive or run.first_event_at else StartState.SETTING_UP
        )
    if task.status == Status.IN_PROGRESS:
        return StartingTask(task, None, space, StartState.SETTING_UP)
    runs = fleet.store.runs.of_task(task.id)
    if runs and runs[-1].first_event_at:
        return StartingTask(task, runs[-1], space, StartState.ENDED)
    if task.status in (Status.BLOCKED, Status.CLOSED) or task.failures:
        return StartingTask(task, runs[-1] if runs else None, space, StartState.FAILED)
    return StartingTask(task, None, space, StartState.WAITING)
