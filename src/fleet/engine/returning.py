"""What was done here goes back to the remote: the branch before its task is settled, the receipt after.

Whoever takes the task next, on whichever host, begins where the branch got to. What could not be sent is sent later;
that it is still to be sent follows from what is on record: a worktree made from a mirror stands until its branch has
arrived, any other has the run in its notes whose work did.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, IllegalMove, StoreAway, TaskNotFound, WorkspaceNotFound
from fleet.core.jsontext import encode
from fleet.core.run import Run
from fleet.engine.arrival import Waits, clear_away
from fleet.engine.commands import run_command
from fleet.engine.environment import setup_environment
from fleet.engine.evidence.receipts import file_of
from fleet.engine.parcel import packed
from fleet.engine.trusting import untrusted_commands
from fleet.engine.work import Work
from fleet.engine.workplace import is_there
from fleet.workspaces.mirror import remote_for
from fleet.workspaces.parcels import send_parcel
from fleet.workspaces.remote import RemoteAway
from fleet.workspaces.sending import send_branch, send_receipts
from fleet.workspaces.worktree import remove

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.core.receipt import Receipt
    from fleet.core.workspace import Workspace
    from fleet.engine.live import Live
    from fleet.engine.office import Office
    from fleet.home import Home

log = logging.getLogger(__name__)

#: So many are sent at once: some remotes are slow, and each is asked by a process of its own.
AT_ONCE = 4
#: The keys of a worktree's notes that tell how far its work was sent.
SENT, SENT_TO, NOT_SENT = "sent", "sent_to", "not_sent"


async def send_on(office: Office, live: Live) -> None:
    """Send the branch of a run that has ended, before others can take its task. One that is not sent is told."""
    space = live.workspace
    if space is None or not space.remote or space.host != office.owner:
        return
    try:
        await asyncio.to_thread(_send_all, live, space)
    except (FleetError, OSError) as error:
        log.warning("%s is not pushed yet: %s", live.run.id, error)
        await _note(office, space, {NOT_SENT: str(error)[:300]})


class Returns:
    """What is still to be sent from this host, and when it is tried again."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._waits = Waits()
        self._due: dict[str, float] = {}  # by run: when it is tried again

    async def look(self) -> float:
        """Send what is due; after how many seconds to look again."""
        loop = asyncio.get_running_loop()
        waiting = await self._office.ask(self._waiting)
        self._due = {run.id: self._due.get(run.id, 0.0) for _, run in waiting}
        due = [pair for pair in waiting if self._due[pair[1].id] <= loop.time()]
        for first in range(0, len(due), AT_ONCE):
            await asyncio.gather(*(self._return(*pair) for pair in due[first : first + AT_ONCE]))
        later = [at - loop.time() for at in self._due.values() if at]
        return max(0.1, min(later, default=60.0))

    def _waiting(self) -> list[tuple[Workspace, Run]]:
        """The worktrees of this host whose work is not where it belongs, each with the last run in it."""
        office = self._office
        mine = [space for space in office.history.workspaces() if space.host == office.owner and space.remote]
        busy = {run.task_id for run in office.history.live()} if mine else set()
        found = []
        for space in mine:
            if space.task_id in busy:
                continue
            runs = office.history.runs(space.task_id)
            if runs and (space.is_mirrored or space.made.get(SENT) != runs[-1].id):
                found.append((space, runs[-1]))
            elif not runs and space.is_mirrored:  # it was never made ready, or its agent never started
                found.append((space, _no_run(space)))
        return found

    async def _return(self, space: Workspace, run: Run) -> None:
        office = self._office
        receipts = await office.ask(office.history.receipts, space.task_id)
        try:
            place = ""
            if run.number:
                place = await asyncio.to_thread(_send, office.home, space, run.id, receipts)
                await _note(office, space, {SENT: run.id, SENT_TO: place, NOT_SENT: ""})
            if space.is_mirrored:
                await _take_down(office, space, run)
        except IllegalMove:  # it is worked on again already
            self._due.pop(run.id, None)
            return
        except StoreAway:
            raise
        except (FleetError, OSError) as error:
            if not self._due.get(run.id):
                log.warning("%s is not pushed yet: %s", run.id, error)
                await _note(office, space, {NOT_SENT: str(error)[:300]})
            self._due[run.id] = asyncio.get_running_loop().time() + self._waits.longer(run.id)
            return
        self._due.pop(run.id, None)
        self._waits.over(run.id)
        if place:
            log.info("%s is at %s of %s", run.id, place, space.remote)


