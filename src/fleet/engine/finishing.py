"""The end of a run from top to bottom: collect evidence, decide the outcome and the finding, settle the task."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.finding import needs_verification
from fleet.core.outcome import Seen, outcome_of
from fleet.core.run import Ending, Outcome
from fleet.engine.conclusion import collect_evidence, disks_of, note_changed_files, verify_work
from fleet.engine.evidence.gathering import look
from fleet.engine.room import NoRoom, lack_of_room
from fleet.engine.settling import asked_before, claimed_task, judge_run, settle
from fleet.engine.store_calls import retry_until_stored

if TYPE_CHECKING:
    from fleet.core.outcome import Exit
    from fleet.core.task import Claim, Task
    from fleet.engine.context import Context
    from fleet.engine.evidence.gathering import Gathered
    from fleet.engine.live import Live

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

    task = await retry_until_stored(store.call, f"the end of {live.run.id}", lambda: claimed_task(store.ports, claim))
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


def observe_end(live: Live, task: Task, exit: Exit | None, stop: Outcome | None, found: Gathered) -> Seen:
    """Return all facts that decide the outcome."""
    asked, unanswered = live.folder.open_questions(asked_before(live.run))
    return Seen(
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
