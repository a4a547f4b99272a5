"""Signs of life of one agent, by a clock that nobody can set: what its watchdogs go by."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.watchdog import Facts

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.core.run import Run

#: A tree that waits uses CPU too (claude half a per cent of a core, opencode more than one): this much is work.
WORKING_SHARE = 0.05
#: CPU is told in hundredths of a second: where looks are frequent, one of them is nothing.
LEAST_CPU = 0.05


class Signs:
    """What was seen of an agent, and when; all moments are of the steady clock."""

    def __init__(self, run: Run, now: datetime, age_seconds: float) -> None:
        """Of an agent that is this old; what an earlier supervisor saw of it counts as seen at its start, or now."""
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
        """It printed something, and this is its run after that."""
        self._output = now
        if self._first is None and run.first_event_at is not None:
            self._first = now
        if run.result_at is None:
            self._result = None
        elif self._result is None:
            self._result = now

    def folded(self, run: Run, now: datetime) -> None:
        """Something was learnt of it, and this is its run after that."""
        notes = run.notes
        self._overflows = notes.get("overflows", 0)
        if "limit" not in notes:
            self._limited = None
        elif self._limited is None:
            self._limited = now

    def silent_seconds(self, now: datetime) -> float:
        """How long it has printed nothing."""
        return (now - self._output).total_seconds()

    def wrote_transcript(self, now: datetime) -> None:
        """The file of its session grew."""
        self._transcript = now

    def used_cpu(self, seconds: float, now: datetime) -> bool:
        """Its whole tree has used so much CPU since it began; whether that is work."""
        works = False
        if self._cpu is not None:
            least = max(LEAST_CPU, WORKING_SHARE * (now - self._looked).total_seconds())
            works = round(seconds - self._cpu, 3) >= least
        if works:
            self._worked = now
        self._cpu, self._looked = seconds, now
        return works

    def has_more_to_read(self, now: datetime) -> None:
        """Its result was not the end: something more was said to it, and the wait for its end begins anew."""
        if self._result is not None:
            self._result = now

    def waited(self, seconds: float, ago: float, now: datetime) -> None:
        """It has waited so long for people in all, until so long ago: none of that counts against it."""
        self._waited = timedelta(seconds=seconds)
        self._worked = max(self._worked, now - timedelta(seconds=ago))

    def rested(self, seconds: float, now: datetime) -> None:
        """It has stood still for so long until a moment ago: as if that time had not been."""
        span = timedelta(seconds=seconds)
        self._began, self._output, self._worked, self._looked = (
            min(now, moment + span) for moment in (self._began, self._output, self._worked, self._looked)
        )
        self._first, self._result, self._limited, self._transcript = (
            moment and min(now, moment + span)
            for moment in (self._first, self._result, self._limited, self._transcript)
        )

    def facts(self, run: Run, context: int | None, window: int | None) -> Facts:
        """For the watchdogs."""
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
