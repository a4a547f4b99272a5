"""Bringing worktrees, sessions, branches and tasks in line after a kill or a hand that reached in, losing nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.actions import removal
from fleet.actions.elsewhere import here, is_elsewhere
from fleet.actions.merge_records import repair_merges
from fleet.actions.rights import refuse_agents
from fleet.assembly import close_terminal, dead_terminals
from fleet.config import load
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.engine.single import holder
from fleet.engine.tidying import tidy
from fleet.engine.work import Work
from fleet.home import Home
from fleet.launchers.lock import is_locked
from fleet.workspaces.admin import worktrees
from fleet.workspaces.worktree import undo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.actions.names import Scope
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Caller
    from fleet.core.workspace import Workspace


def repair(fleet: Fleet, scope: Scope, *, caller: Caller | None = None) -> list[str]:
    """Bring everything in line for one repository, or for all; what was done, a line each."""
    refuse_agents(caller, "repair worktrees")
    done = [*repair_merges(fleet, scope), *_workspaces(fleet, scope), *_strangers(fleet, scope)]
    done += [*_sessions(fleet), *_runs(fleet)]
    tidy(fleet.home, here(fleet, fleet.history.workspaces(gone=True)))
    return done


def _workspaces(fleet: Fleet, scope: Scope) -> Iterator[str]:
    """What is on record: half made, half removed, or gone from the disk."""
    held = _held(fleet)
    for space in here(fleet, fleet.history.workspaces()):
        if scope.repo not in (None, space.repo) or space.task_id in held:
            continue
        if space.removing_at is not None:
            yield from _remove(fleet, space, "its removal had been cut short")
        elif not os.path.isdir(space.path):  # noqa: PTH112
            yield from _remove(fleet, space, "its folder was gone")
        elif space.ready_at is None:
            yield _undone(fleet, space)


def _held(fleet: Fleet) -> set[str]:
    """The tasks that somebody is at work on."""
    live = {run.task_id for run in fleet.history.live()}
    claimed = fleet.queue.find(Filter(statuses=(Status.IN_PROGRESS,)), sort="id")
    return live | {task.id for task in claimed if task.is_supervised}


def _remove(fleet: Fleet, space: Workspace, why: str) -> Iterator[str]:
    try:
        done = removal.remove(fleet, [space.task_id])
    except FleetError as error:
        yield f"{space.branch}: {why}, and it cannot be removed: {error}"
        return
    removal.sweep(done, fleet)
    for each in done:
        if not each.removed:
            yield f"{space.branch}: {why}, and its worktree stays: {each.why_not}"
            continue
        yield f"{space.branch}: removed its worktree, {why}"
        for command in each.saved.commands:
            yield f"  what was in it is saved: {command}"


def _undone(fleet: Fleet, space: Workspace) -> str:
    """A worktree that was never made ready: no agent was in it, so nothing of it need be kept."""
    work = Work(fleet.home, space)
    begun = fleet.history.begin_removal(space.task_id)
    undo(
        fleet.home,
        work.repository,
        path=begun.path,
        branch=begun.branch,
        base_commit=begun.base_commit,
        made=begun.made_branch,
    )
    fleet.history.end_removal(space.task_id, "[]")
    return f"{space.branch}: took back its worktree, which was never finished"


def _strangers(fleet: Fleet, scope: Scope) -> Iterator[str]:
    """Worktrees in fleet's own place that are not on record."""
    known = {os.path.realpath(space.path) for space in fleet.history.workspaces()}
    root = os.path.realpath(os.path.join(fleet.home.root, "worktrees"))  # noqa: PTH118
    spaces = here(fleet, [*fleet.history.workspaces(), *fleet.history.workspaces(gone=True)])
    seen = {space.common: space for space in spaces}
    for space in seen.values():
        if scope.repo not in (None, space.repo):
            continue
        repository = Work(fleet.home, space).repository
        for _, path in worktrees(repository):
            place = os.path.realpath(path)
            if place.startswith(f"{root}/") and place not in known:
                yield f"{path}: is no task's; look at it, then `git worktree remove --force` takes it away"


def _sessions(fleet: Fleet) -> Iterator[str]:
    """Sessions whose agent has ended, or is not on record."""
    runs = [run for run in fleet.history.live() if run.session_name]
    sockets = {run.launcher.partition(":")[2] for run in runs} | {load(fleet.home, env={}).tmux.socket}
    for socket in sockets:
        names = {run.session_name for run in runs if run.launcher.partition(":")[2] == socket}
        for name in dead_terminals(socket):
            if name not in names:
                close_terminal(socket, name)
                yield f"session {name}: closed, its agent has ended"


def _runs(fleet: Fleet) -> Iterator[str]:
    """Runs that are on record as live, and have no agent: a supervisor settles them."""
    lost = [run for run in fleet.history.live() if not is_elsewhere(fleet, run.owner) and not _lives(fleet, run)]
    if lost and holder(fleet.home) is None:
        yield f"{', '.join(run.task_id for run in lost)}: no agent any more; `fleet run start` settles what it left"


def _lives(fleet: Fleet, run: Run) -> bool:
    home = Home(run.home) if run.home else fleet.home
    return is_locked(f"{home.task(run.task_id)}/runs/{run.number}")
