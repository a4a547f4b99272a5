"""Before a run is settled: its last screen is kept, its leftovers are committed, what is known of it is gathered, the
verify command is run, and what an agent should not have touched is noted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.config.trusted import digest
from fleet.core.errors import ClaimLost, FleetError
from fleet.core.finding import IN_A_DIRECTORY, Finding, judge
from fleet.core.jsontext import encode
from fleet.core.run import Ending
from fleet.core.task import WORKTREE
from fleet.engine.coder_files import LEFT, patterns_of, told, trusted_in, untrusted_files
from fleet.engine.evidence.gathering import compared, look
from fleet.engine.evidence.spawn import spawn_of
from fleet.engine.evidence.tree import Tree, of_directory, of_worktree, size_of
from fleet.engine.evidence.verified import verified, verified_in_place
from fleet.engine.outcome import outcome_of
from fleet.engine.room import NoRoom, is_no_room
from fleet.engine.scope import primary
from fleet.engine.settling import seen_of
from fleet.engine.staging import is_cut_short
from fleet.engine.trusting import changed_repository
from fleet.engine.work import Work
from fleet.engine.workplace import is_there
from fleet.workspaces.leftovers import commit_leftovers
from fleet.workspaces.repository import RepositoryGone, refuse_gone
from fleet.workspaces.trust import stamp
from fleet.workspaces.worktree import state_of

if TYPE_CHECKING:
    from fleet.core.run import Outcome
    from fleet.core.task import Task
    from fleet.engine.evidence.gathering import Gathered
    from fleet.engine.live import Live
    from fleet.engine.office import Office
    from fleet.launchers.base import Exit
    from fleet.workspaces.diffs import DiffSize
    from fleet.workspaces.leftovers import Leftover
    from fleet.workspaces.view import View

log = logging.getLogger(__name__)

SCREEN_LINES = 5_000
SCREEN_SECONDS = 10.0
#: After these the work goes on where it stopped, or a person stopped it and decides: nothing is committed for them.
UNDER_WAY = (Ending.INTERRUPTED, Ending.RELEASED, Ending.RATE_LIMITED, Ending.OVERLOADED, Ending.CANCELLED)


async def conclude(office: Office, task: Task, live: Live, exit: Exit | None, alarm: Outcome | None) -> Gathered:
    """Do what must be done between the end of an agent and its verdict, and gather what is known of it.

    Done again after a crash it does no harm. Raises ClaimLost once the task is known to be somebody else's.
    """
    if live.interactive:
        await _keep_screen(live)
    found = await asyncio.to_thread(look, live)
    await _note_coder_files(office, live)
    await _note_project_file(office, task, live)
    try:
        if live.workspace is None:
            return await _of_directory(office, task.id, live, found, (exit, alarm))
        # A person decides what becomes of one that was stopped, and `kill` saves it first; or it goes on.
        by_hand = alarm is not None and alarm.ending in (Ending.CANCELLED, Ending.RELEASED)
        by_hand = by_hand and not live.workspace.is_mirrored and not is_cut_short(alarm)
        if not by_hand:
            refuse_gone(live.workspace.common)
        if by_hand:
            return found.replace(tree=Tree(kind=WORKTREE))
        return await _of_worktree(office, task.id, live, found, (exit, alarm))
    except ClaimLost:
        raise
    except RepositoryGone as error:
        log.warning("%s cannot be judged: %s", live.run.id, error)
        return found.replace(gone=str(error))
    except (FleetError, OSError) as error:  # what an agent did stays where it is, and the run is settled all the same
        if is_no_room(error, *disks_of(live)):
            raise NoRoom(str(error)) from error
        log.warning("%s is concluded without all that belongs to it: %s", live.run.id, error)
        _flag(live, f"not concluded: {error}")
        return found.replace(not_verified=f"not concluded: {error}")


def disks_of(live: Live) -> tuple[str, ...]:
    """Paths on each of the disks that a run needs."""
    home, space = live.folder.home, live.workspace
    return (home.root, home.tasks, live.run.workspace, *((space.path, space.common) if space else ()))


async def _of_directory(
    office: Office, task_id: str, live: Live, found: Gathered, end: tuple[Exit | None, Outcome | None]
) -> Gathered:
    tree = await asyncio.to_thread(of_directory, live.folder.home, live.run)
    if tree.view is not None:
        for each in await asyncio.to_thread(_planted, tree.view, live.began_here.timestamp()):
            _flag(live, each)
    task = await office.ask(office.store.tasks.get, task_id)
    found = await asyncio.to_thread(compared, found, live, task, tree)
    found = found.replace(not_verified=IN_A_DIRECTORY)
    outcome = outcome_of(seen_of(live, task, *end, found))
    if judge(found.evidence(outcome, task)).finding != Finding.UNVERIFIED:
        return found
    return await verified_in_place(office, task, live, found)


async def _of_worktree(
    office: Office, task_id: str, live: Live, found: Gathered, end: tuple[Exit | None, Outcome | None]
) -> Gathered:
    assert live.workspace is not None
    work = Work(live.folder.home, live.workspace)
    found = found.replace(tree=Tree(kind=WORKTREE))
    if not is_there(live.workspace.path):
        live.run = live.run.replace(diff_files=None, diff_added=None, diff_removed=None)
        return found.replace(missing=f"its worktree {live.workspace.path} is gone")
    found = found.replace(strayed=(*found.strayed, *await _look(office, live, work)))
    task = await office.ask(office.store.tasks.get, task_id)
    outcome = outcome_of(seen_of(live, task, *end, found))
    # On a host where nobody looks for it, what was begun is sent on with the branch: another may go on with it.
    goes_on = outcome.ending in UNDER_WAY and not work.workspace.is_mirrored and not is_cut_short(outcome)
    left = None if goes_on else await asyncio.to_thread(_commit, live, work)
    if left is not None:
        _note_left(live, left)
    found, size = await asyncio.to_thread(_measured, live, work, task, found, not goes_on)
    live.run = live.run.replace(diff_files=size.files, diff_added=size.added, diff_removed=size.removed)
    if not found.tree.tip:
        found = found.replace(missing=f"its branch {live.workspace.branch} is gone")
    outcome = outcome_of(seen_of(live, task, *end, found))  # a session's end is judged by what it left
    if judge(found.evidence(outcome, task)).finding != Finding.UNVERIFIED:
        return found  # another look at it would change nothing
    return await verified(office, task, live, work, found)


async def _keep_screen(live: Live) -> None:
    """The last of an agent's screen goes to its run's folder."""
    terminal = live.terminal
    if terminal is None:
        return
    with contextlib.suppress(FleetError, OSError, TimeoutError):
        shown = await asyncio.wait_for(terminal.screen(SCREEN_LINES), SCREEN_SECONDS)
        live.folder.write_run_file(live.run.number, "screen.txt", live.folder.clean(shown.rstrip()) + "\n")


async def _note_coder_files(office: Office, live: Live) -> None:
    """Flag files from which its coder runs commands, and which were not so when the user trusted them."""
    run, cwd = live.run, live.run.workspace
    known = await office.ask(trusted_in, office.store, live.workspace)
    patterns = patterns_of(live.coder, live.settings)
    left = await asyncio.to_thread(untrusted_files, office.home, cwd, patterns, known)
    if not left:
        return
    _flag(live, f"not trusted as the run left it: {told(left)}, from which {live.coder.name} runs commands")
    if live.workspace is not None or (not spawn_of(run).get("others") and office.places[cwd] == 1):
        live.run = live.run.replace(spawn=encode(spawn_of(run) | {LEFT: [digest(each.line) for each in left]}))


async def _note_project_file(office: Office, task: Task, live: Live) -> None:
    """Flag a project file that is not as it was when the run began: it says how the next work is judged."""
    before, now = live.settings, await office.settings_for(task)
    if before.project_digest != now.project_digest:
        _flag(
            live, f"{before.project_file or now.project_file}, which says how work is judged, was changed while it ran"
        )


async def take_leave(live: Live) -> None:
    """After the verdict: an agent's terminal goes, whose last screen was kept."""
    if live.terminal is not None:
        with contextlib.suppress(FleetError, OSError, TimeoutError):
            await asyncio.wait_for(live.terminal.close_session(), SCREEN_SECONDS)


