"""What a host does for others that share its queue: sends work on, removes and keeps what they want, answers them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, StoreAway
from fleet.engine.departing import Departures
from fleet.engine.desk import Desk
from fleet.engine.host_wire import hosts_key
from fleet.engine.returning import EVERY_SECONDS, Returns, Tails
from fleet.workspaces.remote import end_talks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.engine.office import Office
    from fleet.engine.runner import Runner

log = logging.getLogger(__name__)

#: How often it is looked whether others want something removed; where something is written, after so long already.
LOOK_SECONDS, HEAR_SECONDS = 60.0, 5.0


class Away:
    """Works beside the supervisor until it is cancelled; where no other host uses the queue there is nothing to do."""

    def __init__(self, office: Office, runners: Mapping[str, Runner]) -> None:
        self._office, self._runners = office, runners
        self._tails, self._returns = Tails(office), Returns(office, runners)
        self._departures = Departures(office)
        self._desk: Desk | None = None
        self._stirred, self._heard = asyncio.Event(), asyncio.Event()

    def stir(self) -> None:
        """A run has ended: there may be something to send on."""
        self._stirred.set()

    def hear(self) -> None:
        """Somebody wrote something: it may be for us to do."""
        self._heard.set()

    async def serve(self) -> None:
        """Do it until cancelled."""
        if not self._office.store.is_shared:
            return
        works = {"tails": self._keep_tails(), "departures": self._see_off()}
        beside = [asyncio.create_task(work, name=name) for name, work in works.items()]
        try:
            while True:
                pause = EVERY_SECONDS
                with self._guarded():
                    await self._listen()
                with self._guarded():
                    pause = await self._returns.look()
                await self._pause(pause)
        finally:
            for each in beside:
                each.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self._office.address = ""
            end_talks()
            if self._desk is not None:
                await self._desk.close()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        self._stirred.clear()

    async def _listen(self) -> None:
        place = self._office.settings.host.listen
        if not place or self._desk is not None:
            return
        desk = Desk(self._office, await self._office.ask(hosts_key, self._office.store))
        self._office.address = await desk.open(place)
        self._desk = desk
        log.info("other hosts are answered at %s", self._office.address)

    async def _see_off(self) -> None:
        """Remove what others want gone."""
        while True:
            with self._guarded():
                await self._departures.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._heard.wait()
                    await asyncio.sleep(HEAR_SECONDS)
            self._heard.clear()

    async def _keep_tails(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            with self._guarded():
                await self._tails.keep([each.live for each in self._runners.values() if each.live is not None])

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except StoreAway:
            pass  # the supervisor tells it
        except FleetError as error:
            log.warning("%s", error)
        except Exception:  # what is done for others must not end what is done here
            log.exception("working for other hosts failed")
