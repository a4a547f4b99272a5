"""What `fleet list` shows of a live agent, looked at while it is active: CPU, memory, screen, how large its work is."""

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

#: A screen that shows something new is looked at so often: somebody may be asked something.
SCREEN = timedelta(seconds=3)
#: No agent is looked at more often; nor in its first moments, when many may be starting and nothing is there to see.
EVERY, FIRST = timedelta(seconds=10), timedelta(seconds=1)
ANSWER_SECONDS = 5.0
#: A tree that uses less of a core than this is at rest, and its last sample stays true.
AT_REST_PCT = 1.0


class Sampler:
    """Looks at one agent, at most every ten seconds and only while something happens."""

    def __init__(self, context: Context, coder: Coder, work: Work | None, log_of_terminal: str) -> None:
        self._context, self._coder = context, coder
        self._work = work
        self._log, self._drawn = log_of_terminal, -1
        self._screen_due = context.steady()
        self._due = context.steady() + FIRST
        self._cpu: tuple[datetime, float] | None = None
        self._news = True

    def has_news(self) -> None:
        """The agent did something."""
        self._news = True

    async def look(self, run: Run, agent: Agent, terminal: Terminal | None) -> Run:
        """The run with a new sample, if one is due; else the same."""
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
        """What its tree uses, and the share of a core since the last look, where there was one."""
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
        """Whether its terminal shows something new: the log of the terminal grew since the last look."""
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
