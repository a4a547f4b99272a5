"""Runs that no supervisor follows: adopt live agents, settle ended runs, give back the tasks of vanished agents.

After a restart these are the runs of this owner. Later they are runs whose claims another supervisor on this host let
expire. That supervisor had another home with the same database, or this home under an earlier name of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from fleet.agents.lock import kill_shims, lost_shims
from fleet.core.errors import BranchTaken, ClaimLost, FleetError, IllegalMove, StoreFault, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.task import Claim, Status
from fleet.proof.baseline import begun_now
from fleet.supervisor.give_back import put_off
from fleet.supervisor.run import lost_claim
from fleet.supervisor.run.briefing import issue_token
from fleet.supervisor.run.runner import Runner
from fleet.supervisor.run.work import save_all
from fleet.supervisor.run.workplace import is_there
from fleet.supervisor.strays import living, living_runs, strays_among
from fleet.supervisor.task_folder import folder_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Coroutine, Iterable
    from typing import Any

    from fleet.agents.base import Agent
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.home import Home
    from fleet.supervisor.context import Context
    from fleet.supervisor.strays import Stray

    Work = tuple[Runner, Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)

EXPIRED = "its claim expired"


class Recovery:
    """The search for runs that no supervisor follows."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def runs(self, followed: Collection[str]) -> AsyncIterator[Work]:
        """Yield every run of this owner to continue, with the work to do.

        Give back tasks that were claimed but never started.
        """
        context, store = self._context, self._context.store
        live = await store.call(store.runs.live, context.owner)
        for run in live:
            if run.task_id not in followed and (work := await self._adopt(run)):
                yield work
        await store.call(self._give_back_unstarted, {run.task_id for run in live})

    async def strays(self) -> AsyncIterator[Work]:
        """Yield every unrecorded agent in this home that can continue, with the work to do. End the others.

        A restored backup lacks everything that began after it. Or another host has the task by now, and the agent is
        frozen. Raises FleetError if an agent whose folder was deleted or moved does not end.
        """
        context, store = self._context, self._context.store
        live = await store.call(store.runs.live, context.owner)
        await asyncio.to_thread(_end_lost, context.home, [self._place(run) for run in live])
        found = await asyncio.to_thread(living, context.home)
        for stray in await store.call(strays_among, context.home, store.ports, found):
            try:
                work = await self._take_in(stray)
            except StoreFault:
                raise
            except (FleetError, OSError) as error:  # the task does not begin while the agent lives
                log.warning("%s is alive and unknown, and cannot be reached: %s", stray.run_id, error)
            else:
                if work is not None:
                    yield work

    async def end_left(self) -> None:
        """End the agents of this owner's runs. The next supervisor settles the runs."""
        context, store = self._context, self._context.store
        for run in await store.call(store.runs.live, context.owner):
            await lost_claim.end_agent(context, run)

    async def reap(self, followed: Iterable[str]) -> tuple[list[Work], list[Task]]:
        """Return the expired runs that can continue here, with the work to do, and the tasks that were given back.

        A task whose agent lives on this host is never given back, even if another supervisor follows the agent.
        """
        context, own = self._context, set(followed)
        store = context.store
        expired = await store.call(store.claims.expired)
        if not expired:
            return [], []
        left = await store.call(self._left, expired)
        here = [run for run in left if run.task_id not in own and self._is_here(run)]
        found = [work for run in here if (work := await self._adopt(run))]
        spared = [*own, *(run.task_id for run in here)]
        return found, await store.call(self._give_back_expired, spared)

    async def _take_in(self, stray: Stray) -> Work | None:
        """Record a stray run as it began. Return the work to continue it.

        If that is not possible, save its work, end the agent and return None.
        """
        context = self._context
        agent = await context.launchers.find(stray.launcher).find(stray.place)
        if agent is None:
            return None
        asked = context.cluster.leases.now()
        begun = await context.store.call(self._put_on_record, stray) if stray.run is not None else None
        if begun is None:
            await self._end(stray, agent)
            return None
        claim, run = begun
        context.cluster.leases.confirm([run.task_id], asked, context.settings.supervisor.claim_seconds)
        log.info("adopted unknown run %s", run.id)
        runner = Runner(context, claim)
        return runner, runner.adopt(run, agent)

    def _put_on_record(self, stray: Stray) -> tuple[Claim, Run] | None:
        """Claim the task of a stray for its run. Return None if the task is closed, gone, held or has another run."""
        context, run, space = self._context, stray.run, stray.workspace
        store = context.store
        assert run is not None
        try:
            with store.atomic():
                now, ttl = context.now(), timedelta(seconds=context.settings.supervisor.claim_seconds)
                task = store.tasks.get(run.task_id)
                is_held = task.is_claimed and task.claim_owner != context.owner
                if stray.known is not None or is_held or task.status == Status.CLOSED or self._is_behind(run):
                    return None
                task = task.claimed(context.owner, now, now + ttl)
                store.tasks.save(task)
                claim = Claim(task=task, owner=context.owner, epoch=task.epoch, expires_at=now + ttl)
                if space is not None:
                    leased = store.workspaces.lease(space)
                    if leased.path != run.workspace:
                        raise BranchTaken(space.branch, task.id, path=leased.path)
                    store.workspaces.save(leased.replace(ready_at=space.ready_at, notes=space.notes))
                # All output is read again. Events recorded earlier must not count twice.
                run = store.runs.begin(claim, run.replace(spawn=begun_now(context.home, run)))
                issue_token(store.ports, claim, run)
                return claim, run
        except (TaskNotFound, IllegalMove) as error:
            log.info("cannot record %s: %s", stray.run_id, error)
            return None

    def _is_behind(self, run: Run) -> bool:
        """Return True if the task has a later run, or an earlier run whose agent lives."""
        earlier = self._context.store.runs.of_task(run.task_id)
        alive = living_runs(self._context.home.task(run.task_id))
        return any(each.number >= run.number or (each.is_live and each.number in alive) for each in earlier)

    async def _end(self, stray: Stray, agent: Agent) -> None:
        """End a stray agent. Its work is saved beside its branch first."""
        context, store = self._context, self._context.store
        log.warning("%s is not recorded as live: stopping its agent", stray.run_id)
        launcher = context.launchers.find(stray.launcher)
        await asyncio.to_thread(launcher.freeze, [stray.place])
        space = stray.workspace or await store.call(store.workspaces.get, stray.task_id)
        if space is not None and is_there(space.path):
            save = partial(save_all, context.home, space, stray.number, context.settings.saving, with_ignored=True)
            try:
                saved = await asyncio.to_thread(save)
            except (FleetError, OSError) as error:
                log.warning("%s: nothing saved, worktree %s kept: %s", stray.run_id, space.path, error)
            else:
                for command in saved.commands:
                    log.warning("%s: saved its worktree: %s", stray.run_id, command)
        await agent.kill_tree()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(agent.ended(), lost_claim.END_SECONDS)

    async def _adopt(self, run: Run) -> Work | None:
        context, store = self._context, self._context.store
        try:
            agent = await context.launchers.find(run.launcher).find(self._place(run))
        except (FleetError, OSError) as error:  # a shim that does not answer must not delay other runs
            log.warning("%s is alive but cannot be reached; its claim will expire: %s", run.id, error)
            return None
        asked = context.cluster.leases.now()
        claim = await store.call(self._claim_again, run)
        if claim is None:
            if run.owner == context.owner and await lost_claim.end_agent(context, run):
                with contextlib.suppress(ClaimLost):
                    await store.call(lost_claim.record_loss, context, run)
            return None
        context.cluster.leases.confirm([run.task_id], asked, context.settings.supervisor.claim_seconds)
        log.info("%s %s", "adopted" if agent else "found ended:", run.id)
        runner = Runner(context, claim)
        return runner, runner.adopt(run.replace(epoch=claim.epoch, owner=claim.owner), agent)

    def _give_back_expired(self, spared: list[str]) -> list[Task]:
        store = self._context.store.ports
        with store.atomic():
            reaped = store.claims.reap(spare=spared)
            return [put_off(store, task, task.reason or EXPIRED) for task in reaped]

    def _is_here(self, run: Run) -> bool:
        """Return True if the agent of a run lives on this host or left its exit status here."""
        launcher, place = self._context.launchers.find(run.launcher), self._place(run)
        return launcher.is_alive(place) or launcher.last_exit(place) is not None

    def _place(self, run: Run) -> str:
        return folder_of(self._context.home, run, self._context.redactor).run_folder(run.number)

    def _left(self, expired: list[str]) -> list[Run]:
        """Return the live runs of tasks whose claim has expired."""
        store = self._context.store
        with store.snapshot():
            named = {task.run_id for task in store.tasks.find(Filter(ids=tuple(expired)), sort="id")}
            runs = store.runs.last(expired).values()
        return [run for run in runs if run.is_live and run.id in named]

    def _claim_again(self, run: Run) -> Claim | None:
        context, store = self._context, self._context.store
        ttl = timedelta(seconds=context.settings.supervisor.claim_seconds)
        try:
            task = store.tasks.get(run.task_id)
            if task.run_id != run.id:  # claimed again but not begun: that claim does not belong to this run
                raise ClaimLost(run.task_id, run.epoch)
            return store.claims.adopt(run.task_id, context.owner, epoch=task.epoch, ttl=ttl)
        except (ClaimLost, TaskNotFound):
            return None

    def _give_back_unstarted(self, known: set[str]) -> None:
        context, store = self._context, self._context.store
        for task in store.tasks.find(Filter(statuses=("in_progress",), assignee=context.owner), sort="id"):
            if task.claim_owner == context.owner and task.id not in known and task.is_supervised:
                with store.atomic():
                    freed = store.tasks.get(task.id).freed(context.now())
                    store.tasks.save(freed)
                    put_off(store.ports, freed, freed.reason or "it was claimed but never started")
                log.info("returned %s to the queue: claimed but never started", task.id)


def _end_lost(home: Home, folders: list[str]) -> None:
    """End agents whose run folders were deleted or moved. Raises FleetError if an agent does not end."""
    held = lost_shims(home.tasks, folders)
    for folder in sorted(set(held.values())):
        log.warning("%s was deleted or moved while its agent was alive: stopping the agent", folder)
    kill_shims(held)
    give_up = time.monotonic() + lost_claim.END_SECONDS
    while held and (held := lost_shims(home.tasks, folders)):
        if time.monotonic() > give_up:
            raise FleetError(f"agents whose folders were deleted do not stop: {sorted(set(held.values()))}")
        time.sleep(0.05)
