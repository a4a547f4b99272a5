"""What becomes of a task after a run: every way back to the queue is counted and bounded, so nothing loops for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.core.run import Ending
from fleet.core.task import INTERACTIVE, Status, Verdict

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.config.sections import Limits
    from fleet.core.run import Outcome
    from fleet.core.task import Task

UNVERIFIED = "unverified"

BACKOFF_BASE, BACKOFF_CAP = timedelta(seconds=5), timedelta(seconds=300)

# `Task.restarts` holds three counts, a thousand apart; the settings keep each of them below that.
FRESH_START, LOSS, WAIT = 1, 1_000, 1_000_000


class Counts(Record):
    """How often a task came back, and why."""

    failures: int
    continues: int
    fresh_starts: int  # after a full context
    losses: int  # its agent vanished
    waits: int  # for the limits of an account

    @classmethod
    def of(cls, task: Task) -> Counts:
        """The counts that a task carries."""
        rest, fresh_starts = divmod(task.restarts, LOSS)
        waits, losses = divmod(rest, WAIT // LOSS)
        return cls(
            failures=task.failures, continues=task.continues, fresh_starts=fresh_starts, losses=losses, waits=waits
        )


def decide(task: Task, outcome: Outcome, *, now: datetime, limits: Limits, jitter: float) -> Verdict:
    """Where a task goes after a run; `jitter` is a random number from 0 to 1."""
    verdict = _decide(task, outcome, now, limits, jitter)
    if task.mode == INTERACTIVE and verdict.status == Status.OPEN and outcome.ending != Ending.RELEASED:
        # A person was at the keyboard: nothing is typed into a new session behind their back.
        return verdict.replace(status=Status.BLOCKED)
    return verdict


def bound(limits: Limits) -> int:
    """How many runs a task can have at most until a person has to do something."""
    back = limits.continue_limit + limits.context_limit + limits.lost_limit + limits.limit_waits
    return limits.retry_limit + back


def backoff(failures: int, jitter: float) -> timedelta:
    """The pause after so many earlier failures: anywhere from nothing to a growing, capped most."""
    return min(BACKOFF_CAP, BACKOFF_BASE * (1 << min(failures, 16))) * jitter


def _decide(task: Task, outcome: Outcome, now: datetime, limits: Limits, jitter: float) -> Verdict:
    counts, reason = Counts.of(task), outcome.reason or outcome.ending
    match outcome.ending:
        case Ending.FINISHED:
            return _finished(task, reason)
        case Ending.HUNG_AFTER_RESULT:
            did_something = outcome.handed_in or outcome.tool_calls
            return _finished(task, reason) if did_something else _incomplete(counts, reason, limits)
        case Ending.INCOMPLETE:
            return _incomplete(counts, reason, limits)
        case Ending.FAILED | Ending.TIMED_OUT | Ending.STALLED | Ending.START_HANG:
            return _failed(counts, reason, now + backoff(counts.failures, jitter), limits)
        case Ending.OVER_BUDGET:
            return Verdict(status=Status.BLOCKED, reason=reason, failures=1)
        case Ending.BLOCKED:
            return Verdict(status=Status.BLOCKED, reason=reason)
        case Ending.INTERRUPTED:
            return Verdict(status=Status.BLOCKED, reason=f"{reason}; `fleet prompt` tells it what to do")
        case Ending.CANCELLED:
            return Verdict(status=Status.BLOCKED, reason=_stopped_by_hand(reason))
        case _:
            return _no_failure(counts, outcome.ending, reason, limits)


def _no_failure(counts: Counts, ending: str, reason: str, limits: Limits) -> Verdict:
    match ending:
        case Ending.RATE_LIMITED | Ending.OVERLOADED | Ending.NOT_LOGGED_IN:
            # The account is parked, not the task: another account may take it at once.
            said = f"waited for account limits {_times(counts.waits)}"
            return _again(counts.waits, limits.limit_waits, said, reason).replace(restarts=WAIT)
        case Ending.CONTEXT_FULL:
            said = f"started afresh {_times(counts.fresh_starts)}, and its context is full again"
            return _again(counts.fresh_starts, limits.context_limit, said, reason).replace(restarts=FRESH_START)
        case Ending.LOST:
            said = f"its agent vanished {_times(counts.losses + 1)}"
            return _again(counts.losses, limits.lost_limit, said, reason).replace(restarts=LOSS)
        case Ending.RELEASED:
            return Verdict(status=Status.OPEN, reason=reason)
        case unknown:
            raise ValueError(f"no rule for a run that ended {unknown!r}")


def _finished(task: Task, reason: str) -> Verdict:
    return Verdict(status=Status.CLOSED, reason=task.hand_in_reason or reason, finding=UNVERIFIED)


def _incomplete(counts: Counts, reason: str, limits: Limits) -> Verdict:
    said = f"asked to go on {_times(counts.continues)}, and not finished"
    return _again(counts.continues, limits.continue_limit, said, reason).replace(continues=1)


def _failed(counts: Counts, reason: str, again_at: datetime, limits: Limits) -> Verdict:
    failures = counts.failures + 1
    if failures >= limits.retry_limit:
        return Verdict(status=Status.BLOCKED, reason=f"failed {_times(failures)}; the last time: {reason}", failures=1)
    return Verdict(status=Status.OPEN, reason=reason, not_before=again_at, failures=1)


def _again(before: int, limit: int, said: str, reason: str) -> Verdict:
    """Open again while the count is below its limit, else blocked with both reasons."""
    if before < limit:
        return Verdict(status=Status.OPEN, reason=reason)
    return Verdict(status=Status.BLOCKED, reason=f"{said}; the last time: {reason}")


def _stopped_by_hand(reason: str) -> str:
    said = "stopped by hand"
    return said if reason in (Ending.CANCELLED, said) else reason if reason.startswith(said) else f"{said}: {reason}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
