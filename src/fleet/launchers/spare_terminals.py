"""Keeping spare terminals: as many as were started at once lately, made when nothing else is."""

import asyncio
import logging
import time
from collections import deque

from fleet.core.errors import FleetError
from fleet.launchers.spare_terminal import Server, SpareTerminal, make, sweep
from fleet.launchers.tmux_session import Shape

log = logging.getLogger(__name__)

#: How many are kept at most.
MOST = 25
#: They are made when no terminal was asked for in so many seconds, and go when none was for so long.
QUIET_SECONDS, UNUSED_SECONDS = 1.0, 3600.0


class SpareTerminals:
    """The spare terminals of one launcher. Used from its loop alone, but for the making."""

    def __init__(self, server: Server, place: str) -> None:
        self._server, self.place = server, place
        self.kept: list[SpareTerminal] = []  # ready, the next one to be taken first
        self._burst = 0  # how many were started without a quiet second between them
        self._bursts: deque[tuple[float, int]] = deque(maxlen=1000)  # when such a one ended, and how many it were
        self._later: asyncio.Task[None] | None = None
        self._swept = False

    def take(self, shape: Shape) -> SpareTerminal | None:
        """A spare terminal of this shape, if there is one. Who takes it gives it back; others may be wanted soon."""
        self._burst += 1
        earlier, self._later = self._later, asyncio.create_task(self._keep(shape), name="spare terminals")
        if earlier is not None:
            earlier.cancel()
        for spare in list(self.kept):
            if spare.lives and spare.shape != shape:
                continue
            self.kept.remove(spare)
            if spare.lives:
                return spare
            spare.close()
        return None

    def give_back(self, spare: SpareTerminal) -> None:
        """One that was taken: kept where nothing came of it."""
        if spare.used or not spare.lives:
            spare.close()
        else:
            self.kept.append(spare)

    async def _keep(self, shape: Shape) -> None:
        try:
            await asyncio.sleep(QUIET_SECONDS)
            self._bursts.append((time.monotonic(), self._burst))
            self._burst = 0
            await self._fill(shape)
            await asyncio.sleep(UNUSED_SECONDS)
        finally:
            if self._later is asyncio.current_task():  # nobody follows us: unused, or the end of all
                self._later = None
                self._drop(self.kept)

    async def _fill(self, shape: Shape) -> None:
        """Make as many as are wanted, one after the other; those that nobody wants any more go."""
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(sweep, self._server, self.place)
        self._drop([spare for spare in self.kept if spare.shape != shape or not spare.lives])
        since = time.monotonic() - UNUSED_SECONDS
        wanted = min(MOST, max(count for when, count in self._bursts if when >= since))
        self._drop(self.kept[wanted:])
        try:
            while len(self.kept) < wanted:
                self.kept.append(await self._made(shape))
        except (FleetError, OSError) as error:
            log.warning("no spare terminals: %s", error)

    async def _made(self, shape: Shape) -> SpareTerminal:
        """Made to its end, even if somebody starts an agent meanwhile: the next one has it then."""
        # No task: at the end of the loop those are cancelled, and nobody would close what comes out of it.
        making = asyncio.get_running_loop().run_in_executor(None, make, self._server, self.place, shape)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._came_late)
            raise

    def _came_late(self, making: "asyncio.Future[SpareTerminal]") -> None:
        if making.cancelled() or making.exception() is not None:
            return
        if self._later is None:
            making.result().close()
        else:
            self.kept.append(making.result())

    def _drop(self, spares: list[SpareTerminal]) -> None:
        for spare in list(spares):
            self.kept.remove(spare)
            spare.close()
