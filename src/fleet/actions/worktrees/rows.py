"""The rows of `fleet list`: agents with their own branch. Statuses are derived from the supervisor's observations."""

# `fleet list` is used constantly, so it reads only the database and imports no settings.
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.tasks.names import find_tasks
from fleet.agents.lock import is_locked
from fleet.assembly import cpu_shares
from fleet.core.filter import Filter
from fleet.core.run import Delivery, spent_by
from fleet.core.task import MERGED, WORKTREE
from fleet.core.task_status import TaskPhase, derive_status, is_asked
from fleet.supervisor.lock import holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.run import Question, Run, Spent
    from fleet.core.task import Task
    from fleet.core.task_status import TaskStatus
    from fleet.core.workspace import Workspace


class CollisionNote(NamedTuple):
    """A branch that collides with this one."""

    task: str
    branch: str
    files: tuple[str, ...]

    def view(self) -> dict[str, Any]:
        return {"task": self.task, "branch": self.branch, "files": list(self.files)}


class AgentRow(NamedTuple):
    """A task with a branch, its last run and its worktree."""

    task: Task
    run: Run | None
    workspace: Workspace | None  # None once the worktree is removed
    asks: bool  # a question waits for an answer
    now: datetime
    collides: tuple[CollisionNote, ...] = ()  # as of the last check
    prompt: str = ""  # delivery state of a terminal agent's prompt that was not read yet
    is_lost: bool = False  # the run is recorded as live, but its processes are gone
    totals: Spent | None = None  # of all runs, if the task has several

    @property
    def name(self) -> str:
        """Return the branch, else the ID."""
        return self.task.branch or self.task.id

    @property
    def is_live(self) -> bool:
        return self.run is not None and self.run.is_live

    @property
    def spent(self) -> Spent | None:
        """Return what all runs of the task used together. Return None if it never ran."""
        return self.totals or (spent_by(self.run, self.now) if self.run else None)

    @property
    def derived(self) -> TaskStatus:
        return derive_status(self.task, self.run, self.now, asks=self.asks, prompt=self.prompt, is_lost=self.is_lost)

    @property
    def status(self) -> str:
        return self.derived.phase

    @property
    def runtime_seconds(self) -> float | None:
        """Return how long all runs of the task took together."""
        return self.spent.seconds if self.spent else None

    def view(self) -> dict[str, Any]:
        task, run, space, derived, spent = self.task, self.run, self.workspace, self.derived, self.spent
        live = run if self.is_live else None
        return {
            "branch": task.branch,
            "task": task.id,
            "status": derived.phase,
            "result": derived.result,
            "why": derived.why or None,
            "task_status": task.status,
            "reason": task.reason or None,
            "title": task.title,
            "mode": task.mode,
            "run": run.id if run else None,
            "session": (live.session_name or None) if live else None,
            "prompt_state": self.prompt or None,
            "worktree": space.path if space and not space.is_gone else None,
            "batch": task.batch,
            "repo": task.repo,
            "coder": run.coder if run else task.coder,
            "model": run.model if run else task.model,
            "cpu_percent": live.cpu_pct if live else None,
            "memory_mb": round(live.rss_kb / 1024, 1) if live and live.rss_kb is not None else None,
            "runtime_seconds": round(self.runtime_seconds, 1) if self.runtime_seconds is not None else None,
            "runs": spent.runs if spent else 0,
            "tokens": spent.tokens if spent else 0,
            "cost_usd": spent.cost_usd if spent else None,
            "cost_basis": (spent.cost_basis or None) if spent else None,
            "diff": {"files": run.diff_files, "added": run.diff_added, "removed": run.diff_removed} if run else None,
            "ports": [space.ports.start, space.ports.stop - 1] if space and not space.is_gone and space.ports else None,
            "flags": list(run.flagged) if run else [],
            "collides": [each.view() for each in self.collides],
            "created_at": task.created_at.isoformat(timespec="seconds"),
        }


