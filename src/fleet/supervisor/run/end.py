"""Collect the evidence of a run that has ended: commit its leftovers, compare its files, run its verify command."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import ClaimLost, FleetError
from fleet.core.finding import IN_A_DIRECTORY, needs_verification
from fleet.core.jsontext import encode
from fleet.core.outcome import RunObservations, outcome_of
from fleet.core.run import Ending, Outcome
from fleet.core.task import WORKTREE
from fleet.git.repository import RepositoryGone, refuse_gone
from fleet.git.save.leftovers import commit_leftovers, leftover_subject
from fleet.git.trust import stamp
from fleet.git.worktree import state_of
from fleet.proof.baseline import spawn_of
from fleet.proof.branch_verification import verified, verified_in_place
from fleet.proof.evidence import compared, look
from fleet.proof.scope import primary
from fleet.proof.tree import TreeEvidence, of_directory, of_worktree, size_of
from fleet.settings.trusted import digest
from fleet.supervisor.coder_files import LEFT, patterns_of, told, trusted_in, untrusted_files
from fleet.supervisor.room import NoRoom, is_no_room, lack_of_room
from fleet.supervisor.run.settle import asked_before, claimed_task, judge_run, settle
from fleet.supervisor.run.stage import is_cut_short
from fleet.supervisor.run.work import Work
from fleet.supervisor.run.workplace import is_there
from fleet.supervisor.store_calls import retry_until_stored
from fleet.supervisor.trust import changed_repository

if TYPE_CHECKING:
    from fleet.core.outcome import Exit
    from fleet.core.task import Claim, Task
    from fleet.git.diffs import DiffSize
    from fleet.git.save.leftovers import Leftover
    from fleet.git.view import View
    from fleet.proof.evidence import RunEvidence
    from fleet.supervisor.context import Context
    from fleet.supervisor.run.live import Live


log = logging.getLogger(__name__)

#: After these endings the work continues, or a user stopped it and decides. Nothing is committed.
UNDER_WAY = (Ending.INTERRUPTED, Ending.RELEASED, Ending.RATE_LIMITED, Ending.OVERLOADED, Ending.CANCELLED)


async def collect_evidence(
    context: Context, live: Live, end: RunObservations, outcome: Outcome, found: RunEvidence
) -> RunEvidence:
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
            await _note_size(live, Work(live.folder.home, live.workspace))
            return found.replace(tree=TreeEvidence(kind=WORKTREE))
        refuse_gone(live.workspace.common)
        return await _of_worktree(context, live, end.task, outcome, found)
    except ClaimLost:
        raise
    except (FleetError, OSError) as error:
        return _without_the_rest(live, found, error)


async def verify_work(context: Context, live: Live, task: Task, found: RunEvidence) -> RunEvidence:
    """Run the verify command of a task on what its agent left, and add the result. Raises ClaimLost, NoRoom."""
    try:
        if live.workspace is None:
            return await verified_in_place(context, task, live, found)
        return await verified(context, task, live, Work(live.folder.home, live.workspace), found)
    except ClaimLost:
        raise
    except (FleetError, OSError) as error:
        return _without_the_rest(live, found, error)


def _without_the_rest(live: Live, found: RunEvidence, error: FleetError | OSError) -> RunEvidence:
    """Return the available evidence. The work stays where it is, and the run is settled. Raises NoRoom."""
    if isinstance(error, RepositoryGone):
        log.warning("%s cannot be judged: %s", live.run.id, error)
        return found.replace(gone=str(error))
    if is_no_room(error, *disks_of(live)):
        raise NoRoom(str(error)) from error
    log.warning("incomplete evidence of %s: %s", live.run.id, error)
    _flag(live, f"not concluded: {error}")
    return found.replace(not_verified=f"not concluded: {error}")


def disks_of(live: Live) -> tuple[str, ...]:
    """Return paths on each of the disks that a run needs."""
    home, space = live.folder.home, live.workspace
    return (home.root, home.tasks, live.run.workspace, *((space.path, space.common) if space else ()))


async def _of_directory(live: Live, task: Task, found: RunEvidence) -> RunEvidence:
    tree = await asyncio.to_thread(of_directory, live.folder.home, live.run)
    if tree.view is not None:
        for each in await asyncio.to_thread(_planted, tree.view, live.began_here.timestamp()):
            _flag(live, each)
    found = await asyncio.to_thread(compared, found, live, task, tree)
    return found.replace(not_verified=IN_A_DIRECTORY)


async def _of_worktree(context: Context, live: Live, task: Task, outcome: Outcome, found: RunEvidence) -> RunEvidence:
    assert live.workspace is not None
    work = Work(live.folder.home, live.workspace)
    found = found.replace(tree=TreeEvidence(kind=WORKTREE))
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


async def _note_size(live: Live, work: Work) -> None:
    """Record the size of what a stopped agent left, for `list`. The last sample may be older than its last commit."""
    with contextlib.suppress(FleetError, OSError):
        size = await asyncio.to_thread(work.size)
        live.run = live.run.replace(diff_files=size.files, diff_added=size.added, diff_removed=size.removed)


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
    _flag(live, f"the run left {told(left)}, from which {live.coder.name} runs commands, and you have not trusted it")
    if live.workspace is not None or (not spawn_of(run).get("others") and context.places[cwd] == 1):
        live.run = live.run.replace(spawn=encode(spawn_of(run) | {LEFT: [digest(each.line) for each in left]}))


async def _note_project_file(context: Context, task: Task, live: Live) -> None:
    """Flag a project file that changed since the run began: the file decides how later work is judged."""
    before, now = live.settings, await context.settings_for(task)
    if before.project_digest != now.project_digest:
        _flag(
            live, f"{before.project_file or now.project_file}, which decides how work is judged, changed during the run"
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
    tampered = [f"{each} of its worktree changed" for each in state.tampered]
    planted = _planted(work.view, began)
    since = primary.since(work.home, work.view, mark, work.workspace.branch)
    return tampered, [*planted, *since], stamp(work.repository)


def _planted(view: View, began: float) -> list[str]:
    """Return descriptions of what others put into fleet's view of the repository since a run began."""
    return [f"fleet's own {each} for the repository changed during the run" for each in view.planted(began)]


