"""Collect the evidence of a run that has ended: commit its leftovers, compare its files, run its verify command."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from fleet.config.trusted import digest
from fleet.core.errors import ClaimLost, FleetError
from fleet.core.finding import IN_A_DIRECTORY
from fleet.core.jsontext import encode
from fleet.core.run import Ending
from fleet.core.task import WORKTREE
from fleet.engine.coder_files import LEFT, patterns_of, told, trusted_in, untrusted_files
from fleet.engine.evidence.gathering import compared
from fleet.engine.evidence.spawn import spawn_of
from fleet.engine.evidence.tree import Tree, of_directory, of_worktree, size_of
from fleet.engine.evidence.verified import verified, verified_in_place
from fleet.engine.room import NoRoom, is_no_room
from fleet.engine.scope import primary
from fleet.engine.staging import is_cut_short
from fleet.engine.trusting import changed_repository
from fleet.engine.work import Work
from fleet.engine.workplace import is_there
from fleet.workspaces.leftovers import commit_leftovers, leftover_subject
from fleet.workspaces.repository import RepositoryGone, refuse_gone
from fleet.workspaces.trust import stamp
from fleet.workspaces.worktree import state_of

if TYPE_CHECKING:
    from fleet.core.outcome import Seen
    from fleet.core.run import Outcome
    from fleet.core.task import Task
    from fleet.engine.context import Context
    from fleet.engine.evidence.gathering import Gathered
    from fleet.engine.live import Live
    from fleet.workspaces.diffs import DiffSize
    from fleet.workspaces.leftovers import Leftover
    from fleet.workspaces.view import View

log = logging.getLogger(__name__)

#: After these endings the work continues, or a user stopped it and decides. Nothing is committed.
UNDER_WAY = (Ending.INTERRUPTED, Ending.RELEASED, Ending.RATE_LIMITED, Ending.OVERLOADED, Ending.CANCELLED)


async def collect_evidence(context: Context, live: Live, end: Seen, outcome: Outcome, found: Gathered) -> Gathered:
    """Commit what the agent left, and add the state of its files to the evidence. Raises ClaimLost, NoRoom.

    Repeating this after a crash does no harm.
    """
    try:
        if live.workspace is None:
            return await _of_directory(live, end.task, found)
        # A user decides about a worktree whose run was stopped, and `kill` saves it first. Or the work continues.
        alarm = end.alarm
        by_hand = alarm is not None and alarm.ending in (Ending.CANCELLED, Ending.RELEASED)
        if by_hand and not live.workspace.is_mirrored and not is_cut_short(alarm):
            return found.replace(tree=Tree(kind=WORKTREE))
        refuse_gone(live.workspace.common)
        return await _of_worktree(context, live, end.task, outcome, found)
    except ClaimLost:
        raise
    except (FleetError, OSError) as error:
        return _without_the_rest(live, found, error)


async def verify_work(context: Context, live: Live, task: Task, found: Gathered) -> Gathered:
    """Run the verify command of a task on what its agent left, and add the result. Raises ClaimLost, NoRoom."""
    try:
        if live.workspace is None:
            return await verified_in_place(context, task, live, found)
        return await verified(context, task, live, Work(live.folder.home, live.workspace), found)
    except ClaimLost:
        raise
    except (FleetError, OSError) as error:
        return _without_the_rest(live, found, error)


def _without_the_rest(live: Live, found: Gathered, error: FleetError | OSError) -> Gathered:
    """Return the available evidence. The work stays where it is, and the run is settled. Raises NoRoom."""
    if isinstance(error, RepositoryGone):
        log.warning("%s cannot be judged: %s", live.run.id, error)
        return found.replace(gone=str(error))
    if is_no_room(error, *disks_of(live)):
        raise NoRoom(str(error)) from error
    log.warning("%s is concluded without all that belongs to it: %s", live.run.id, error)
    _flag(live, f"not concluded: {error}")
    return found.replace(not_verified=f"not concluded: {error}")


def disks_of(live: Live) -> tuple[str, ...]:
    """Return paths on each of the disks that a run needs."""
    home, space = live.folder.home, live.workspace
    return (home.root, home.tasks, live.run.workspace, *((space.path, space.common) if space else ()))


async def _of_directory(live: Live, task: Task, found: Gathered) -> Gathered:
    tree = await asyncio.to_thread(of_directory, live.folder.home, live.run)
    if tree.view is not None:
        for each in await asyncio.to_thread(_planted, tree.view, live.began_here.timestamp()):
            _flag(live, each)
    found = await asyncio.to_thread(compared, found, live, task, tree)
    return found.replace(not_verified=IN_A_DIRECTORY)


async def _of_worktree(context: Context, live: Live, task: Task, outcome: Outcome, found: Gathered) -> Gathered:
    assert live.workspace is not None
    work = Work(live.folder.home, live.workspace)
    found = found.replace(tree=Tree(kind=WORKTREE))
    if not is_there(live.workspace.path):
        live.run = live.run.replace(diff_files=None, diff_added=None, diff_removed=None)
        return found.replace(missing=f"its worktree {live.workspace.path} is gone")
    found = found.replace(strayed=(*found.strayed, *await _look(context, live, work)))
    # A worktree made from a mirror is temporary, so unfinished work is sent with the branch: another host may continue.
    goes_on = outcome.ending in UNDER_WAY and not work.workspace.is_mirrored and not is_cut_short(outcome)
    left = None if goes_on else await asyncio.to_thread(_commit, live, work)
    if left is not None:
        _note_left(live, left)
    found, size = await asyncio.to_thread(_measured, live, work, task, found, left)
    live.run = live.run.replace(diff_files=size.files, diff_added=size.added, diff_removed=size.removed)
    return found if found.tree.tip else found.replace(missing=f"its branch {live.workspace.branch} is gone")


async def note_changed_files(context: Context, task: Task, live: Live) -> None:
    """Flag changed files of coders and of the project that decide which commands run."""
    await _note_coder_files(context, live)
    await _note_project_file(context, task, live)


async def _note_coder_files(context: Context, live: Live) -> None:
    """Flag files from which the run's coder runs commands and which the user has not trusted in this state."""
    store = context.store
    run, cwd = live.run, live.run.workspace
    known = await store.call(trusted_in, store.ports, live.workspace)
    patterns = patterns_of(live.coder, live.settings)
    left = await asyncio.to_thread(untrusted_files, context.home, cwd, patterns, known)
    if not left:
        return
    _flag(live, f"not trusted as the run left it: {told(left)}, from which {live.coder.name} runs commands")
    if live.workspace is not None or (not spawn_of(run).get("others") and context.places[cwd] == 1):
        live.run = live.run.replace(spawn=encode(spawn_of(run) | {LEFT: [digest(each.line) for each in left]}))


