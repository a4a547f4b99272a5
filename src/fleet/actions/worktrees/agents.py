"""Running agents: list, stop, close and retry their tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.tasks.rights import refuse_agents
from fleet.actions.tasks.tasks import close
from fleet.actions.worktrees.rows import lost_runs, totals_of
from fleet.core.errors import BadInput, IllegalMove
from fleet.core.filter import Filter
from fleet.core.run import spent_by
from fleet.core.task import COUNTS, Status
from fleet.core.workflow import BY_HAND, CUT_SHORT, NOT_BEGUN, STOPPED_WITH_ALL, stage_in
from fleet.settings import load, model_for
from fleet.supervisor.host import said_in
from fleet.supervisor.lock import holder
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.run import Run, Spent
    from fleet.core.task import Caller, Task
    from fleet.core.workflow import StageOf
    from fleet.settings import Settings

#: Tasks that a glob can match: for `kill` those that can run, for `retry` those that need a person.
STOPPABLE = Filter(statuses=(Status.OPEN, Status.IN_PROGRESS, Status.DEFERRED, Status.HOOKED))
STUCK = Filter(statuses=(Status.BLOCKED,))


class RunningAgent(NamedTuple):
    """A task in progress and its live run, if any. Derived values are computed when they are read."""

    task: Task
    run: Run | None
    coder: str
    model: str
    now: datetime
    totals: Spent | None = None  # of all runs, if the task has several
    is_lost: bool = False  # the run is recorded as live, but its processes are gone

    @property
    def spent(self) -> Spent | None:
        """Return what all runs of the task used together. Return None if it never ran."""
        return self.totals or (spent_by(self.run, self.now) if self.run else None)

    @property
    def started_at(self) -> datetime | None:
        return self.run.started_at if self.run else self.task.started_at

    @property
    def elapsed_seconds(self) -> float | None:
        """Return how long all runs of the task took together, or how long a person has held it."""
        if self.spent is not None:
            return self.spent.seconds
        return max(0.0, (self.now - self.started_at).total_seconds()) if self.started_at else None

    @property
    def idle_seconds(self) -> float | None:
        if self.run is None:
            return None
        return max(0.0, (self.now - (self.run.last_event_at or self.run.started_at)).total_seconds())

    @property
    def context_percent(self) -> float | None:
        """Return the peak use of the context window in percent."""
        if self.run is None or self.run.context_peak is None or not self.run.context_window:
            return None
        return 100 * self.run.context_peak / self.run.context_window

    def view(self) -> dict[str, Any]:
        task, run, spent = self.task, self.run, self.spent
        stop = run.planned_stop if run else None
        return {
            "id": task.id,
            "title": task.title,
            "status": Status.IN_PROGRESS if self.run else task.status,
            "marked": task.status,  # an agent can block its task and continue to work
            "cwd": task.cwd,
            "run": run.id if run else None,
            "number": run.number if run else None,
            "coder": self.coder,
            "coder_inherited": not task.coder,
            "model": self.model,
            "model_inherited": not task.model,
            "started_at": self.started_at.isoformat(timespec="seconds") if self.started_at else None,
            "elapsed_seconds": _rounded(self.elapsed_seconds),
            "idle_seconds": _rounded(self.idle_seconds),
            "stops_at": stop[0].isoformat(timespec="seconds") if stop else None,
            "context_percent": _rounded(self.context_percent),
            "context_estimated": run.context_is_estimated if run else False,
            "events": run.events if run else 0,
            "tool_calls": run.tool_calls if run else 0,
            "tokens": spent.tokens if spent else 0,
            "cost_usd": spent.cost_usd if spent else None,
            "cost_basis": (spent.cost_basis or None) if spent else None,
            "lost": self.is_lost,
            "held_by": task.claim_owner or task.assignee,
            "stopping": task.cancel_requested_at is not None,
        }


class KillResult(NamedTuple):
    """The effect of `kill` on one task."""

    task: Task
    asked: bool  # True if a running agent was asked to stop; otherwise the task is blocked now, or was closed


def running(fleet: Fleet) -> list[RunningAgent]:
    """Return all tasks in progress, earliest start first. The list includes tasks that a person holds manually."""
    with fleet.store.snapshot():
        live = {run.task_id: run for run in fleet.store.runs.live()}
        found = {task.id: task for task in fleet.store.tasks.find(Filter(statuses=(Status.IN_PROGRESS,)), sort="id")}
        others = tuple(key for key in live if key not in found)
        found |= {task.id: task for task in fleet.store.tasks.find(Filter(ids=others), sort="id")} if others else {}
        now, totals = fleet.store.now(), totals_of(fleet, live.values())
        lost = lost_runs(fleet, live.values()) if holder(fleet.home) is None else set()
    chosen = CoderChoice(fleet)
    rows = [
        RunningAgent(task, live.get(key), *chosen.of(task, live.get(key)), now, totals.get(key), key in lost)
        for key, task in found.items()
    ]
    return sorted(rows, key=lambda row: (row.started_at or now, row.task.id))


class CoderChoice:
    """The coder and model of each task. The settings of each project are read once."""

    def __init__(self, fleet: Fleet) -> None:
        self._home = fleet.home
        self._settings: dict[str, Settings] = {}
        self._override = said_in(holder(fleet.home)).coder

    def of(self, task: Task, run: Run | None = None) -> tuple[str, str]:
        """Return the coder and model of the run, else of the task, else of the settings in its directory."""
        if run is not None and run.coder:
            return run.coder, run.model
        settings = self.settings(task.cwd)
        coder = task.coder or self._override or settings.coder
        return coder, task.model or model_for(settings, coder) or ""

    def settings(self, cwd: str) -> Settings:
        """Return the settings for a directory. If the project's settings cannot be read, return those of the home."""
        if cwd not in self._settings:
            try:
                self._settings[cwd] = load(self._home, cwd or None, env={}, lenient=True)
            except (BadInput, OSError):
                self._settings[cwd] = load(self._home, env={}, lenient=True)
        return self._settings[cwd]


