"""Repair of worktrees, sessions, branches and tasks after a kill or manual changes, without losing anything."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from fleet.actions.control.other_hosts import here, is_elsewhere
from fleet.actions.merge.records import repair_merges
from fleet.actions.tasks.rights import refuse_agents
from fleet.actions.worktrees import removal
from fleet.actions.worktrees.agents import CoderChoice
from fleet.actions.worktrees.strays import in_words, strays
from fleet.agents.lock import is_locked
from fleet.assembly import close_terminal, terminals
from fleet.core.branch import session_name
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.task import WORKTREE, Status
from fleet.git.branches import restore_branch
from fleet.git.repository import RepositoryGone, is_gone
from fleet.git.worktree_records import head_of, worktrees
from fleet.home import Home
from fleet.settings import load
from fleet.supervisor.lock import holder
from fleet.supervisor.relocation import relocate
from fleet.supervisor.removal import take_back
from fleet.supervisor.retention import tidy
from fleet.supervisor.run.work import Work
from fleet.supervisor.run.workplace import is_seen, worktree_path
from fleet.supervisor.strays import living

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Caller, Task
    from fleet.core.workspace import Workspace
    from fleet.git.repository import Repository
    from fleet.settings import Settings
    from fleet.supervisor.strays import Stray


def gone_repositories(fleet: Fleet) -> dict[str, int]:
    """Return the paths of missing repositories, each with the number of tasks that need it."""
    waiting = fleet.store.tasks.find(Filter(workspace=WORKTREE, unfinished=True), sort="id")
    needed = {task.id: task.repo for task in waiting if task.repo and not task.remote}
    needed |= {space.task_id: space.repo for space in here(fleet, fleet.store.workspaces.find())}
    return {place: number for place, number in Counter(needed.values()).items() if is_gone(place)}


def repair(fleet: Fleet, scope: NameScope, *, caller: Caller | None = None) -> list[str]:
    """Repair everything in one repository, or in all. Return a report, one line per repair or problem."""
    refuse_agents(caller, "repair worktrees")
    moved = relocate(fleet.home, fleet.store)
    done = [moved] if moved else []
    found = strays(fleet)
    done += [in_words(fleet, stray) for stray in found]
    done += _repositories(fleet, scope)
    done += [*repair_merges(fleet, scope), *_workspaces(fleet, scope), *_branches(fleet, scope)]
    done += [*_strangers(fleet, scope, found), *_sessions(fleet, scope), *_runs(fleet)]
    tidy(fleet.home, here(fleet, fleet.store.workspaces.find(gone=True)))
    return done


def _workspaces(fleet: Fleet, scope: NameScope) -> Iterator[str]:
    """Repair recorded worktrees that are half made, half removed, or gone from the disk."""
    held = _held(fleet)
    for space in _spaces(fleet, scope):
        is_there = os.path.isdir(space.path)  # noqa: PTH112
        if space.task_id in held:
            if space.ready_at is not None and not is_there:
                kill = f"`fleet kill {space.branch}` stops it and saves what git still has"
                yield f"{space.branch}: its folder is gone, and its agent goes on; {kill}"
        elif space.removing_at is not None:
            yield from _remove(fleet, space, "its removal had been cut short")
        elif space.ready_at is None:
            yield _undone(fleet, space)
        elif not is_there and not is_seen(space.path):
            words = f"nothing is removed; `fleet kill {space.branch}` removes what is left"
            yield f"{space.branch}: its folder {space.path} cannot be seen, as its parent folder is missing; {words}"
        elif not is_there:
            yield from _remove(fleet, space, "its folder was gone")


def _spaces(fleet: Fleet, scope: NameScope) -> list[Workspace]:
    """Return this host's existing worktrees, except those whose repositories are gone."""
    found = [space for space in here(fleet, fleet.store.workspaces.find()) if scope.repo in (None, space.repo)]
    return [space for space in found if not is_gone(space.common)]


def _repositories(fleet: Fleet, scope: NameScope) -> Iterator[str]:
    """Report repositories that are not at their places. Their worktrees cannot be checked."""
    for place, number in gone_repositories(fleet).items():
        if scope.repo in (None, place):
            error = RepositoryGone(place)
            yield f"{error}; {number} of its tasks wait; {error.hint}"


def _branches(fleet: Fleet, scope: NameScope) -> Iterator[str]:
    """Restore branches that were deleted while checked out in their worktrees."""
    held = _held(fleet)
    for space in _spaces(fleet, scope):
        work = Work(fleet.home, space)
        if space.task_id in held or not os.path.isdir(space.path) or work.tip is not None:  # noqa: PTH112
            continue
        try:
            yield _restored(fleet, work)
        except FleetError as error:
            yield f"{space.branch}: its branch is gone, and cannot be made again: {error}"