async def _note_project_file(context: Context, task: Task, live: Live) -> None:
    """Flag a project file that changed since the run began: the file decides how later work is judged."""
    before, now = live.settings, await context.settings_for(task)
    if before.project_digest != now.project_digest:
        _flag(
            live, f"{before.project_file or now.project_file}, which says how work is judged, was changed while it ran"
        )


async def _look(context: Context, live: Live, work: Work) -> list[str]:
    """Flag forbidden changes around the worktree. Return those that the agent certainly made."""
    store = context.store
    before = spawn_of(live.run)
    changed = await store.call(changed_repository, store.ports, work.repository)
    mark, began = str(before.get("primary") or ""), live.began_here.timestamp()
    tampered, since, now = await context.run_in_thread(_touched, work, mark, began)
    for each in (*changed, *tampered, *since):
        _flag(live, each)
    meanwhile = before.get("repository") and before["repository"] != now
    return [*(changed if meanwhile else []), *tampered]


def _touched(work: Work, mark: str, began: float) -> tuple[list[str], list[str], str | None]:
    """Return changes of the worktree's git files, changes of the main checkout, and a stamp of git's settings."""
    state = state_of(work.repository, work.workspace.path, work.admin)
    tampered = [f"{each} of its worktree was changed" for each in state.tampered]
    planted = _planted(work.view, began)
    since = primary.since(work.home, work.view, mark, work.workspace.branch)
    return tampered, [*planted, *since], stamp(work.repository)


def _planted(view: View, began: float) -> list[str]:
    """Return descriptions of what others put into fleet's view of the repository since a run began."""
    return [f"fleet's own {each} for the repository was changed while it ran" for each in view.planted(began)]


def _commit(live: Live, work: Work) -> Leftover:
    return commit_leftovers(work.home, work.view, work.place, work.index, leftover_subject(live.run.id))


def _measured(live: Live, work: Work, task: Task, found: Gathered, left: Leftover | None) -> tuple[Gathered, DiffSize]:
    """Return the evidence with the changed files compared to the claims, and the size of the diff.

    `left` is None if nothing was to be committed. Raises FleetError, OSError.
    """
    tree = of_worktree(work, live.run, committed=left is not None, left=left)
    return compared(found, live, task, tree), size_of(work, tree)


def _note_left(live: Live, left: Leftover) -> None:
    if left.commit:
        live.run = live.run.replace(leftover=left.commit)
        log.info("committed %s files that %s had left", len(left.files), live.run.id)
    if left.why_not:
        _flag(live, f"not committed: {left.why_not}")
    for each in left.left_out:
        _flag(live, f"not committed: {each.path} ({each.why})")


def _flag(live: Live, words: str) -> None:
    flags = list(live.run.flagged)
    if words not in flags:
        live.run = live.run.replace(flags=encode([*flags, words][:20]))