def rows(fleet: Fleet, scope: NameScope, names: Sequence[str] = (), *, everything: bool = False) -> list[AgentRow]:
    """Return the agents of a repository, or all, oldest first: running or waiting agents, and those with a worktree.

    With `names`, return only these. With `everything`, include agents that ended and whose worktrees are gone.
    Raises the errors of `find_tasks`.
    """
    if names:
        wanted = set(find_tasks(fleet, names, scope=scope))
        shown = [row for row in rows(fleet, scope, everything=everything) if row.task.id in wanted]
        return shown or [row for row in rows(fleet, scope, everything=True) if row.task.id in wanted]
    with fleet.store.snapshot():
        spaces = {space.task_id: space for space in fleet.store.workspaces.find()}
        live = {run.task_id: run for run in fleet.store.runs.live()}
        where = Filter(workspace=WORKTREE, repo=scope.repo)
        found = fleet.store.tasks.find(
            where if everything else where.replace(unfinished=True), sort="created", reverse=True
        )
        if not everything:
            known = {task.id for task in found}
            kept = tuple(key for key in spaces if key not in known)
            found += fleet.store.tasks.find(where.replace(ids=kept), sort="created", reverse=True) if kept else []
        made = rows_of(fleet, found, live, spaces, fleet.store.questions.find(unanswered=True))
    shown = [row for row in made if everything or row.status != TaskPhase.STOPPED or row.task.id in spaces]
    return sorted(shown, key=lambda row: (row.task.created_at, row.task.id))


def rows_of(
    fleet: Fleet,
    found: Sequence[Task],
    live: Mapping[str, Run],
    spaces: Mapping[str, Workspace],
    questions: Iterable[Question],
) -> list[AgentRow]:
    """Return a row for each of these tasks. `live`, `spaces` and `questions` must be complete."""
    tasks = {task.id: task for task in found}
    last = fleet.store.runs.last([key for key in tasks if key not in live]) | dict(live)
    lost = lost_runs(fleet, live.values()) if holder(fleet.home) is None else set()
    asked = {each.task_id for each in questions if each.task_id in tasks and is_asked(each, tasks[each.task_id])}
    unread = {
        each.id: state
        for state in (Delivery.QUEUED, Delivery.SENT)
        for each in fleet.store.messages.find(state=state)
        if each.is_prompt
    }
    now, clashes, spent = fleet.store.now(), _clashes(fleet, spaces, tasks), totals_of(fleet, last.values())
    made = []
    for task in found:
        run, collides = last.get(task.id), tuple(clashes.get(task.id, ()))
        prompt = unread.get(run.id, "") if run is not None and run.is_live else ""
        space, total = spaces.get(task.id), spent.get(task.id)
        made.append(AgentRow(task, run, space, task.id in asked, now, collides, prompt, task.id in lost, total))
    return made


def with_cpu(fleet: Fleet, found: Sequence[AgentRow]) -> list[AgentRow]:
    """Return the rows with what their live agents use now. An agent that does not answer at once keeps its sample."""
    live = [row.run for row in found if row.run is not None and row.is_live and not row.is_lost]
    folders = {run.id: fleet.home.run(run.task_id, run.number) for run in live if run.home in ("", fleet.home.root)}
    shares = cpu_shares(list(folders.values())) if folders else {}
    measured = {key: round(100 * shares[folder], 1) for key, folder in folders.items() if folder in shares}
    return [
        row._replace(run=row.run.replace(cpu_pct=measured[row.run.id])) if row.run and row.run.id in measured else row
        for row in found
    ]


def totals_of(fleet: Fleet, last: Iterable[Run]) -> dict[str, Spent]:
    """Return the totals of those tasks that have several runs, by their last runs."""
    several = [run.task_id for run in last if run.number > 1]
    return fleet.store.runs.spent(several) if several else {}


def lost_runs(fleet: Fleet, live: Iterable[Run]) -> set[str]:
    """Return the tasks of this home whose runs are recorded as live and whose processes are gone."""
    own = fleet.home.root
    ours = [run for run in live if run.home in ("", own) or not fleet.store.is_shared]
    return {run.task_id for run in ours if not is_locked(fleet.home.run(run.task_id, run.number))}


def _clashes(
    fleet: Fleet, spaces: Mapping[str, Workspace], tasks: Mapping[str, Task]
) -> dict[str, list[CollisionNote]]:
    """Return the collisions of each task. Skip a pair if a worktree was removed or a side was merged."""
    found: dict[str, list[CollisionNote]] = {}
    for each in fleet.store.collisions.find():
        sides = ((each.task_id, each.tip), (each.other_id, each.other_tip))
        if any(key not in spaces or _landed(tasks.get(key), tip) for key, tip in sides):
            continue
        for task, other in (each.pair, each.pair[::-1]):
            found.setdefault(task, []).append(CollisionNote(other, spaces[other].branch, each.files))
    return found


def _landed(task: Task | None, tip: str) -> bool:
    """Return True if a branch was merged at this tip. The radar reports the same after its next check."""
    told = task.metadata.get(MERGED) if task is not None else None
    return isinstance(told, dict) and told.get("tip") == tip
