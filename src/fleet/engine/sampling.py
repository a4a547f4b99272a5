"""Samples of an active agent for `fleet list`: CPU, memory, screen, and size of its work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.coders.base import Coder
    from fleet.core.run import Run
    from fleet.engine.context import Context
    from fleet.engine.work import Work
    from fleet.launchers.base import Agent, Terminal

log = logging.getLogger(__name__)

#: How often to look at a screen with new output: the agent may ask the user something.
SCREEN = timedelta(seconds=3)
#: The interval between samples, and the delay of the first, when many agents may be starting with nothing to show.
EVERY, FIRST = timedelta(seconds=10), timedelta(seconds=1)
ANSWER_SECONDS = 5.0
#: Processes that use less of a core than this are idle, and their last sample stays valid.
AT_REST_PCT = 1.0


class Sampler:
    """Samples of one agent, taken at most every ten seconds and only while it is active."""

    def __init__(self, context: Context, coder: Coder, work: Work | None, log_of_terminal: str) -> None:
        self._context, self._coder = context, coder
        self._work = work
        self._log, self._drawn = log_of_terminal, -1
        self._screen_due = context.steady()
        self._due = context.steady() + FIRST
        self._cpu: tuple[datetime, float] | None = None
        self._news = True

    def has_news(self) -> None:
        """Note that the agent did something."""
        self._news = True

    async def look(self, run: Run, agent: Agent, terminal: Terminal | None) -> Run:
        """Return the run with a new sample if one is due. Return the run unchanged otherwise."""
        now = self._context.steady()
        if terminal is not None and now >= self._screen_due and self._drew_something():
            self._screen_due = now + SCREEN
            run = await self._screen(run, terminal)
        if not self._news or now < self._due:
            return run
        self._due = now + EVERY
        run, share = await self._usage(run, agent, now)
        self._news = share is None or share > AT_REST_PCT
        if self._work is not None:
            run = await self._size(run, self._work)
        return run.replace(sampled_at=self._context.now())

    async def _usage(self, run: Run, agent: Agent, now: datetime) -> tuple[Run, float | None]:
        """Return the run with the usage of its processes, and the share of a core since the last sample or None."""
        try:
            usage = await asyncio.wait_for(agent.usage(), ANSWER_SECONDS)
        except (FleetError, OSError, TimeoutError):
            return run, None
        before, self._cpu = self._cpu, (now, usage.cpu_seconds)
        if before is None:
            return run.replace(rss_kb=usage.rss_kb), None
        share = 100 * max(0.0, usage.cpu_seconds - before[1]) / (now - before[0]).total_seconds()
        return run.replace(rss_kb=usage.rss_kb, cpu_pct=round(share, 1)), share

    def _drew_something(self) -> bool:
        """Return True if the log of the terminal has grown since the last look."""
        with contextlib.suppress(OSError):
            size = os.stat(self._log).st_size  # noqa: PTH116
            drew, self._drawn = size != self._drawn, size
            return drew
        return False

    async def _screen(self, run: Run, terminal: Terminal) -> Run:
        with contextlib.suppress(FleetError, OSError, TimeoutError):
            shown = await asyncio.wait_for(terminal.screen(), ANSWER_SECONDS)
            return run.replace(screen=self._coder.look(shown))
        return run

    async def _size(self, run: Run, work: Work) -> Run:
        try:
            size = await asyncio.to_thread(work.size)
        except (FleetError, OSError) as error:
            log.debug("no diff of %s: %s", run.id, error)
            return run
        return run.replace(diff_files=size.files, diff_added=size.added, diff_removed=size.removed)
