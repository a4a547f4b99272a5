"""Agents nobody follows: those that live are adopted, those that ended are settled, those that vanished go back.

After a restart these are the runs of this owner. Later they are runs whose claims another supervisor on this host let
expire: one of another home with the same database, or of this home under an earlier name of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.errors import ClaimLost, FleetError, TaskNotFound
from fleet.core.filter import Filter
from fleet.engine import losing
from fleet.engine.runner import Runner
from fleet.engine.starting import folder_of
from fleet.launchers.lock import is_locked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Coroutine, Iterable
    from typing import Any

    from fleet.core.run import Run
    from fleet.core.task import Claim, Task
    from fleet.engine.office import Office

    Work = tuple[Runner, Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)


class Recovery:
    """Finds runs that nobody follows."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def runs(self, followed: Collection[str]) -> AsyncIterator[Work]:
        """Every run of ours to go on with, each with the work to do; tasks claimed but never started are given back."""
        office = self._office
        live = await office.ask(office.history.live, office.owner)
        for run in live:
            if run.task_id not in followed and (work := await self._adopt(run)):
                yield work
        await office.ask(self._give_back_unstarted, {run.task_id for run in live})

    async def end_strays(self) -> None:
        """End the agents in this home whose run is over by the record: another host has their task since.

        They stand still, for their deadline is over, and nobody follows them.
        """
        office = self._office
        if not office.fence.is_on:
            return
        for place, run_id in await asyncio.to_thread(_living, office.home.tasks):
            run = await office.ask(office.history.run, run_id)
            if run is not None and run.is_live:
                continue
            with contextlib.suppress(FleetError, OSError):
                agent = await office.launcher.find(place)
                if agent is not None:
                    log.warning("%s is over, and its agent is ended: its task went to another host", run_id)
                    await agent.kill_tree()

    async def end_left(self) -> None:
        """End the agents of our runs, whoever followed them; the next supervisor settles what these came to."""
        office = self._office
        for run in await office.ask(office.history.live, office.owner):
            await losing.is_gone(office, run)

    async def reap(self, followed: Iterable[str]) -> tuple[list[Work], list[Task]]:
        """What others let expire: runs that can be gone on with from here, and tasks that were given back.

        A task whose agent lives here is never given back, whoever follows it.
        """
        office, own = self._office, set(followed)
        expired = await office.ask(office.queue.expired)
        if not expired:
            return [], []
        left = await office.ask(self._left, expired)
        here = [run for run in left if run.task_id not in own and self._is_here(run)]
        found = [work for run in here if (work := await self._adopt(run))]
        spared = [*own, *(run.task_id for run in here)]
        return found, await office.ask(lambda: office.queue.reap(spare=spared))

    async def _adopt(self, run: Run) -> Work | None:
        office = self._office
        try:
            agent = await office.launcher_of(run.launcher).find(self._place(run))
        except (FleetError, OSError) as error:  # one shim that does not answer must not keep the others waiting
            log.warning("%s lives but cannot be reached; its claim is left to expire: %s", run.id, error)
            return None
        asked = office.fence.now()
        claim = await office.ask(self._claim_again, run)
        if claim is None:
            if agent is not None and run.owner == office.owner:  # it is on record as lost now: nobody follows it
                with contextlib.suppress(FleetError, OSError):
                    await agent.kill_tree()
            return None
        office.fence.confirm([run.task_id], asked, office.settings.supervisor.claim_seconds)
        log.info("%s %s", "adopted" if agent else "found ended:", run.id)
        runner = Runner(office, claim)
        return runner, runner.adopt(run.replace(epoch=claim.epoch, owner=claim.owner), agent)

    def _is_here(self, run: Run) -> bool:
        """Whether the agent of a run lives on this host, or left its exit here."""
        launcher, place = self._office.launcher_of(run.launcher), self._place(run)
        return launcher.is_alive(place) or launcher.last_exit(place) is not None

    def _place(self, run: Run) -> str:
        return folder_of(self._office, run).run_folder(run.number)

    def _left(self, expired: list[str]) -> list[Run]:
        """The live runs of tasks whose claim has expired."""
        office = self._office
        with office.queue.snapshot():
            named = {task.run_id for task in office.queue.find(Filter(ids=tuple(expired)), sort="id")}
            runs = office.history.last_runs(expired).values()
        return [run for run in runs if run.is_live and run.id in named]

    def _claim_again(self, run: Run) -> Claim | None:
        office = self._office
        ttl = timedelta(seconds=office.settings.supervisor.claim_seconds)
        try:
            task = office.queue.get(run.task_id)
            if task.run_id != run.id:  # claimed again since, and not yet begun: that claim is not this run's
                raise ClaimLost(run.task_id, run.epoch)
            return office.queue.adopt(run.task_id, office.owner, epoch=task.epoch, ttl=ttl)
        except (ClaimLost, TaskNotFound):
            if run.owner == office.owner:
                losing.record(office, run)
            return None

    def _give_back_unstarted(self, known: set[str]) -> None:
        office = self._office
        for task in office.queue.find(Filter(statuses=("in_progress",), assignee=office.owner), sort="id"):
            if task.claim_owner == office.owner and task.id not in known and task.is_supervised:
                with office.queue.atomic():
                    office.queue.save(office.queue.get(task.id).freed(office.now()))
                log.info("gave back %s: it was claimed but never started", task.id)


def _living(tasks: str) -> list[tuple[str, str]]:
    """The folders of runs below a home's tasks in which something lives, and the ids of these runs."""
    found = []
    for task in _names(tasks):
        for number in _names(f"{tasks}/{task}/runs"):
            place = f"{tasks}/{task}/runs/{number}"
            with contextlib.suppress(OSError):
                if is_locked(place):
                    found.append((place, f"{task}/{number}"))
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - paths of the home are strings
    except OSError:
        return []