def _restored(fleet: Fleet, work: Work) -> str:
    space, gone = work.workspace, f"{work.workspace.branch}: its branch was gone"
    if not work.admin or head_of(work.admin)[0] != space.branch:
        return (
            f"{gone}, and is not what is checked out; `git branch {space.branch} COMMIT` in {space.path} makes it again"
        )
    known = [space.base_commit, *(run.leftover or "" for run in fleet.store.runs.of_task(space.task_id))]
    found = restore_branch(work.view, space.branch, work.admin, known)
    if len(found) == 1:
        return f"{gone}, made it again at {found[0][:12]}, where its worktree is"
    told = f"it was at one of {', '.join(commit[:12] for commit in found)}" if found else "its commit is unknown"
    return f"{gone}, and {told}; `git branch {space.branch} COMMIT` makes it again"


def _held(fleet: Fleet) -> set[str]:
    """Return the tasks with a live agent or a claim."""
    live = {run.task_id for run in fleet.store.runs.live()} | {task_id for task_id, _ in living(fleet.home)}
    return live | {task.id for task in _claimed(fleet)}


def _claimed(fleet: Fleet) -> list[Task]:
    claimed = fleet.store.tasks.find(Filter(statuses=(Status.IN_PROGRESS,)), sort="id")
    return [task for task in claimed if task.is_supervised]


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
    """Remove a worktree that was never finished. No agent worked in it, so nothing needs saving."""
    take_back(fleet.home, fleet.store, space.task_id)
    return f"{space.branch}: removed its unfinished worktree"


def _strangers(fleet: Fleet, scope: NameScope, alive: list[Stray]) -> Iterator[str]:
    """Report unrecorded worktrees in fleet's folders that none of these live agents uses.

    Report nothing if the directory of some agent is unknown.
    """
    if any(not stray.cwd for stray in alive):
        return
    used = {os.path.realpath(stray.cwd) for stray in alive}
    known = {os.path.realpath(space.path) for space in fleet.store.workspaces.find()}
    choice = CoderChoice(fleet)
    spaces = here(fleet, [*fleet.store.workspaces.find(), *fleet.store.workspaces.find(gone=True)])
    seen = {space.common: space for space in spaces}
    for space in seen.values():
        if scope.repo not in (None, space.repo) or is_gone(space.common):
            continue
        repository = Work(fleet.home, space).repository
        roots = _roots(fleet.home, repository, choice.settings(space.repo))
        for _, path in worktrees(repository):
            place = os.path.realpath(path)
            if place.startswith(roots) and place not in known | used:
                yield f"{path}: is no task's; look at it, then `git worktree remove --force` takes it away"


def _roots(home: Home, repository: Repository, settings: Settings) -> tuple[str, ...]:
    """Return the folders below which fleet's worktrees are, each with a trailing slash."""
    own = os.path.dirname(worktree_path(home, repository, settings, "any"))  # noqa: PTH120
    around = f"{os.path.realpath(os.path.dirname(own))}/"  # noqa: PTH120
    # A folder that also holds the repository may hold the user's own folders too.
    ours = f"{os.path.realpath(own)}/" if repository.top.startswith(around) else around
    return f"{os.path.realpath(home.worktrees)}/", ours


def _sessions(fleet: Fleet, scope: NameScope) -> Iterator[str]:
    """Close sessions whose agent has ended. Report sessions that are not recorded."""
    runs = [run for run in fleet.store.runs.live() if run.session_name]
    sockets = {run.launcher.partition(":")[2] for run in runs} | {load(fleet.home, env={}, lenient=True).tmux.socket}
    prefix = CoderChoice(fleet).settings(scope.repo or "").tmux.prefix
    starting = {session_name(prefix, task.branch) for task in _claimed(fleet) if task.branch}
    for socket in sorted(sockets):
        names = {run.session_name for run in runs if run.launcher.partition(":")[2] == socket}
        for name, lives in terminals(socket).items():
            if name in names:
                continue
            if not lives:
                close_terminal(socket, name)
                yield f"session {name}: closed, its agent has ended"
            elif prefix and name.startswith(prefix) and name not in starting:
                # It may belong to the user or to another home, so let the user decide.
                look = (
                    f"`tmux -L {socket} attach -t ={name}` shows it, `tmux -L {socket} kill-session -t ={name}` ends it"
                )
                yield f"session {name}: lives, and is no task's here; {look}"


def _runs(fleet: Fleet) -> Iterator[str]:
    """Report runs recorded as live without an agent, and agents whose task is closed. A supervisor settles both."""
    if holder(fleet.home) is not None:
        return
    runs = [run for run in fleet.store.runs.live() if not is_elsewhere(fleet, run.owner)]
    lost = [run.task_id for run in runs if not _lives(fleet, run)]
    if lost:
        yield f"{', '.join(lost)}: no agent any more; `fleet run start` settles what it left"
    ids = tuple(run.task_id for run in runs if run.task_id not in lost)
    for task in fleet.store.tasks.find(Filter(ids=ids, statuses=(Status.CLOSED,)), sort="id") if ids else ():
        yield f"{task.branch or task.id}: closed, and its agent goes on; `fleet run start` ends it, and keeps its work"


def _lives(fleet: Fleet, run: Run) -> bool:
    home = Home(run.home) if run.home else fleet.home
    return is_locked(home.run(run.task_id, run.number))
