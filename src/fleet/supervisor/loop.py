"""The supervisor: claims tasks that fit, follows their runs, and survives the failure of any single run."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import random
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet import wake
from fleet.core import admission
from fleet.core import admission as pool
from fleet.core.admission import POOLED
from fleet.core.errors import (
    DatabaseReplaced,
    FleetError,
    HomeRefused,
    HomeReplaced,
    StoreAway,
    StoreFault,
    StoreHindered,
)
from fleet.core.filter import Filter
from fleet.core.run import Delivery, Ending
from fleet.core.task import HEADLESS, INTERACTIVE
from fleet.git import process
from fleet.git.name_readers import end_idle_readers
from fleet.supervisor import retention
from fleet.supervisor.admission_inputs import InputsReader
from fleet.supervisor.answers import Pages
from fleet.supervisor.collision_radar import Radar
from fleet.supervisor.give_back import release
from fleet.supervisor.lock import PAUSED
from fleet.supervisor.logins import LoginWatch
from fleet.supervisor.presence import Presence
from fleet.supervisor.recovery import Recovery
from fleet.supervisor.relocation import take_place
from fleet.supervisor.retention import tidy
from fleet.supervisor.run.runner import Runner
from fleet.supervisor.run.settle import BY_ORDER
from fleet.supervisor.start_report import SILENT, StartReport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from datetime import datetime
    from typing import Any

    from fleet.core.admission import QueueSnapshot, Situation
    from fleet.core.run import Message, Quota, Run
    from fleet.core.task import Claim, Task
    from fleet.supervisor.context import Context
    from fleet.supervisor.logins import NoLogin
    from fleet.supervisor.run.live import Live


log = logging.getLogger(__name__)

#: How long a renewal waits for shims to learn the new deadline. Slower shims learn it later.
SHIM_SECONDS = 1.0


class Renewals:
    """The renewal of all claims that a supervisor holds."""

    def __init__(self, context: Context, runners: Mapping[str, Runner]) -> None:
        self._context, self._runners = context, runners
        self._telling: set[asyncio.Task[None]] = set()

    async def renew(self) -> list[str]:
        """Extend all claims. Return the tasks whose claim is lost. Raises FleetError."""
        context, store = self._context, self._context.store
        held = {key: runner for key, runner in self._runners.items() if not runner.is_settled}
        ttl = timedelta(seconds=context.settings.supervisor.claim_seconds)
        asked = context.cluster.leases.now()
        claims: list[Claim] = []
        if held:
            claims = await store.call(store.claims.renew, [runner.claim for runner in held.values()], ttl=ttl)
        elif store.is_away:
            await store.call(store.config.all)  # without claims: learn whether the store is back
        kept = {claim.task.id: claim for claim in claims}
        for key, claim in kept.items():
            held[key].claim = claim
        context.cluster.leases.confirm(kept, asked, ttl.total_seconds())
        store.note_back()
        lost = [key for key, runner in held.items() if key not in kept and self._runners.get(key) is runner]
        context.cluster.leases.lose(lost)
        await self._tell([held[key] for key in kept])
        return lost

    async def _tell(self, runners: list[Runner]) -> None:
        """Tell the shims the new deadlines. A slow shim must not delay the next renewal."""
        if not runners:
            return
        tasks = {asyncio.create_task(runner.put_off()) for runner in runners}
        self._telling |= tasks
        for task in tasks:
            task.add_done_callback(self._telling.discard)
        await asyncio.wait(tasks, timeout=SHIM_SECONDS)


#: Every host hears of the same task. A host that looks later finds the task claimed and does not wait for a lock.
JITTER_SECONDS = 0.05


class Hints:
    """A callable for any thread that calls `call` on the loop. Create it on the loop."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._pending = False

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        if not self._pending:
            self._pending = True
            self._loop.call_later(random.random() * JITTER_SECONDS, self._pass_on)

    def _pass_on(self) -> None:
        self._pending = False
        self._call()