def kill(fleet: Fleet, ids: Sequence[str], *, reason: str = BY_HAND, caller: Caller | None = None) -> list[KillResult]:
    """Stop the agents of these tasks, and keep waiting tasks from starting. Either all tasks change or none.

    Raises TaskNotFound. Raises IllegalMove for a closed task, unless its worktree still exists.
    """
    refuse_agents(caller, "stop tasks")
    with fleet.store.atomic():
        live = {run.task_id for run in fleet.store.runs.live()}
        done = [_stop(fleet, fleet.store.tasks.get(key), key in live, reason) for key in ids]
    wake(fleet.home)
    return done


def done(fleet: Fleet, ids: Sequence[str], *, reason: str, by: str, caller: Caller | None = None) -> list[Task]:
    """Close tasks on a person's decision and end their agents. Either all tasks change or none. Raises IllegalMove."""
    refuse_agents(caller, "say that a task is done: `bd close` hands it in")
    with fleet.store.atomic():
        closed = [close(fleet.store, key, reason, actor=by, force=True) for key in ids]
    wake(fleet.home)
    return closed


def retry(fleet: Fleet, ids: Sequence[str], *, caller: Caller | None = None) -> list[Task]:
    """Reopen tasks and reset all their counters. Either all tasks change or none. Raises TaskNotFound and IllegalMove.

    Retrying a stage also reopens the stages that were stopped because it failed. It reopens dependent stages that were
    cancelled together with the workflow.
    """
    refuse_agents(caller, "send tasks again")
    with fleet.store.atomic():
        live = {run.task_id for run in fleet.store.runs.live()}
        tasks = [_opened(fleet, fleet.store.tasks.get(key), key in live) for key in ids]
        for task in tasks:
            fleet.store.tasks.save(task)
            if task.workflow:
                _open_stages(fleet, task)
    wake(fleet.home)
    return tasks


def _stop(fleet: Fleet, task: Task, live: bool, reason: str) -> KillResult:
    if live or task.is_supervised:
        return KillResult(fleet.store.claims.request_cancel(task.id, reason), asked=True)
    if task.status == Status.CLOSED:
        space = fleet.store.workspaces.get(task.id)
        if space is not None and not space.is_gone:
            return KillResult(task, asked=False)  # nothing to stop: the caller removes the worktree
        gone = ", and its worktree is gone" if space is not None else ""
        raise IllegalMove(f"{task.id} is already closed{gone}", hint=f"run `fleet retry {task.id}` to reopen it")
    stopped = task.freed(fleet.store.now(), status=Status.BLOCKED).replace(reason=reason, defer_until=None)
    fleet.store.tasks.save(stopped)
    return KillResult(stopped, asked=False)


def _opened(fleet: Fleet, task: Task, live: bool) -> Task:
    if live or task.is_supervised:
        raise IllegalMove(f"{task.id} is running", hint=f"run `fleet kill {task.id}` to stop it first")
    if task.status == Status.IN_PROGRESS:
        raise IllegalMove(
            f"{task.id} is held by {task.assignee or task.claim_owner or 'another owner'}",
            hint=f"run `fleet kill {task.id}` to release it first",
        )
    free = task.reopened(fleet.store.now()).replace(assignee="", claim_owner="", run_id="")
    stops = {"cancel_requested_at": None, "cancel_reason": "", "hand_in_reason": ""}
    return free.replace(reason="", finding="", **dict.fromkeys(COUNTS, 0), **stops)


def _open_stages(fleet: Fleet, task: Task) -> None:
    """Reopen stages that were stopped because this stage failed.

    Also reopen dependent stages that were cancelled with the workflow.
    """
    failed = tuple(f"{word} {task.stage} failed" for word in (NOT_BEGUN, CUT_SHORT))
    stages = fleet.store.workflows.stages(task.workflow)
    behind = _behind(stages, task.stage)
    blocked = Filter(ids=tuple(stage.task_id for stage in stages), statuses=(Status.BLOCKED,))
    for other in fleet.store.tasks.find(blocked, sort="id"):  # deleted tasks are absent
        why = (*failed, STOPPED_WITH_ALL) if other.id in behind else failed
        if other.reason.startswith(why) and not other.is_supervised:
            fleet.store.tasks.save(_opened(fleet, other, live=False))


def _behind(stages: Iterable[StageOf], name: str) -> set[str]:
    """Return the tasks of the stages that need this stage, directly or through other stages."""
    names, tasks = {name}, set()
    for stage in stages:  # a stage comes after the stages that it needs
        if names.intersection(stage_in(stage.spec).needs):
            names.add(stage.name)
            tasks.add(stage.task_id)
    return tasks


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
