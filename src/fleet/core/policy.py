"""The policy for tasks after a run. Each way back to the queue is counted and limited, so no task loops forever."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.finding import DONE, NEEDS_PERSON, Finding
from fleet.core.record import Record
from fleet.core.rules import Rules
from fleet.core.run import Ending
from fleet.core.task import INTERACTIVE, Status, Verdict
from fleet.core.workflow import CUT_SHORT

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Protocol

    from fleet.core.run import Outcome
    from fleet.core.task import Task

    class RetryLimits(Protocol):
        """The settings for how often a task may come back."""

        @property
        def retry_limit(self) -> int: ...
        @property
        def continue_limit(self) -> int: ...
        @property
        def context_limit(self) -> int: ...
        @property
        def lost_limit(self) -> int: ...
        @property
        def limit_waits(self) -> int: ...

    class FindingRules(Protocol):
        """The settings for what follows from a finding. The other findings have settings of the same name."""

        @property
        def verify_retries(self) -> int: ...
        @property
        def fabricated_retries(self) -> int: ...
        @property
        def out_of_scope(self) -> str: ...


BACKOFF_BASE, BACKOFF_CAP = timedelta(seconds=5), timedelta(seconds=300)

#: For tasks without rules.
RULES = Rules()
PERSON = "person"


class EffectiveLimits(Record):
    """Limits for how often one task may come back, from the settings and the task's own rules."""

    retry_limit: int
    continue_limit: int
    context_limit: int
    lost_limit: int
    limit_waits: int


def decide(
    task: Task,
    outcome: Outcome,
    *,
    now: datetime,
    limits: RetryLimits,
    jitter: float,
    findings: FindingRules,
    rules: Rules = RULES,
) -> Verdict:
    """Return where a task goes after a run. `jitter` is a random number from 0 to 1."""
    if outcome.ending in DONE:
        verdict = _judge_done(task, outcome, limits, findings, rules)
    else:
        verdict = _decide(task, outcome, now, bounds_for(limits, rules, outcome.ending), jitter)
        verdict = _defer_task(verdict, task, rules, now)
        if outcome.finding == Finding.OUT_OF_SCOPE and findings.out_of_scope == PERSON:
            verdict = _block_stray(outcome, verdict)
    verdict = verdict.replace(finding=outcome.finding or verdict.finding)
    if task.mode == INTERACTIVE and verdict.status == Status.OPEN and outcome.ending != Ending.RELEASED:
        # A person was at the keyboard, so fleet types nothing into a new session without their consent.
        return verdict.replace(status=Status.BLOCKED)
    return verdict


def bounds_for(limits: RetryLimits, rules: Rules, ending: str) -> EffectiveLimits:
    """Return the bounds of a task with these rules. After a silence, the rules may set another bound."""
    again = rules.retries
    if ending in (Ending.STALLED, Ending.START_HANG) and rules.stale_restarts is not None:
        again = rules.stale_restarts
    return EffectiveLimits(
        retry_limit=limits.retry_limit if again is None else again + 1,
        continue_limit=limits.continue_limit,
        context_limit=limits.context_limit,
        lost_limit=limits.lost_limit,
        limit_waits=limits.limit_waits if rules.rate_limit_retries is None else rules.rate_limit_retries,
    )


def _defer_task(verdict: Verdict, task: Task, rules: Rules, now: datetime) -> Verdict:
    """Return the verdict with the wait that the task's rules set for limits.

    Each wait is twice the previous one, up to a maximum.
    """
    base = rules.rate_limit_base_seconds
    if base is None or verdict.status != Status.OPEN or not verdict.waits:
        return verdict
    seconds = base * 2 ** min(task.waits, 16)
    most = rules.rate_limit_max_seconds
    return verdict.replace(not_before=now + timedelta(seconds=seconds if most is None else min(seconds, most)))


def limit_runs(limits: RetryLimits, findings: FindingRules) -> int:
    """Return the maximum number of runs of a task before a person must act."""
    back = limits.continue_limit + limits.context_limit + limits.lost_limit + limits.limit_waits
    return limits.retry_limit + back + findings.verify_retries + findings.fabricated_retries


def backoff(failures: int, jitter: float) -> timedelta:
    """Return the pause after this many failures: a random part of a growing, capped maximum."""
    return min(BACKOFF_CAP, BACKOFF_BASE * (1 << min(failures, 16))) * jitter


def _decide(task: Task, outcome: Outcome, now: datetime, limits: EffectiveLimits, jitter: float) -> Verdict:
    reason = outcome.reason or outcome.ending
    match outcome.ending:
        case Ending.INCOMPLETE:
            return _incomplete(task, reason, limits)
        case Ending.FAILED | Ending.TIMED_OUT | Ending.STALLED | Ending.START_HANG:
            return _count_failure(task, reason, now + backoff(task.failures, jitter), limits)
        case Ending.OVER_BUDGET:
            return Verdict(status=Status.BLOCKED, reason=reason, failures=1)
        case Ending.BLOCKED:
            return Verdict(status=Status.BLOCKED, reason=reason)
        case Ending.INTERRUPTED:
            return Verdict(status=Status.BLOCKED, reason=f"{reason}; run `fleet prompt` to give it instructions")
        case Ending.CANCELLED:
            return Verdict(status=Status.BLOCKED, reason=_block_stopped(reason))
        case _:
            return _no_failure(task, outcome.ending, reason, limits)


