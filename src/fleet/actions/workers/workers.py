"""Workers: tasks created through the MCP server, with codefleet's fields. Their status is derived from the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.tasks import questions
from fleet.actions.tasks.rights import may_change
from fleet.actions.workers.create import KEY, ORIGIN
from fleet.actions.worktrees import agents, removal
from fleet.core.errors import BadInput, FleetError, IllegalMove, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.run import Ending
from fleet.core.task import RESOLVED, Status
from fleet.core.workflow import was_stopped
from fleet.supervisor.run.stage import has_failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.run import Question, Run
    from fleet.core.task import Caller, Task
    from fleet.core.workspace import Workspace

MOST_LISTED = 1000
#: The maximum number of workers that a list by status reads, newest first and in parts.
MOST_READ = 10_000
CANCELLED_HERE = "stopped by hand: cancelled by its caller"


class WorkerStatus:
    """codefleet's words for the status of a worker."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


STATUSES = ("pending", "running", "succeeded", "failed", "cancelled", "timed_out")
OVER = STATUSES[2:]
#: codefleet has one more status, which no worker has here: the removing call itself reports what it could not remove.
KNOWN = (*STATUSES, "cleanup_failed")


class WorkerNotFound(FleetError):
    """No worker has this id."""

    hint = "call `list_workers` to list the workers"

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"no worker {worker_id[:80]!r}")


class Worker(NamedTuple):
    """A worker's task with its last run and its worktree."""

    task: Task
    run: Run | None
    workspace: Workspace | None
    question: Question | None  # its question to a person

    @property
    def status(self) -> str:
        task, run = self.task, self.run
        if run is not None and (run.is_live or task.is_supervised):
            return WorkerStatus.RUNNING if run.is_live else WorkerStatus.PENDING
        if task.status in RESOLVED:
            return WorkerStatus.FAILED if has_failed(task) else WorkerStatus.SUCCEEDED
        if task.status == Status.BLOCKED:
            return WorkerStatus.PENDING if self.question and not was_stopped(task) else _stopped(task, run)
        return WorkerStatus.PENDING

    @property
    def is_over(self) -> bool:
        return self.status in OVER


class CleanupResult(NamedTuple):
    """The result of removing a worker's worktree and branch."""

    worktree_removed: bool
    branch_removed: bool
    errors: list[str]
    saved: list[str]
    commands: list[str]
    branch_kept: str

    def view(self) -> dict[str, Any]:
        """Return codefleet's fields, and where to find what was kept. The record of a task is never removed."""
        return {
            "worktree_removed": self.worktree_removed,
            "branch_removed": self.branch_removed,
            "worker_dir_removed": False,
            "errors": self.errors,
            "saved_refs": self.saved,
            "restore_commands": self.commands,
            "branch_kept_at": self.branch_kept or None,
        }


def worker(fleet: Fleet, worker_id: str) -> Worker:
    """Return one worker. Every task counts as a worker here. Raises WorkerNotFound."""
    with fleet.store.snapshot():
        try:
            return _seen(fleet, [fleet.store.tasks.get(worker_id)])[0]
        except TaskNotFound as error:
            raise WorkerNotFound(worker_id) from error


def some(fleet: Fleet, ids: Sequence[str]) -> list[Worker]:
    """Return these workers in the order of their ids. Raises WorkerNotFound for the first unknown id."""
    with fleet.store.snapshot():
        found = fleet.store.tasks.find(Filter(ids=tuple(ids)), sort="id") if ids else []
        if missing := sorted(set(ids) - {task.id for task in found}):
            raise WorkerNotFound(missing[0])
        return _seen(fleet, found)


def workers(fleet: Fleet, statuses: Iterable[str] | None = None, *, limit: int = 25) -> list[Worker]:
    """Return the newest workers, newest first. With statuses, return only workers in one of them. Raises BadInput."""
    wanted = None if statuses is None else set(statuses)
    if unknown := sorted((wanted or set()) - set(KNOWN)):
        raise BadInput(f"unknown status {unknown[0][:40]!r}", hint=f"pass one of these: {', '.join(STATUSES)}")
    if not 1 <= limit <= MOST_LISTED:
        raise BadInput(f"limit {limit} is out of range", hint=f"pass 1 to {MOST_LISTED}")
    with fleet.store.snapshot():
        where = Filter(origins=(ORIGIN,), metadata_key=KEY, statuses=_task_statuses(wanted))
        tasks = fleet.store.tasks.find(where, sort="created", limit=limit if wanted is None else MOST_READ)
        if wanted is not None and WorkerStatus.RUNNING in wanted:
            tasks = _with_live(fleet, tasks, where)
        if wanted is None:
            return _seen(fleet, tasks)
        found: list[Worker] = []
        for at in range(0, len(tasks), limit):
            found += [each for each in _seen(fleet, tasks[at : at + limit]) if each.status in wanted]
            if len(found) >= limit:
                break
        return found[:limit]


