"""Branches to compare or pick from: those of tasks or batches, or plain branches of one repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.actions.control.fetch import workspace_here
from fleet.actions.tasks.names import find_tasks, is_pattern
from fleet.core.errors import FleetError, TaskNotFound, UsageError
from fleet.core.filter import Filter
from fleet.core.jsontext import encode
from fleet.core.record import Record
from fleet.core.run import total_cost
from fleet.core.task import WORKTREE, Status
from fleet.core.verification import verification_in
from fleet.git.branches import resolve_base
from fleet.git.diffs import DiffSize, shortstat
from fleet.git.repository import NoRepository, Repository, find_repository
from fleet.git.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.receipt import Receipt
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.verification import Verification
    from fleet.core.workspace import Workspace

MOST = 100


class Candidate(Record):
    """A branch and its origin: task, runs and last receipt."""

    name: str  # display name
    branch: str
    tip: str
    base: str  # the commit to compare with
    size: DiffSize
    task: Task | None = None
    runs: tuple[Run, ...] = ()
    receipt: Receipt | None = None  # the task's last receipt
    space: Workspace | None = None

    def view(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "task": self.task.id if self.task else None,
            "branch": self.branch,
            "tip": self.tip,
            "base": self.base,
            "diff": self.size.as_dict(),
            "seconds": None if self.seconds is None else round(self.seconds, 1),
            "cost_usd": self.cost_usd,
            "cost_basis": self.cost_basis or None,
            "coder": self.coder or None,
            "model": self.model or None,
        }

    @property
    def key(self) -> str:
        """Return a key that is unique among candidates."""
        return self.task.id if self.task else self.branch

    def piece(self, name: str) -> Mapping[str, Any]:
        """Return a piece of the last receipt. Return {} if there is none."""
        found = (self.receipt.told.get("pieces") or {}).get(name) if self.receipt else None
        return found if isinstance(found, dict) else {}

    @property
    def is_current(self) -> bool:
        """Return True if the last receipt is about the branch's current commit."""
        return self.piece("git").get("tip") == self.tip

    @property
    def verification(self) -> Verification | None:
        """Return the verification in the last receipt."""
        told = self.piece("verify")
        return verification_in(encode(dict(told))) if told.get("command") else None

    @property
    def seconds(self) -> float | None:
        spans = [(run.ended_at - run.started_at).total_seconds() for run in self.runs if run.ended_at]
        return max(0.0, sum(spans)) if spans else None

    @property
    def cost_usd(self) -> float | None:
        return total_cost(self.runs)[0]

    @property
    def cost_basis(self) -> str:
        return total_cost(self.runs)[1]

    @property
    def coder(self) -> str:
        return (self.runs[-1].coder if self.runs else self.task.coder if self.task else "") or ""

    @property
    def model(self) -> str:
        return (self.runs[-1].model if self.runs else self.task.model if self.task else "") or ""


class Field(Record):
    """The candidates of one repository, and the names that were left out."""

    view: View
    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[str, str], ...] = ()  # name and reason


def find_candidates(
    fleet: Fleet, names: Sequence[str], *, scope: NameScope, directory: str, at_work: bool = False
) -> Field:
    """Find candidates by name: a batch, tasks, globs over both, or branches of the directory's repository.

    Leaves out tasks whose agents are still working, unless `at_work` is True. Raises TaskNotFound. Raises UsageError if
    the candidates are in several repositories, and FleetError if none is left.
    """
    named: dict[str, Task | str] = {}  # in the order given
    for name in names:
        found = _tasks(fleet, name, scope)
        named |= {task.id: task for task in found}
        named |= {} if found else {f"refs/heads/{name}": name}
    if len(named) > MOST:
        raise UsageError(f"too many candidates at once: {len(named)}", hint=f"pass at most {MOST}")
    gathering = _Gathering(fleet, directory, at_work=at_work)
    for each in named.values():
        gathering.add(each)
    return gathering.field()


def is_glob(fleet: Fleet, name: str) -> bool:
    """Return True if a name is a glob over branches and IDs. Exact names of batches and tasks are no globs."""
    return is_pattern(fleet, name) and not fleet.store.tasks.find(
        Filter(batch=name, workspace=WORKTREE), sort="id", limit=1
    )


