"""A run being followed: what was read of it so far, and when to look again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.engine import watchdog
from fleet.engine.fold import fold
from fleet.engine.tail import LineReader

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.coders.base import Coder
    from fleet.core.run import Outcome, Run
    from fleet.engine.folder import TaskFolder
    from fleet.engine.office import Office
    from fleet.launchers.base import Agent

log = logging.getLogger(__name__)

LONGEST_PAUSE = 30.0


class Live:
    """The state of one run in this process; the record of it is in the history."""

    def __init__(
        self, office: Office, run: Run, coder: Coder, folder: TaskFolder, limits: watchdog.Watchdog, agent: Agent | None
    ) -> None:
        self._office = office
        self.run = run
        self.coder = coder
        self.folder = folder
        self.agent = agent
        self.place = folder.run_folder(run.number)
        self.dirty = False  # folded further than the history knows
        self._reader = LineReader(f"{self.place}/stdout", run.stdout_offset)
        self._limits = limits
        now = office.now()
        self._last_output_at = run.last_event_at or run.started_at
        self._cpu, self._last_cpu_at = 0.0, now

    def read_some(self) -> bool:
        """Take in a bounded part of what the agent printed; whether there may be more."""
        now = self._office.now()
        lines = self._reader.read()
        if not lines:
            return False
        self._take([line.text for line in lines], now)
        self._last_output_at = now
        self.run = self.run.replace(stdout_offset=self._reader.offset)
        self.dirty = True
        return True

    def read_all(self) -> None:
        """Take in the rest after the end; also what the shim kept beyond its cap."""
        while self.read_some() or self._reader.behind:
            pass
        self._take([line.text for line in self._reader.rest(f"{self.place}/stdout.tail")], self._office.now())
        self.folder.take_stderr(f"{self.place}/stderr", self._office.redactor)

    def _take(self, lines: list[str], now: datetime) -> None:
        events = [event for line in lines for event in self.coder.parse(line)]
        for event in events:
            self.run = fold(self.run, event, now)
        try:
            self.folder.append_events(events, now)
        except OSError as error:  # a full disk costs the readable copy, not the run
            log.warning("events of %s not written: %s", self.run.id, error)

    def alarm(self) -> Outcome | None:
        """Why the agent must be stopped, if it must."""
        return watchdog.check(self._facts(), self._limits, self._office.now())

    async def stir(self, ended: asyncio.Future[Any]) -> None:
        """Wait until the agent says something, ends, or a watchdog wants to look."""
        assert self.agent is not None
        if self._reader.behind:
            await asyncio.sleep(0)  # let the others have a turn, then go on reading
            return
        pause = min(watchdog.next_check(self._facts(), self._limits, self._office.now()), LONGEST_PAUSE)
        stirred = asyncio.ensure_future(self.agent.stirred.wait())
        await asyncio.wait({stirred, ended}, timeout=max(pause, 0.05), return_when=asyncio.FIRST_COMPLETED)
        if stirred.done():
            self.agent.stirred.clear()
        else:
            stirred.cancel()
            await self._look_at_cpu()

    async def _look_at_cpu(self) -> None:
        # Only an agent that has been silent for a while is asked: printing is sign of life enough.
        assert self.agent is not None
        with contextlib.suppress(OSError, TimeoutError):
            used = await asyncio.wait_for(self.agent.cpu_seconds(), 5)
            if used > self._cpu + 0.05:
                self._cpu, self._last_cpu_at = used, self._office.now()

    def _facts(self) -> watchdog.Facts:
        return watchdog.Facts(
            started_at=self.run.started_at,
            first_event_at=self.run.first_event_at,
            last_output_at=self._last_output_at,
            last_cpu_at=self._last_cpu_at,
            result_at=self.run.result_at,
            tokens=self.run.tokens,
            cost_usd=self.run.cost_usd,
            context=self.run.context_peak,
            window=self.run.context_window,
        )
