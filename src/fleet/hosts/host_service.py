"""Work of a host for other hosts while its supervisor runs: push, store tails, remove worktrees, serve events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, HostTaken, StoreAway
from fleet.git.remote import end_talks
from fleet.hosts.log_server import LogServer, hosts_key
from fleet.hosts.push import EVERY_SECONDS, PushQueue
from fleet.hosts.removals import WishedRemovals
from fleet.supervisor.host import be_the_same, machine_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fleet.core.host import Host
    from fleet.hosts.cluster import Follower, LiveRun
    from fleet.supervisor.context import Context
    from fleet.supervisor.store_calls import StoreCalls


log = logging.getLogger(__name__)


class HostRow:
    """The row of this host, which a clone of the machine may have taken. Call its methods where the store is called."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._before: tuple[Host, float] | None = None  # another machine's row, and when this host first saw it

    def take(self, tell: Callable[[int], None]) -> float:
        """Write the row by calling `tell` with no agents. Return 0, or the seconds to wait before the next try.

        Another machine may have written the row a short while ago. That machine may be at work, and its runs must not
        be touched. If it is at work, it writes the row again. If the row does not change, either this machine wrote it
        before a restart or its host is gone. Raises HostTaken.
        """
        context, store = self._context, self._context.store.ports
        with store.atomic():  # if two machines come at once, the second sees the first
            row = next((row for row in store.hosts.all() if row.id == context.owner), None)
            wait = 0.0 if row is None else self._seconds_to_wait(row)
            if not wait:
                if row is not None:
                    be_the_same(context.home, row)
                tell(0)
        return wait

    def _seconds_to_wait(self, row: Host) -> float:
        """Return how many seconds the row may not be taken. Raises HostTaken."""
        lease = self._context.settings.supervisor.claim_seconds
        age = (self._context.now() - row.seen_at).total_seconds()
        has_left = row.slots == 0 and row.agents == 0
        if row.machine in ("", machine_mark(self._context.home)) or has_left or age > lease:
            return 0.0
        if self._before is None:
            self._before = row, time.monotonic()
            words = "%s was active a short while ago, from another machine or before a restart of this one; %s"
            log.warning(words, row.name, f"waiting at most {lease:.0f} s for its lease to expire")
        first, since = self._before
        if row.seen_at != first.seen_at:
            hint = "give each host its own `[host] name`, or pass `--name`"
            raise HostTaken(f"another machine runs as {row.name} with a home at the same path", hint=hint)
        return max(0.0, min(lease - age, since + lease - time.monotonic()))  # also bounded by this machine's clock


#: How many bytes of a run's events are stored, and how often.
LONGEST = 64 * 1024
TAIL_SECONDS = 10.0


async def store_tail(store: StoreCalls, live: LiveRun) -> None:
    """Store the end of a run's events. The events hold no secrets."""
    with contextlib.suppress(OSError):
        data, _ = live.folder.events_part(-LONGEST, LONGEST)
        text = data.decode("utf-8", "replace").replace("\0", "")
        try:
            await store.call(store.tails.keep, live.run.id, text, store.now())
        except FleetError as error:  # the next store tries again; only the view from other hosts is affected
            log.warning("cannot store the last events of %s: %s", live.run.id, error)


class EventTails:
    """The stored tails of live runs, updated for runs with new events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: dict[str, int] = {}  # the number of events stored, by run id

    async def store(self, lives: Iterable[LiveRun]) -> None:
        lives = list(lives)
        for live in lives:
            if self._kept.get(live.run.id) != live.run.events:
                self._kept[live.run.id] = live.run.events
                await store_tail(self._context.store, live)
        self._kept = {live.run.id: self._kept[live.run.id] for live in lives if live.run.id in self._kept}


#: How often to look for removals that other hosts want, and the delay after another process wrote to the queue.
LOOK_SECONDS, HEAR_SECONDS = 60.0, 5.0


class HostService:
    """The loops that work for other hosts beside the supervisor until they are cancelled."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.address = ""  # where other hosts can ask this host; empty if they cannot
        self._tails, self._removals = EventTails(context), WishedRemovals(context)
        self._log_server: LogServer | None = None
        self._ended, self._written = asyncio.Event(), asyncio.Event()

    def note_end(self) -> None:
        """Note that a run has ended: its work may have to be pushed."""
        self._ended.set()

    def note_write(self) -> None:
        """Note that another process wrote to the queue: it may want a worktree of this host removed."""
        self._written.set()

    async def serve(self, followers: Mapping[str, Follower]) -> None:
        """Push work, store tails, remove worktrees and answer other hosts until cancelled."""
        pushes = PushQueue(self._context, followers)
        works = {"tails": self._store_tails(followers), "removals": self._remove_wished()}
        beside = [asyncio.create_task(work, name=name) for name, work in works.items()]
        try:
            while True:
                pause = EVERY_SECONDS
                with self._guarded():
                    await self._listen()
                with self._guarded():
                    pause = await pushes.push_due()
                await self._pause(pause)
        finally:
            for each in beside:
                each.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self.address = ""
            end_talks()
            if self._log_server is not None:
                await self._log_server.close()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        self._ended.clear()

    async def _listen(self) -> None:
        store = self._context.store
        place = self._context.settings.host.listen
        if not place or self._log_server is not None:
            return
        server = LogServer(self._context, await store.call(hosts_key, store.ports))
        self.address = await server.open(place)
        self._log_server = server
        log.info("answering other hosts at %s", self.address)

    async def _remove_wished(self) -> None:
        """Remove worktrees that other hosts want removed."""
        while True:
            with self._guarded():
                await self._removals.carry_out()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._written.wait()
                    await asyncio.sleep(HEAR_SECONDS)
            self._written.clear()

    async def _store_tails(self, followers: Mapping[str, Follower]) -> None:
        while True:
            await asyncio.sleep(TAIL_SECONDS)
            with self._guarded():
                await self._tails.store([each.live for each in followers.values() if each.live is not None])

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except StoreAway:
            pass  # the supervisor reports it
        except FleetError as error:
            log.warning("%s", error)
        except Exception:  # a failure in work for other hosts must not end this host's own work
            log.exception("the work for other hosts failed")