def _tasks(fleet: Fleet, name: str, scope: NameScope) -> list[Task]:
    """Return the tasks that a name selects, a batch's oldest first. Return [] if it can only be a plain branch."""
    batch = (
        fleet.store.tasks.find(Filter(batch=name, workspace=WORKTREE, repo=scope.repo), sort="oldest") if name else []
    )
    if batch:
        return batch
    try:
        return [fleet.store.tasks.get(key) for key in find_tasks(fleet, [name], scope=scope, exact=True)]
    except TaskNotFound:
        return []


class _Gathering:
    """A collector of candidates."""

    def __init__(self, fleet: Fleet, directory: str, *, at_work: bool) -> None:
        self._fleet, self._directory, self._at_work = fleet, directory, at_work
        self._made: dict[tuple[str, str], Candidate] = {}  # by repository and branch: a branch can be named twice
        self._left_out: list[tuple[str, str]] = []
        self._views: dict[str, View] = {}

    def add(self, named: Task | str) -> None:
        """Add a task, or a branch that belongs to no task."""
        if isinstance(named, str):
            view = self._view(_repository(self._directory, named))
            self._keep(view, _of_branch(view, named, self._directory))
        elif why := "" if self._at_work else _unfit(self._fleet, named):
            self._left_out.append((named.branch or named.id, why))
        else:
            self._add_task(named)

    def field(self) -> Field:
        """Return all candidates. Raises UsageError and FleetError."""
        if len({common for common, _ in self._made}) > 1:
            raise UsageError("the branches belong to several repositories", hint="pass names of one repository")
        if not self._made:
            words = "; ".join(f"{name}: {why}" for name, why in self._left_out[:5])
            raise FleetError(f"no candidate to compare: {words}", hint="run `fleet list` to show the agents")
        common = next(iter(self._made))[0]
        made = tuple(self._made.values())
        return Field(view=self._views[common], candidates=made, left_out=tuple(self._left_out))

    def _add_task(self, task: Task) -> None:
        space = workspace_here(self._fleet, task)
        if space is None:
            self._left_out.append((task.branch or task.id, "it has no branch"))
            return
        view = self._view(Repository(top=space.repo, common=space.common))
        tip = view.commit_of(f"refs/heads/{space.branch}")
        if tip is None:
            self._left_out.append((space.branch, "its branch is gone"))
        else:
            self._keep(view, _of_task(self._fleet, view, task, space, tip))

    def _keep(self, view: View, candidate: Candidate) -> None:
        self._made.setdefault((view.repository.common, candidate.branch), candidate)

    def _view(self, repository: Repository) -> View:
        return self._views.setdefault(repository.common, View(self._fleet.home, repository))


def _unfit(fleet: Fleet, task: Task) -> str:
    if any(run.task_id == task.id for run in fleet.store.runs.live()):
        return "its agent is still working"
    return (
        "its agent has not started yet" if task.status == Status.OPEN and not fleet.store.runs.of_task(task.id) else ""
    )


def _of_task(fleet: Fleet, view: View, task: Task, space: Workspace, tip: str) -> Candidate:
    receipts = fleet.store.receipts.of_task(task.id)
    return Candidate(
        name=space.branch,
        branch=space.branch,
        tip=tip,
        base=space.base_commit,
        size=shortstat(view, space.base_commit, tip),
        task=task,
        space=space,
        runs=tuple(fleet.store.runs.of_task(task.id)),
        receipt=receipts[-1] if receipts else None,
    )


def _repository(directory: str, name: str) -> Repository:
    try:
        return find_repository(directory)
    except NoRepository:
        raise TaskNotFound(name) from None


def _of_branch(view: View, branch: str, directory: str) -> Candidate:
    """Return the candidate of a branch without a task. Its base is the merge base with this directory's checkout."""
    tip = view.commit_of(f"refs/heads/{branch}") if branch and branch.isprintable() else None
    if tip is None:
        raise TaskNotFound(branch)
    head = resolve_base(view.repository, view, cwd=directory)
    found = view.git("merge-base", head, tip, allow=(1,)).decode().split()
    if not found:
        raise FleetError(f"branch {branch!r} has no commit in common with the checkout here")
    return Candidate(name=branch, branch=branch, tip=tip, base=found[0], size=shortstat(view, found[0], tip))