#: Modules that the start of an agent does not need. They are loaded soon after, before an update can replace them.
LOADED_LATER = ("fleet.proof.scope.lookout", "fleet.supervisor.run.end")

FOLD_SECONDS = 1.0
#: How often the supervisor looks for answers that users wrote into files.
ANSWERS_SECONDS = 2.0
#: How often to check whether another machine works with this host's id.
ARRIVE_SECONDS = 0.5
#: How often to cancel runs that are still followed at the end.
CANCEL_SECONDS = 1.0


def load_rest() -> None:
    """Import the modules that follow live agents and end their runs."""
    for name in LOADED_LATER:
        importlib.import_module(name)


class Supervisor:
    """A loop that claims and follows tasks until it is stopped. Agents live on without it."""

    def __init__(
        self,
        context: Context,
        *,
        origins: tuple[str, ...] | None = None,
        report: StartReport = SILENT,
        check_home: Callable[[], None] = lambda: None,  # raises HomeReplaced
        note: Callable[..., None] = lambda **facts: None,  # shows facts to the commands of this home
    ) -> None:
        self._context = context
        self._check_home = check_home
        self._report, self._note = report, note
        self._logins = LoginWatch(os.environ)
        self._no_login: list[NoLogin] | None = None
        self._runners: dict[str, Runner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._stop_agents = False
        self._watch = InputsReader(context, origins)
        self._presence = Presence(context)
        self._renewals = Renewals(context, self._runners)
        self._radar = Radar(context.store, context.home, context.owner, at_work=self._at_work, told=self._woken.set)
        self._again_at: datetime | None = None
        self._told: list[str] = []
        self._pages = Pages(context.store.ports, context.home, context.redactor)
        self._at_once = pool.USUAL  # the last value that tasks of the pool set

    async def serve(self) -> None:
        """Recover the runs of an earlier supervisor, then claim and follow tasks until `stop`.

        Raises HostTaken, and DatabaseReplaced or HomeReplaced if the home or its database was replaced. Agents live on.
        """
        store = self._context.store
        await self._arrive()
        if self._stopping.is_set():
            return
        pipe = wake.listen(self._context.home)
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe, self._on_wake, pipe)
        beat = asyncio.create_task(self._beat(), name="beat")
        cluster = asyncio.create_task(self._context.cluster.serve(self._runners), name="cluster")
        ended = asyncio.create_task(self._stop_when_ended(), name="ended")
        try:
            await self._persist(self._begin, refuses=True)
            await self._persist(self._recover)
            await self._guarded(self._tidy)
            with store.ports.listening(Hints(self._hear)):
                while not self._stopping.is_set():
                    await self._guarded(self._claim_more)
                    await self._pause()
            await self._wind_down()
        finally:
            loop.remove_reader(pipe)
            os.close(pipe)
            others = (beat, cluster, ended)
            for each in others:
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._radar.end()
        if store.why_ended is not None:
            raise store.why_ended

    def stop(self, *, stop_agents: bool = False) -> None:
        """Stop claiming and end. Agents continue, or are stopped first. Calling this early or twice is safe."""
        self._stop_agents = self._stop_agents or stop_agents
        self._stopping.set()
        self._woken.set()

    async def _stop_when_ended(self) -> None:
        await self._context.store.ended.wait()
        self.stop()

    def _on_wake(self, pipe: int) -> None:
        wake.drain(pipe)
        self._woken.set()

    def _hear(self) -> None:
        self._woken.set()
        self._context.cluster.note_write()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience()):
                await self._woken.wait()
        self._woken.clear()

    def _patience(self) -> float:
        poll = self._context.settings.supervisor.poll_seconds
        if self._again_at is None:
            return poll
        return min(poll, max(0.01, (self._again_at - self._context.now()).total_seconds()))

    def _tell(self, reasons: list[str]) -> None:
        """Log why no more agents are started, once for each reason."""
        lasting = [reason for reason in reasons if not any(words in reason for words in admission.BRIEF)]
        for reason in lasting:
            if reason not in self._told:
                log.info("not claiming: %s", reason)
        self._told = lasting

    async def _arrive(self) -> None:
        """Make sure, before changing anything, that no other machine uses this host's id. Raises HostTaken."""
        while not self._stopping.is_set():
            wait = ARRIVE_SECONDS
            try:
                wait = await self._context.store.call(self._context.cluster.take_host, self._presence.tell)
                if not wait:
                    return
                self._report.serves()  # it waits only for a limited time
            except StoreAway as error:
                self._report.waits(error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(wait, ARRIVE_SECONDS))

    async def _begin(self) -> None:
        """Update the recorded place of the home, and read and write the database once."""
        context, store = self._context, self._context.store
        await store.call(take_place, context.home, store.ports, context.owner)
        await self._show_host()
        await store.call(self._looked, ())
        self._report.serves()

    async def _recover(self) -> None:
        recovery = Recovery(self._context)
        async for runner, work in recovery.strays():  # first, so that a run that continues is not given back below
            self._follow(runner, work)
        async for runner, work in recovery.runs(self._runners):
            self._follow(runner, work)

    async def _tidy(self) -> None:
        context, store = self._context, self._context.store
        spaces = await store.call(store.workspaces.find, gone=True)
        own = [space for space in spaces if space.lies_on(context.owner)]
        if own:
            await asyncio.to_thread(tidy, context.home, own)

    async def _claim_more(self) -> None:
        context, store = self._context, self._context.store
        context.reload()
        if store.is_away:
            return
        messages, held, found = await store.call(self._looked, tuple(self._runners))
        self._pass_on(messages, held)
        reasons: list[str] = []
        soon: list[datetime | None] = []
        for mode in (INTERACTIVE, HEADLESS, POOLED):  # each has its own slots
            situation = self._watch.narrow(found, self._running(), mode, self._pool_room())
            room = admission.admit(context.settings, situation, mode)
            reasons += room.reasons
            taken = await self._claim(room) if room.room > 0 and room.lanes else 0
            soon.append(room.again_at(taken))
        self._tell(list(dict.fromkeys(reasons)))
        self._again_at = min((at for at in soon if at is not None), default=None)

    def _looked(self, ids: tuple[str, ...]) -> tuple[list[Message], list[Task], Situation]:
        """Return messages for live agents, the state of their tasks, and the facts about starting others."""
        context, store = self._context, self._context.store
        messages = store.messages.find(state=Delivery.QUEUED) if ids else []
        held = store.tasks.find(Filter(ids=ids), sort="id") if ids else []
        seen = store.hosts.glance(context.owner, PAUSED)
        if self._look_for_logins(seen):
            seen = store.hosts.glance(context.owner, PAUSED)
        return messages, held, self._watch.look(seen, self._presence.look(seen.host, len(ids)))

    def _look_for_logins(self, seen: QueueSnapshot) -> bool:
        """Unpark accounts whose login has appeared, and note the logins that are missing. Return True if any was."""
        context, accounts = self._context, self._context.store.ports.accounts
        found = self._logins.appeared(context.settings, seen.accounts, context.now())
        for each in found:
            accounts.park(each.coder, each.name, until=None, reason="")
            accounts.note_strikes(each.coder, each.name, strikes=0)
            log.info("login appeared, account unparked: %s %s", each.coder, each.name)
        default = context.coder or context.settings.coder
        missing = self._logins.missing(context.settings, {default, *seen.coders} - {""}, seen.accounts)
        if missing is not None and missing != self._no_login:
            self._no_login = missing
            self._note(no_login=[list(each) for each in missing])
        return bool(found)

    def _running(self) -> list[tuple[str, str]]:
        default = self._context.coder or self._context.settings.coder
        return [
            (
                runner.live.run.coder if runner.live else runner.claim.task.coder or default,
                POOLED if pool.is_pooled(runner.claim.task) else runner.claim.task.mode,
            )
            for runner in self._runners.values()
        ]

    def _pooled(self) -> list[Task]:
        tasks = (runner.claim.task for runner in self._runners.values())
        return [task for task in tasks if pool.is_pooled(task)]

    def _pool_room(self) -> int:
        self._at_once = pool.room_of(self._pooled(), otherwise=self._at_once)
        return self._at_once

    def _at_work(self, task_id: str) -> Live | None:
        runner = self._runners.get(task_id)
        return runner.live if runner is not None else None

    async def _claim(self, room: admission.Room) -> int:
        """Claim tasks for the available room and start them. Return how many claims the queue gave."""
        context, store = self._context, self._context.store
        ttl = timedelta(seconds=context.settings.supervisor.claim_seconds)
        asked = context.cluster.leases.now()
        claims = await store.call(store.claims.acquire, context.owner, room.lanes, room=room.room, ttl=ttl)
        context.cluster.leases.confirm([claim.task.id for claim in claims], asked, ttl.total_seconds())
        taken = len(claims)
        claims, too_many = pool.split_by_room(claims, len(self._pooled()))
        if too_many:
            await store.call(release, store.ports, too_many)
        self._watch.started(len(claims))
        for claim in claims:
            log.info("claimed %s (epoch %s): %s", claim.task.id, claim.epoch, claim.task.title)
            runner = Runner(context, claim)
            self._follow(runner, runner.start())
        return taken

    def _follow(self, runner: Runner, work: Coroutine[Any, Any, None]) -> None:
        key = runner.claim.task.id
        self._runners[key] = runner
        self._radar.move()
        task = asyncio.create_task(self._bulkhead(runner, work), name=key)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bulkhead(self, runner: Runner, work: Coroutine[Any, Any, None]) -> None:
        key = runner.claim.task.id
        self._context.store.wait_for_store(runner.claim, self._context.cluster.leases)
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a bug in one run must not stop others; its agent is ended, its task settled
            log.exception("following %s failed", key)
            await runner.give_up(error)
        finally:
            if self._runners.get(key) is runner:
                del self._runners[key]
                self._context.cluster.leases.forget(key)
                self._watch.ended()
            self._radar.wake(runner.live)
            self._radar.move()
            self._context.cluster.note_end()
            self._woken.set()

    def _pass_on(self, messages: list[Message], held: list[Task]) -> None:
        """Pass on messages, requests to stop, and tasks that users closed or agents handed in."""
        for message in messages:
            if message.task_id in self._runners:
                self._runners[message.task_id].hand(message)
        for task in held:
            runner = self._runners.get(task.id)
            if runner is not None and task.cancel_requested_at is not None:
                runner.stop(Ending.CANCELLED, task.cancel_reason or "stopped by hand")
            elif runner is not None and task.closed_at is not None:
                runner.note_closed(task.close_reason)
            elif runner is not None and task.handed_in_at is not None:
                runner.note_hand_in()

    async def _beat(self) -> None:
        """Store folded runs, renew claims, and give back tasks whose claims others let expire."""
        store = self._context.store
        renewed = looked = 0.0
        while True:
            await asyncio.sleep(FOLD_SECONDS)
            await self._guarded(self._confirm)
            if not renewed:
                await asyncio.to_thread(load_rest)
            now = asyncio.get_running_loop().time()
            due = now - renewed >= self._context.settings.supervisor.claim_seconds / 3
            if due or store.is_away:
                renewed, was_away = now, store.is_away
                await self._guarded(self._renew)
                if store.is_away:
                    continue  # nothing else works before claims are renewed
                if was_away:
                    self._woken.set()
            await self._guarded(self._keep_folded)
            self._radar.begin()
            if now - looked >= ANSWERS_SECONDS:
                looked = now
                await self._guarded(self._take_answers)
            if due:
                await self._guarded(self._show_host)
                await self._guarded(self._reap)
                await self._guarded(self._remove_raw)

    async def _confirm(self) -> None:
        """Check that the home and the database are the same as when this supervisor started."""
        store = self._context.store
        try:
            self._check_home()
        except HomeReplaced as error:
            store.end(error)
        else:
            await store.call(store.ports.confirm)

    async def _take_answers(self) -> None:
        await self._context.store.call(self._pages.take_answers)

    async def _keep_folded(self) -> None:
        store, runners = self._context.store, list(self._runners.values())
        for runner in runners:
            await runner.note_heard()
        # A run is stored after its messages count as delivered, because that output is not read again.
        dirty = [r for r in runners if r.live is not None and r.live.dirty and not r.live.delivered]
        if not dirty:
            return
        pairs: list[tuple[Claim, Run]] = []
        quotas: list[Quota] = []
        for runner in dirty:
            assert runner.live is not None
            runner.live.dirty = False
            quotas += runner.live.quotas.values()
            runner.live.quotas = {}
            self._radar.wake(runner.live)
            pairs.append((runner.claim, runner.live.run))
        try:
            lost = await store.call(store.runs.fold_all, pairs)
            if quotas:
                await store.call(store.accounts.note_quotas, quotas)
        except StoreFault:
            for runner in dirty:
                assert runner.live is not None
                runner.live.dirty = True
            raise
        await self._drop(lost)

    async def _renew(self) -> None:
        await self._drop(await self._renewals.renew())

    async def _show_host(self) -> None:
        await self._context.store.call(self._presence.tell, len(self._runners))

    async def _drop(self, lost: list[str]) -> None:
        for key in lost:
            runner = self._runners.get(key.partition("/")[0])
            if runner is not None:
                await runner.let_go()

    async def _reap(self) -> None:
        found, reaped = await Recovery(self._context).reap(self._runners)
        for runner, work in found:
            self._follow(runner, work)
        for task in reaped:
            log.warning("gave back %s: its claim expired", task.id)
        if reaped:
            self._woken.set()

    async def _remove_raw(self) -> None:
        await self._context.store.call(retention.sweep_raw_output, self._context)
        await asyncio.to_thread(end_idle_readers)

    async def _wind_down(self) -> None:
        if self._stop_agents:
            for runner in self._runners.values():
                runner.stop(Ending.RELEASED, BY_ORDER)
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._guarded(Recovery(self._context).end_left)
        await asyncio.gather(*(runner.hold_still() for runner in self._runners.values()))
        if self._context.store.why_ended is None:
            await self._guarded(self._keep_folded)
            await self._guarded(self._renew)  # gives the next supervisor the most time before agents freeze
            await self._guarded(self._leave)
        process.end_reading()  # nothing needs the result, and reading would take as long as agents' files are large
        while self._tasks:  # repeatedly: up to Python 3.11 `asyncio.wait_for` can swallow a cancellation
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=CANCEL_SECONDS)

    async def _leave(self) -> None:
        await self._context.store.call(self._presence.leave, len(self._runners))

    async def _guarded(self, work: Any) -> None:
        """Run `work`. A failure does not end the supervisor: the next call tries again."""
        try:
            await work()
        except (StoreAway, DatabaseReplaced):
            pass  # already noted; the work continues after the outage
        except FleetError as error:
            log.warning("%s", error)
        except Exception:  # a bug must not end the supervisor
            log.exception("%s failed", getattr(work, "__name__", work))

    async def _persist(self, work: Any, *, refuses: bool = False) -> None:
        """Run `work` until it succeeds. With `refuses` raise a fault of the database that does not pass on its own."""
        while not self._stopping.is_set():
            try:
                await work()
            except HomeRefused:
                raise
            except FleetError as error:
                passes = isinstance(error, StoreAway | StoreHindered) or not isinstance(error, StoreFault)
                if refuses and not passes:
                    raise
                self._report.waits(error)
                if not isinstance(error, StoreAway | DatabaseReplaced):  # already noted
                    log.warning("recovery waits: %s", error)
                await self._pause()
            else:
                return