def _no_failure(task: Task, ending: str, reason: str, limits: EffectiveLimits) -> Verdict:
    match ending:
        case Ending.RATE_LIMITED | Ending.OVERLOADED | Ending.NOT_LOGGED_IN:
            # The account is parked, not the task, so another account may take the task at once.
            said = f"waited for account limits {_format_times(task.waits)}"
            return _retry_or_block(task.waits, limits.limit_waits, said, reason).replace(waits=1)
        case Ending.CONTEXT_FULL:
            said = f"restarted with a new session {_format_times(task.fresh_starts)}, and its context is full again"
            return _retry_or_block(task.fresh_starts, limits.context_limit, said, reason).replace(fresh_starts=1)
        case Ending.LOST:
            said = f"its agent disappeared {_format_times(task.losses + 1)}"
            return _retry_or_block(task.losses, limits.lost_limit, said, reason).replace(losses=1)
        case Ending.RELEASED:
            return Verdict(status=Status.OPEN, reason=reason)
        case unknown:
            raise ValueError(f"no rule for a run that ended {unknown!r}")


def _judge_done(task: Task, outcome: Outcome, limits: RetryLimits, findings: FindingRules, rules: Rules) -> Verdict:
    """Return the verdict for a run that claims to be done. Its receipt decides."""
    shown = outcome.shown or outcome.reason or outcome.ending
    done = Verdict(
        status=Status.CLOSED,
        reason=task.hand_in_reason or outcome.reason or outcome.ending,
        finding=outcome.finding or Finding.UNVERIFIED,
    )
    if outcome.says_blocked:  # even if it would be closed or continued: another run would meet the same obstacle
        done = done.replace(status=Status.BLOCKED, reason=outcome.says_blocked)
    match done.finding:
        case Finding.VERIFIED:
            return done
        case Finding.INCOMPLETE | Finding.INFRA_ERROR:
            return done if outcome.says_blocked else _incomplete(task, shown, limits)
        case Finding.FAILED_VERIFY if task.disproofs < findings.verify_retries:
            return Verdict(status=Status.OPEN, reason=shown, disproofs=1)
        case Finding.FABRICATED if task.fakes < findings.fabricated_retries:
            return Verdict(status=Status.OPEN, reason=shown, fakes=1)
        case Finding.NO_CHANGES if rules.no_changes is not None:
            return done if rules.no_changes else _for_a_person(done.finding, shown, task)
    # The settings of findings have the names of the findings.
    return done if getattr(findings, done.finding) != PERSON else _for_a_person(done.finding, shown, task)


def _for_a_person(finding: str, shown: str, task: Task) -> Verdict:
    times = {
        Finding.FAILED_VERIFY: f", tried {_format_times(task.disproofs + 1)}",
        Finding.FABRICATED: f", the {_format_ordinal(task.fakes + 1)} time",
    }
    return Verdict(status=Status.BLOCKED, reason=f"{NEEDS_PERSON[finding]}{times.get(finding, '')}: {shown}")


def _block_stray(outcome: Outcome, verdict: Verdict) -> Verdict:
    """Return a verdict that blocks a task that would run again after it touched files outside its scope.

    Also applies to tasks that were given back.
    """
    if verdict.status != Status.OPEN:
        return verdict
    told = f"{NEEDS_PERSON[Finding.OUT_OF_SCOPE]}: {outcome.shown or outcome.reason}"
    return verdict.replace(status=Status.BLOCKED, reason=told, not_before=None)


def _incomplete(task: Task, reason: str, limits: EffectiveLimits | RetryLimits) -> Verdict:
    said = f"continued {_format_times(task.continues)} without finishing"
    return _retry_or_block(task.continues, limits.continue_limit, said, reason).replace(continues=1)


def _count_failure(task: Task, reason: str, again_at: datetime, limits: EffectiveLimits) -> Verdict:
    failures = task.failures + 1
    if failures >= limits.retry_limit:
        return Verdict(status=Status.BLOCKED, reason=f"failed {_format_times(failures)}; last: {reason}", failures=1)
    return Verdict(status=Status.OPEN, reason=reason, not_before=again_at, failures=1)


def _retry_or_block(before: int, limit: int, said: str, reason: str) -> Verdict:
    """Return a verdict that reopens the task, or blocks it with both reasons once the count has reached its limit."""
    if before < limit:
        return Verdict(status=Status.OPEN, reason=reason)
    return Verdict(status=Status.BLOCKED, reason=f"{said}; last: {reason}")


def _block_stopped(reason: str) -> str:
    said = "stopped by hand"
    # A stage that was stopped because another failed was not stopped by a person.
    if reason.startswith((said, CUT_SHORT)):
        return reason
    return said if reason == Ending.CANCELLED else f"{said}: {reason}"


def _format_ordinal(count: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(count, f"{count}th")


def _format_times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
