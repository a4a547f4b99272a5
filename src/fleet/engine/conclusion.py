"""Before a run in a worktree or a terminal is settled: its last screen is kept, its leftovers are committed, the verify
command is run, and what an agent should not have touched is noted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.jsontext import encode
from fleet.core.run import Ending
from fleet.engine.commands import Done, run_command
from fleet.engine.environment import setup_environment
from fleet.engine.outcome import outcome_of
from fleet.engine.settling import seen_of
from fleet.engine.trusting import changed_repository, untrusted_commands
from fleet.engine.work import Work
from fleet.engine.workplace import is_there
from fleet.workspaces.checkout import clean_checkout
from fleet.workspaces.leftovers import commit_leftovers
from fleet.workspaces.worktree import state_of

if TYPE_CHECKING:
    from fleet.core.run import Outcome
    from fleet.core.task import Task
    from fleet.engine.live import Live
    from fleet.engine.office import Office
    from fleet.launchers.base import Exit

log = logging.getLogger(__name__)

SCREEN_LINES = 5_000
SCREEN_SECONDS = 10.0
#: After these the work goes on where it stopped, or a person stopped it and decides: nothing is committed for them.
UNDER_WAY = (Ending.INTERRUPTED, Ending.RELEASED, Ending.RATE_LIMITED, Ending.OVERLOADED, Ending.CANCELLED)


async def conclude(office: Office, task: Task, live: Live, exit: Exit | None, alarm: Outcome | None) -> None:
    """Do what must be done between the end of an agent and its verdict; done again after a crash it does no harm."""
    if live.interactive:
        await _keep_screen(live)
    if live.workspace is None or not is_there(live.workspace.path):
        return
    if alarm is not None and alarm.ending in (Ending.CANCELLED, Ending.RELEASED):
        return  # a person decides what becomes of it, and `kill` saves it first; or it goes on
    work = Work(live.folder.home, live.workspace)
    try:
        await _look(office, live, work)
        task = await office.ask(office.queue.get, task.id)
        ending = outcome_of(seen_of(live, task, exit, alarm)).ending
        if ending not in UNDER_WAY:
            await _commit(live, work)
        if ending in (Ending.FINISHED, Ending.HUNG_AFTER_RESULT):
            await _verify(office, task, live, work)
    except (FleetError, OSError) as error:  # what an agent did stays where it is, and the run is settled all the same
        log.warning("%s is concluded without all that belongs to it: %s", live.run.id, error)
        _flag(live, f"not concluded: {error}")


async def _keep_screen(live: Live) -> None:
    """The last of an agent's screen goes to its run's folder."""
    terminal = live.terminal
    if terminal is None:
        return
    with contextlib.suppress(FleetError, OSError, TimeoutError):
        shown = await asyncio.wait_for(terminal.screen(SCREEN_LINES), SCREEN_SECONDS)
        live.folder.write_run_file(live.run.number, "screen.txt", live.folder.clean(shown.rstrip()) + "\n")


async def take_leave(live: Live) -> None:
    """After the verdict: an agent's terminal goes, whose last screen was kept."""
    if live.terminal is not None:
        with contextlib.suppress(FleetError, OSError, TimeoutError):
            await asyncio.wait_for(live.terminal.close_session(), SCREEN_SECONDS)


async def _look(office: Office, live: Live, work: Work) -> None:
    """Note what the agent should not have touched, and how large its work is."""
    changed = await office.ask(changed_repository, office.history, work.repository)
    state = await asyncio.to_thread(state_of, work.repository, work.workspace.path, work.admin)
    for each in changed:
        _flag(live, each)
    for each in state.tampered:
        _flag(live, f"{each} of its worktree was changed")
    size = await asyncio.to_thread(work.size)
    live.run = live.run.replace(diff_files=size.files, diff_added=size.added, diff_removed=size.removed)


async def _commit(live: Live, work: Work) -> None:
    words = f"fleet: what {live.run.id} left uncommitted"
    left = await asyncio.to_thread(commit_leftovers, work.home, work.view, work.place, work.index, words)
    if left.commit:
        live.run = live.run.replace(leftover=left.commit)
        log.info("committed %s files that %s had left", len(left.files), live.run.id)
    if left.why_not:
        _flag(live, f"not committed: {left.why_not}")
    for each in left.left_out:
        _flag(live, f"not committed: {each.path} ({each.why})")


async def _verify(office: Office, task: Task, live: Live, work: Work) -> None:
    command = task.verify or live.settings.verify.command or ""
    if not command:
        return
    tip = await asyncio.to_thread(lambda: work.tip)
    untrusted = await office.ask(untrusted_commands, office.history, work.repository, live.settings)
    if not task.verify and any(line.startswith("verify.") for line in untrusted):
        _flag(live, f"not verified: {command!r} of the project file is not trusted")
    elif tip is None:
        _flag(live, "not verified: its branch is gone")
    else:
        done = await _verified(office, task, live, work, tip, command)
        told = {"command": command, "status": done.status, "seconds": done.seconds, "commit": tip, "why": done.why}
        live.run = live.run.replace(verify=encode(told | {"tail": live.folder.clean(done.tail)}))


async def _verified(office: Office, task: Task, live: Live, work: Work, tip: str, command: str) -> Done:
    path = os.path.join(work.home.root, "verify", live.run.id.replace("/", "-"))  # noqa: PTH118
    checkout = clean_checkout(work.view, tip, path)
    await asyncio.to_thread(checkout.__enter__)
    try:
        return await run_command(
            office.launcher,
            os.path.join(live.place, "verify"),  # noqa: PTH118
            command,
            cwd=path,
            env=setup_environment(work.home, task, work.workspace),
            seconds=live.settings.verify.seconds,
        )
    finally:
        await asyncio.to_thread(checkout.__exit__, None, None, None)


def _flag(live: Live, words: str) -> None:
    flags = list(live.run.flagged)
    if words not in flags:
        live.run = live.run.replace(flags=encode([*flags, words][:20]))
