"""When an agent must be stopped: pure rules about its observed behavior."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.budget import no_price
from fleet.core.record import Record
from fleet.core.run import Ending, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


#: Number of checks during a silence before it counts, because CPU use and transcript must be polled.
LOOKS = 10
MOST_OVERFLOWS = 2
#: After this silence, or the first of these checks, people are shown when the agent will be stopped.
NOTEWORTHY_SECONDS = 60.0


class Facts(Record):
    """The observations of a live agent. None means not seen yet or unknown."""

    started_at: datetime
    first_event_at: datetime | None = None
    last_output_at: datetime | None = None
    last_transcript_at: datetime | None = None
    last_cpu_at: datetime | None = None  # when its process tree last used CPU
    limited_at: datetime | None = None  # since when the model has only refused requests
    result_at: datetime | None = None  # when its result was complete and all input was read
    tokens: int = 0
    cost_usd: float | None = None
    unpriced: str = ""  # a model that it used and whose price is unknown
    context: int | None = None
    window: int | None = None
    overflows: int = 0  # how often its context was too full for a request, without work in between
    interactive: bool = False


class Watchdog(Record):
    """The limits of one run, and the task's own limits that could not be used. A silence of 0 means no limit."""

    first_event_seconds: float
    silence_seconds: float
    wall_seconds: float
    result_grace_seconds: float
    limit_seconds: float
    stop_grace_seconds: float
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    context_pct: int = 100
    ignored: tuple[str, ...] = ()


class Deadline(Record):
    """What happens to a silent agent, and when."""

    at: datetime
    ending: str
    reason: str


def check(facts: Facts, limits: Watchdog, now: datetime) -> Outcome | None:
    """Return the outcome with which the agent must be stopped now, or None."""
    if facts.overflows >= MOST_OVERFLOWS and not facts.interactive:
        # Some coders compact their context and retry, and never notice that it does not help.
        return Outcome(ending=Ending.CONTEXT_FULL, reason="its context overflows repeatedly")
    if _has_result(facts):
        alarms = _overdue(facts, limits, now)
    else:
        alarms = [*_over_budget(facts, limits), *_overdue(facts, limits, now), *_context_full(facts, limits)]
    return alarms[0] if alarms else None


def first_deadline(facts: Facts, limits: Watchdog) -> Deadline | None:
    """Return when the agent will be stopped if nothing is seen of it until then. Return None if it will not."""
    return min(_deadlines(facts, limits), key=lambda deadline: deadline.at, default=None)


def is_noteworthy(facts: Facts, limits: Watchdog, now: datetime) -> bool:
    """Return True if the agent has been silent for so long that people should know when it will be stopped."""
    least = min(NOTEWORTHY_SECONDS, limits.silence_seconds / LOOKS or NOTEWORTHY_SECONDS)
    return (now - (facts.last_output_at or facts.started_at)).total_seconds() >= least


def next_check(facts: Facts, limits: Watchdog, now: datetime) -> float:
    """Return in how many seconds to check again without news. Infinite if only news can change anything."""
    deadlines = [deadline.at for deadline in _deadlines(facts, limits)]
    if not deadlines:
        return math.inf
    looks = [*deadlines, *_next_look(facts, limits, now)]
    return max(0.0, (min(looks) - now).total_seconds())


def _has_result(facts: Facts) -> bool:
    # For an interactive agent, a result only ends one turn.
    return facts.result_at is not None and not facts.interactive


def _over_budget(facts: Facts, limits: Watchdog) -> Iterator[Outcome]:
    if limits.max_tokens is not None and facts.tokens >= limits.max_tokens:
        reason = f"used {facts.tokens} tokens of {limits.max_tokens} allowed"
        yield Outcome(ending=Ending.OVER_BUDGET, reason=reason)
    if limits.max_cost_usd is not None and (facts.cost_usd or 0) >= limits.max_cost_usd:
        reason = f"cost ${facts.cost_usd:.2f} of ${limits.max_cost_usd:.2f} allowed"
        yield Outcome(ending=Ending.OVER_BUDGET, reason=reason)
    if limits.max_cost_usd is not None and facts.unpriced:
        yield Outcome(ending=Ending.OVER_BUDGET, reason=no_price(facts.unpriced))


def _context_full(facts: Facts, limits: Watchdog) -> Iterator[Outcome]:
    if facts.interactive or not facts.context or not facts.window:
        return
    if facts.context * 100 >= facts.window * limits.context_pct:
        reason = f"its context is {facts.context * 100 // facts.window}% full"
        yield Outcome(ending=Ending.CONTEXT_FULL, reason=reason)


def _overdue(facts: Facts, limits: Watchdog, now: datetime) -> list[Outcome]:
    passed = [each for each in _deadlines(facts, limits) if each.at <= now]
    return [Outcome(ending=each.ending, reason=each.reason) for each in passed]


def _deadlines(facts: Facts, limits: Watchdog) -> Iterator[Deadline]:
    if facts.interactive:
        return
    if facts.result_at is not None:
        yield _set_deadline(facts.result_at, limits.result_grace_seconds, Ending.HUNG_AFTER_RESULT, "did not exit {}")
        return
    if facts.limited_at is not None:
        yield _set_deadline(
            facts.limited_at, limits.limit_seconds, Ending.RATE_LIMITED, "the model refused every request for {}"
        )
    yield _set_deadline(facts.started_at, limits.wall_seconds, Ending.TIMED_OUT, "not done after {}")
    if limits.first_event_seconds and not _has_begun(facts):
        yield _set_deadline(
            facts.started_at, limits.first_event_seconds, Ending.START_HANG, "no output in its first {}"
        )
    if limits.silence_seconds:
        yield _set_deadline(
            _quiet_since(facts), limits.silence_seconds, Ending.STALLED, "no output, transcript or CPU use for {}"
        )


def _set_deadline(start: datetime, seconds: float, ending: str, words: str) -> Deadline:
    span = f"{seconds:g} s" + (" after its result" if ending == Ending.HUNG_AFTER_RESULT else "")
    return Deadline(at=start + timedelta(seconds=seconds), ending=ending, reason=words.format(span))


def _has_begun(facts: Facts) -> bool:
    # A resumed session has an old transcript, so only one written by this run counts.
    transcript = facts.last_transcript_at
    return facts.first_event_at is not None or (transcript is not None and transcript > facts.started_at)


def _quiet_since(facts: Facts) -> datetime:
    signs = (facts.first_event_at, facts.last_output_at, facts.last_transcript_at, facts.last_cpu_at)
    return max([facts.started_at, *(sign for sign in signs if sign is not None)])


def _next_look(facts: Facts, limits: Watchdog, now: datetime) -> Iterator[datetime]:
    if facts.result_at is not None or not limits.silence_seconds:
        return
    step = limits.silence_seconds / LOOKS
    quiet = max(0.0, (now - _quiet_since(facts)).total_seconds())
    yield now + timedelta(seconds=step - quiet % step)
