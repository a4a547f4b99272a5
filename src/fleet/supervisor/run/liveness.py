"""Signs of life of an agent, by a clock that cannot be set. Watchdogs use them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.watchdog import Facts

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.agents.base import Agent, AgentTerminal
    from fleet.coders.base import Coder
    from fleet.core.run import Run
    from fleet.supervisor.context import Context
    from fleet.supervisor.run.work import Work


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

    async def look(self, run: Run, agent: Agent, terminal: AgentTerminal | None) -> Run:
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

    async def _screen(self, run: Run, terminal: AgentTerminal) -> Run:
        with contextlib.suppress(FleetError, OSError, TimeoutError):
            shown = await asyncio.wait_for(terminal.screen(), ANSWER_SECONDS)
            return run.replace(screen=self._coder.look(shown))
        return run

    async def _size(self, run: Run, work: Work) -> Run:
        try:
            size = await asyncio.to_thread(work.size)
        except (FleetError, OSError) as error:
            log.debug("cannot compute the diff of %s: %s", run.id, error)
            return run
        return run.replace(diff_files=size.files, diff_added=size.added, diff_removed=size.removed)


#: Share of a core that counts as work. Waiting processes use CPU too: claude half a percent, opencode over one percent.
WORKING_SHARE = 0.05
#: Minimum CPU seconds that count. CPU is reported in hundredths of a second: with frequent looks one means nothing.
LEAST_CPU = 0.05


class Liveness:
    """What was seen of an agent, and when. All times are of the steady clock."""

    def __init__(self, run: Run, now: datetime, age_seconds: float) -> None:
        """Start with an agent of this age.

        Signs that an earlier supervisor saw count from the agent's start, or from now.
        """
        self._began = now - timedelta(seconds=max(0.0, age_seconds))
        self._first = self._began if run.first_event_at is not None else None
        self._output = now if run.last_event_at is not None else self._began
        self._result = now if run.result_at is not None else None
        self._limited: datetime | None = None
        self._overflows = 0
        self.folded(run, now)
        self._transcript: datetime | None = None
        self._worked = self._looked = now
        self._cpu: float | None = None
        self._waited = timedelta()

    def printed(self, run: Run, now: datetime) -> None:
        """Note that the agent printed something. `run` is its run after that."""
        self._output = now
        if self._first is None and run.first_event_at is not None:
            self._first = now
        if run.result_at is None:
            self._result = None
        elif self._result is None:
            self._result = now

    def folded(self, run: Run, now: datetime) -> None:
        """Note that events were folded. `run` is the run after that."""
        notes = run.notes
        self._overflows = notes.get("overflows", 0)
        if "limit" not in notes:
            self._limited = None
        elif self._limited is None:
            self._limited = now

    def silent_seconds(self, now: datetime) -> float:
        """Return how long the agent has printed nothing."""
        return (now - self._output).total_seconds()

    def wrote_transcript(self, now: datetime) -> None:
        """Note that the file of its session grew."""
        self._transcript = now

    def used_cpu(self, seconds: float, now: datetime) -> bool:
        """Note how much CPU all processes of the agent have used in total.

        Return True if the increase counts as work.
        """
        works = False
        if self._cpu is not None:
            least = max(LEAST_CPU, WORKING_SHARE * (now - self._looked).total_seconds())
            works = round(seconds - self._cpu, 3) >= least
        if works:
            self._worked = now
        self._cpu, self._looked = seconds, now
        return works

    def has_more_to_read(self, now: datetime) -> None:
        """Restart the wait for the end, because the agent got another message after its result."""
        if self._result is not None:
            self._result = now

    def waited(self, seconds: float, ago: float, now: datetime) -> None:
        """Note how long the agent waited for users in total, and how long ago the last wait ended.

        That time does not count.
        """
        self._waited = timedelta(seconds=seconds)
        self._worked = max(self._worked, now - timedelta(seconds=ago))

    def rested(self, seconds: float, now: datetime) -> None:
        """Move all times forward by how long the agent was frozen, so that the time does not count."""
        span = timedelta(seconds=seconds)
        self._began, self._output, self._worked, self._looked = (
            min(now, moment + span) for moment in (self._began, self._output, self._worked, self._looked)
        )
        self._first, self._result, self._limited, self._transcript = (
            moment and min(now, moment + span)
            for moment in (self._first, self._result, self._limited, self._transcript)
        )

    def facts(self, run: Run, context: int | None, window: int | None) -> Facts:
        """Return the facts for the watchdogs."""
        return Facts(
            started_at=self._began + self._waited,
            first_event_at=self._first,
            last_output_at=self._output,
            last_transcript_at=self._transcript,
            last_cpu_at=self._worked,
            limited_at=self._limited,
            result_at=self._result,
            tokens=run.tokens,
            cost_usd=run.cost_usd,
            context=context,
            window=window,
            overflows=self._overflows,
        )