def _commit(live: Live, work: Work) -> Leftover:
    return commit_leftovers(work.home, work.view, work.place, work.index, leftover_subject(live.run.id))


def _measured(
    live: Live, work: Work, task: Task, found: RunEvidence, left: Leftover | None
) -> tuple[RunEvidence, DiffSize]:
    """Return the evidence with the changed files compared to the claims, and the size of the diff.

    `left` is None if nothing was to be committed. Raises FleetError, OSError.
    """
    tree = of_worktree(work, live.run, committed=left is not None, left=left)
    return compared(found, live, task, tree), size_of(work, tree)


def _note_left(live: Live, left: Leftover) -> None:
    if left.commit:
        live.run = live.run.replace(leftover=left.commit)
        log.info("committed files that %s left: %s", live.run.id, len(left.files))
    if left.why_not:
        _flag(live, f"not committed: {left.why_not}")
    for each in left.left_out:
        _flag(live, f"not committed: {each.path} ({each.why})")


def _flag(live: Live, words: str) -> None:
    flags = list(live.run.flagged)
    if words not in flags:
        live.run = live.run.replace(flags=encode([*flags, words][:20]))


SCREEN_LINES = 5_000
SCREEN_SECONDS = 10.0


class EndedWithoutRoom(NoRoom):
    """The agent failed or changed nothing, perhaps because a disk is full. Its task is given back."""


async def finish_run(context: Context, claim: Claim, live: Live, exit: Exit | None, stop: Outcome | None) -> Task:
    """Judge a run whose agent has exited and whose output was read, and settle its task. Return the task.

    `stop` is the outcome for which fleet stopped the agent, None if it did not. Repeating this after a crash does no
    harm. Raises ClaimLost if another host has the task, NoRoom while a disk is full.
    """
    store = context.store
    is_well = exit is not None and exit.status == 0
    if not is_well:
        check_room(live)
    await keep_screen(live)
    found = await asyncio.to_thread(look, live)
    live.explain(exit.status if exit else None)
    await note_changed_files(context, claim.task, live)

    task = await retry_until_stored(store.call, f"end of {live.run.id}", lambda: claimed_task(store.ports, claim))
    end = observe_end(live, task, exit, stop, found)
    outcome = outcome_of(end)
    found = await collect_evidence(context, live, end, outcome, found)
    if live.interactive:  # the outcome of a terminal session depends on what the session left
        end = end.replace(run=live.run)
        outcome = outcome_of(end)
    if found.compared and needs_verification(found.evidence(outcome, task)):
        found = await verify_work(context, live, task, found)
    if found.gone and stop is None:
        end = end.replace(alarm=Outcome(ending=Ending.LOST, reason=found.gone))
        outcome = outcome_of(end)
    if is_well and live.run.diff_files == 0:
        check_room(live)
    outcome, judgement = judge_run(live, end, found, outcome)

    await context.cluster.publish(live)
    return await settle(context, claim, live, end, found, outcome, judgement)


def check_room(live: Live) -> None:
    """Raise EndedWithoutRoom if a disk of the run is full."""
    if lack := lack_of_room(*disks_of(live)):
        raise EndedWithoutRoom(lack)


def observe_end(live: Live, task: Task, exit: Exit | None, stop: Outcome | None, found: RunEvidence) -> RunObservations:
    """Return all facts that decide the outcome."""
    asked, unanswered = live.folder.open_questions(asked_before(live.run))
    return RunObservations(
        run=live.run,
        task=task,
        exit=exit,
        alarm=stop,
        result_file=found.result is not None,
        dangling=found.stream.dangling,
        asked=tuple(asked),
        unanswered=tuple(unanswered),
        stderr=live.folder.stderr_tail(),
        tells_result=live.coder.tells_result,
        result_needs_exit_0=live.coder.result_needs_exit_0,
        interactive=live.interactive,
    )


async def keep_screen(live: Live) -> None:
    """Write the last screen of an agent into its run's folder."""
    terminal = live.terminal
    if terminal is None:
        return
    with contextlib.suppress(FleetError, OSError, TimeoutError):
        shown = await asyncio.wait_for(terminal.screen(SCREEN_LINES), SCREEN_SECONDS)
        live.folder.write_run_file(live.run.number, "screen.txt", live.folder.clean(shown.rstrip()) + "\n")


async def close_terminal(live: Live) -> None:
    """Close the terminal of an agent whose last screen was kept."""
    if live.terminal is not None:
        with contextlib.suppress(FleetError, OSError, TimeoutError):
            await asyncio.wait_for(live.terminal.close_session(), SCREEN_SECONDS)