def own(task: Task, caller: Caller | None, doing: str) -> None:
    """Raise IllegalMove if the caller is a run and did not make the task."""
    if caller is not None and (task.id == caller.task_id or not may_change(caller, task)):
        raise IllegalMove(
            f"an agent may not {doing} {task.id}: {caller.task_id} did not create it", hint="ask a person to do that"
        )


def cancel(fleet: Fleet, worker_id: str, *, caller: Caller | None = None) -> Worker:
    """Stop a worker, or prevent its start. Its work stays. Raises WorkerNotFound, and IllegalMove if it has ended.

    A live agent is asked to stop. The worker has finished once its agent has stopped.
    """
    with fleet.store.atomic():
        found = worker(fleet, worker_id)
        own(found.task, caller, "cancel")
        if found.is_over:
            raise IllegalMove(
                f"worker {worker_id} is already {found.status}", hint="call `cleanup_worker` to remove its worktree"
            )
        agents.kill(fleet, [worker_id], reason=CANCELLED_HERE)
        questions.withdraw(fleet, [worker_id])
    return worker(fleet, worker_id)


def cleanup(
    fleet: Fleet, worker_id: str, *, remove_branch: bool, remove_worktree: bool, caller: Caller | None = None
) -> CleanupResult:
    """Remove a worker's worktree and its branch. Work that only they hold is saved, and a ref keeps the branch's tip.

    Raises WorkerNotFound, and IllegalMove if the worker is not over.
    """
    found = worker(fleet, worker_id)
    own(found.task, caller, "clean up after")
    if not found.is_over or (found.run is not None and found.run.is_live):
        raise IllegalMove(
            f"cannot clean up worker {worker_id}: it is {found.status}", hint="call `cancel_worker`, or wait"
        )
    space = found.workspace
    if space is None or not remove_worktree:
        why = [] if space is None or not remove_branch else ["its branch is kept: it is checked out in its worktree"]
        return CleanupResult(False, False, why, [], [], "")
    if space.is_gone:
        return CleanupResult(False, False, [], space.saved_refs, [], "")
    (gone,) = removal.remove(fleet, [worker_id], with_branch=remove_branch)
    removal.sweep([gone], fleet)
    return CleanupResult(
        worktree_removed=gone.removed,
        branch_removed=bool(gone.branch_kept),
        errors=[each for each in (gone.why_not, gone.later) if each],
        saved=list(gone.saved.refs),
        commands=list(gone.saved.commands),
        branch_kept=gone.branch_kept,
    )


def _seen(fleet: Fleet, tasks: Sequence[Task]) -> list[Worker]:
    found = []
    for task in tasks:
        runs = fleet.store.runs.of_task(task.id)
        asked = fleet.store.questions.find(task_id=task.id, unanswered=True) if _may_ask(task) else []
        found.append(
            Worker(task, runs[-1] if runs else None, fleet.store.workspaces.get(task.id), asked[0] if asked else None)
        )
    return found


def _with_live(fleet: Fleet, tasks: list[Task], where: Filter) -> list[Task]:
    """Add tasks with a live agent whatever their status, and sort newest first."""
    known = {task.id for task in tasks}
    live = tuple(run.task_id for run in fleet.store.runs.live() if run.task_id not in known)
    more = fleet.store.tasks.find(where.replace(statuses=None, ids=live), sort="id") if live else []
    return sorted([*tasks, *more], key=lambda task: (task.created_at, task.id), reverse=True) if more else tasks


def _may_ask(task: Task) -> bool:
    return task.status in (Status.BLOCKED, Status.IN_PROGRESS)


def _stopped(task: Task, run: Run | None) -> str:
    """Return the status of a blocked task without a question, by its last run or by how it was stopped."""
    if run is not None and run.ending == Ending.TIMED_OUT:
        return WorkerStatus.TIMED_OUT
    if was_stopped(task) or (run is not None and run.ending == Ending.CANCELLED):
        return WorkerStatus.CANCELLED
    return WorkerStatus.FAILED


def _task_statuses(wanted: set[str] | None) -> tuple[str, ...] | None:
    """Return the task statuses that such workers can have, so that other tasks are not read."""
    if wanted is None:
        return None
    found: set[str] = set()
    if WorkerStatus.SUCCEEDED in wanted:
        found |= set(RESOLVED)
    if wanted & {WorkerStatus.FAILED, WorkerStatus.CANCELLED, WorkerStatus.TIMED_OUT, WorkerStatus.PENDING}:
        found.add(Status.BLOCKED)
    if wanted & {WorkerStatus.PENDING, WorkerStatus.RUNNING}:
        found |= {Status.OPEN, Status.DEFERRED, Status.IN_PROGRESS, Status.HOOKED}
    return tuple(sorted(found))
