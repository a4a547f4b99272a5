"""Removal of expired data: raw output of ended runs, worktrees of finished tasks, and saved work."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.other_hosts import here
from fleet.actions.tasks.rights import refuse_agents
from fleet.actions.worktrees import removal
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.task import MERGED, Status
from fleet.git.save.worktree import deleted_refs, forget, saved_refs
from fleet.git.work_done import landed_in
from fleet.settings import load
from fleet.supervisor.retention import due_before, sweep_all, tidy
from fleet.supervisor.run.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.task import Caller, Task
    from fleet.core.workspace import Workspace
    from fleet.supervisor.retention import RemovedOutput

UNMERGED = "finished, not merged"


class Old(NamedTuple):
    """An item that gc found."""

    what: str  # worktree, saved, or deleted branch
    name: str  # branch or ref
    task_id: str
    why: str
    goes: bool  # True if gc removes it; other items are only reported
    space: Workspace  # its workspace, or another of the same repository
    removed: bool = False
    commands: tuple[str, ...] = ()  # commands that restore its saved work

    def view(self) -> dict[str, Any]:
        told = {name: value for name, value in self._asdict().items() if name != "space"}
        return told | {"commands": list(self.commands)}


def _collect(fleet: Fleet, *, dry_run: bool, finished: bool = False) -> list[Old]:
    """Remove unneeded worktrees and expired saved work, and return what was found. With `dry_run`, remove nothing.

    Unneeded worktrees belong to deleted tasks, or to finished tasks whose work is merged or without changes.
    With `finished`, the worktrees of all finished tasks are removed.
    Saved work and the tips of deleted branches expire after `saving.days`.
    """
    found = [*_worktrees(fleet, finished=finished), *_saved(fleet)]
    return found if dry_run else [_gone(fleet, each) if each.goes else each for each in found]


def _worktrees(fleet: Fleet, *, finished: bool) -> list[Old]:
    spaces = here(fleet, fleet.store.workspaces.find())
    ids = tuple(space.task_id for space in spaces)
    tasks = {task.id: task for task in fleet.store.tasks.find(Filter(ids=ids), sort="id")} if ids else {}
    live = {run.task_id for run in fleet.store.runs.live()}
    found = []
    for space in spaces:
        task = tasks.get(space.task_id)
        if space.task_id in live or (task is not None and task.status != Status.CLOSED):
            continue
        why = "its task was deleted" if task is None else _why(fleet, task, space)
        goes = finished or why != UNMERGED
        found.append(Old("worktree", space.branch, space.task_id, why, goes, space))
    return found


def _why(fleet: Fleet, task: Task, space: Workspace) -> str:
    view = Work(fleet.home, space).view
    tip = view.commit_of(f"refs/heads/{space.branch}")
    if tip is None:
        return "finished, and its branch is gone"
    if tip == space.base_commit:
        return "finished, and nothing was committed"
    into = landed_in(view, space.branch, tip, task.metadata.get(MERGED))
    return f"finished and merged into {into}" if into else UNMERGED


def _saved(fleet: Fleet) -> list[Old]:
    days = load(fleet.home, env={}, lenient=True).saving.days
    before = fleet.store.now() - timedelta(days=days)
    repositories = {space.common: space for space in here(fleet, fleet.store.workspaces.find(gone=True))}
    found: list[Old] = []
    for space in repositories.values():
        try:
            refs = saved_refs(Work(fleet.home, space).view)
            found += _deleted(fleet, space, before, days)
        except FleetError:  # the repository is gone
            continue
        found += [
            Old("saved", each.ref, each.task, f"saved more than {days} days ago", goes=True, space=space)
            for each in refs
            if each.at < before
        ]
    return found


def _deleted(fleet: Fleet, space: Workspace, before: datetime, days: int) -> Iterator[Old]:
    """Yield tips of branches whose last worktree was removed before the limit. A ref records no deletion time."""
    last: dict[str, Workspace] = {
        each.branch: each for each in fleet.store.workspaces.find(common=space.common, gone=True)
    }
    for ref, branch in deleted_refs(Work(fleet.home, space).view):
        gone = last.get(branch)
        if gone is not None and gone.removed_at is not None and gone.removed_at < before:
            yield Old("deleted branch", ref, gone.task_id, f"deleted more than {days} days ago", True, gone)


def _gone(fleet: Fleet, old: Old) -> Old:
    try:
        if old.what == "worktree":
            done = removal.remove(fleet, [old.task_id])
            removal.sweep(done, fleet)
            why = f"{old.why}, but: {done[0].why_not}" if done[0].why_not else old.why
            return old._replace(removed=done[0].removed, commands=done[0].saved.commands, why=why)
        forget(Work(fleet.home, old.space).view, old.name)
    except FleetError as error:
        return old._replace(why=f"{old.why}, but: {error}")
    return old._replace(removed=True)


class CollectedData(NamedTuple):
    """The items that `gc` removed, or with `dry_run` would remove."""

    removed: RemovedOutput
    raw_days: int
    before: datetime
    dry_run: bool
    old: list[Old]

    @property
    def removes(self) -> bool:
        """Return True if anything is, or would be, removed."""
        return bool(self.removed.files) or any(each.goes for each in self.old)

    def view(self) -> dict[str, Any]:
        told = {"dry_run": self.dry_run, "raw_days": self.raw_days, "before": self.before.isoformat(timespec="seconds")}
        return told | self.removed.as_dict() | {"worktrees": [each.view() for each in self.old]}


def gc(fleet: Fleet, *, dry_run: bool = False, finished: bool = False, caller: Caller | None = None) -> CollectedData:
    """Remove raw output of runs that ended more than `raw_days` ago, unneeded worktrees, and expired saved work."""
    refuse_agents(caller, "remove raw output or worktrees")
    days = load(fleet.home, env={}, lenient=True).supervisor.raw_days
    before = due_before(fleet.store.now(), days)
    removed = sweep_all(fleet.home, fleet.store, before=before, dry_run=dry_run)
    old = _collect(fleet, dry_run=dry_run, finished=finished)
    if not dry_run:
        tidy(fleet.home, here(fleet, fleet.store.workspaces.find(gone=True)))
    return CollectedData(removed, days, before, dry_run, old)
