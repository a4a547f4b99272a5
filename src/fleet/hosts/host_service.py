"""Work of a host for other hosts while its supervisor runs: push, store tails, remove worktrees, serve events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, StoreAway
from fleet.hosts import tails
from fleet.hosts.log_protocol import hosts_key
from fleet.hosts.log_server import LogServer
from fleet.hosts.push import EVERY_SECONDS, PushQueue
from fleet.hosts.removals import WishedRemovals
from fleet.workspaces.remote import end_talks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.engine.context import Context
    from fleet.hosts.cluster import Follower

log = logging.getLogger(__name__)

#: How often to look for removals that other hosts want, and the delay after another process wrote to the queue.
LOOK_SECONDS, HEAR_SECONDS = 60.0, 5.0


class HostService:
    """The loops that work for other hosts beside the supervisor until they are cancelled."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.address = ""  # where other hosts can ask this host; empty if they cannot
        self._tails, self._removals = tails.EventTails(context), WishedRemovals(context)
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
        log.info("other hosts are answered at %s", self.address)

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
            await asyncio.sleep(tails.EVERY_SECONDS)
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
            log.exception("working for other hosts failed")