def _no_run(space: Workspace) -> Run:
    """What stands for the run of a worktree that never had one."""
    return Run(id=f"{space.task_id}/0", task_id=space.task_id, number=0, epoch=0, owner="", started_at=space.made_at)


def _send_all(live: Live, space: Workspace) -> None:
    """Send what the next run needs, wherever it is: what the agent left for it, then the branch."""
    work = Work(live.folder.home, space)
    remote = remote_for(work.repository, space.remote)
    try:
        send_parcel(work.view, remote, live.run.task_id, live.run.number, packed(live.folder))
    except RemoteAway:
        raise
    except FleetError as error:  # the next run can do without, but not without the branch
        log.warning("what %s left for the next run is not sent: %s", live.run.id, error)
    _send(live.folder.home, space, live.run.id, ())


def _send(home: Home, space: Workspace, run_id: str, receipts: Iterable[Receipt]) -> str:
    """Send the branch and the receipts; where the branch went. Raises FleetError."""
    work = Work(home, space)
    remote = remote_for(work.repository, space.remote)
    tip = work.tip
    place = send_branch(work.view, remote, space.branch, tip, run_id) if tip else ""
    own = {encode(file_of(each), 2) + "\n": each for each in receipts if each.owner == space.host}
    refused = send_receipts(work.view, remote, own).refused
    if refused:
        ref, why = next(iter(refused.items()))
        raise FleetError(f"{space.remote} does not take {ref}: {why}")
    return place


async def _note(office: Office, space: Workspace, words: dict[str, str]) -> None:
    """Note how far a worktree's work was sent; on one that is gone meanwhile there is nothing to note."""

    def write() -> None:
        with office.queue.atomic():
            kept = office.history.workspace(space.task_id)
            if kept is not None and kept.made_at == space.made_at and not kept.is_gone:
                office.history.keep_workspace(kept.replace(notes=encode(kept.made | words)))

    try:
        await office.ask(write)
    except WorkspaceNotFound:
        log.info("the worktree of %s is gone", space.task_id)


async def _take_down(office: Office, space: Workspace, run: Run) -> None:
    """Remove a worktree whose branch has arrived, after what its project has to say. Raises IllegalMove, FleetError."""
    await office.ask(office.history.begin_removal, space.task_id)
    try:
        saved = []
        if is_there(space.path) and space.ready_at is not None:
            await _tear_down(office, space)
            saved = await asyncio.to_thread(clear_away, office.home, space, run.number)
        elif is_there(space.path):  # no agent was ever in it
            await asyncio.to_thread(remove, office.home, Work(office.home, space).repository, space.path)
    except (FleetError, OSError):
        await office.ask(office.history.stop_removal, space.task_id)
        raise
    await office.ask(office.history.end_removal, space.task_id, encode(saved))


async def _tear_down(office: Office, space: Workspace) -> None:
    try:
        task = await office.ask(office.queue.get, space.task_id)
    except TaskNotFound:  # somebody deleted it, and with it what its project says
        return
    settings = office.settings_for(task)
    commands = settings.setup.teardown
    repository = Work(office.home, space).repository
    untrusted = await office.ask(untrusted_commands, office.history, repository, settings) if commands else []
    if untrusted:
        log.warning("teardown of %s was not run: it is not trusted", space.branch)
        return
    env = setup_environment(office.home, task, space)
    for number, command in enumerate(commands, 1):
        place = f"{office.home.task(space.task_id)}/teardown/{number}"
        seconds = settings.setup.seconds
        done = await run_command(office.launcher, place, command, cwd=space.path, env=env, seconds=seconds)
        if not done.ok:
            log.warning("teardown of %s: %s", space.branch, done.in_words)