async def _look(office: Office, live: Live, work: Work) -> list[str]:
    """Note what the agent should not have touched; of that, what is surely its own doing."""
    before = spawn_of(live.run)
    changed = await office.ask(changed_repository, office.store, work.repository)
    mark, began = str(before.get("primary") or ""), live.began_here.timestamp()
    tampered, since, now = await office.look(_touched, work, mark, began)
    for each in (*changed, *tampered, *since):
        _flag(live, each)
    meanwhile = before.get("repository") and before["repository"] != now
    return [*(changed if meanwhile else []), *tampered]


def _touched(work: Work, mark: str, began: float) -> tuple[list[str], list[str], str | None]:
    """What was changed of git's own files about the worktree, what of the main checkout, and how git's settings are."""
    state = state_of(work.repository, work.workspace.path, work.admin)
    tampered = [f"{each} of its worktree was changed" for each in state.tampered]
    planted = _planted(work.view, began)
    since = primary.since(work.home, work.view, mark, work.workspace.branch)
    return tampered, [*planted, *since], stamp(work.repository)


def _planted(view: View, began: float) -> list[str]:
    """What others put into fleet's view of the repository since a run began, in words."""
    return [f"fleet's own {each} for the repository was changed while it ran" for each in view.planted(began)]


def _commit(live: Live, work: Work) -> Leftover:
    words = f"fleet: what {live.run.id} left uncommitted"
    return commit_leftovers(work.home, work.view, work.place, work.index, words)


def _measured(live: Live, work: Work, task: Task, found: Gathered, committed: bool) -> tuple[Gathered, DiffSize]:
    """What became of its files, held against what it claims, and how much that is. Raises FleetError, OSError."""
    tree = of_worktree(work, live.run, committed=committed)
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
