"""The status of a task, derived from its records: its phase, its result, and the reason. Pure functions.

A phase is one of a few words for scripts. A result is the word for people: results differ when the facts differ.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fleet.core.finding import NEEDS_PERSON, Finding
from fleet.core.record import Record
from fleet.core.run import BY_TOOL, Delivery
from fleet.core.task import INTERACTIVE, MERGED, Status
from fleet.core.workflow import BY_HAND, was_stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.core.run import Question, Run
    from fleet.core.task import Task


class TaskPhase:
    """The words for the phase of a task."""

    QUEUED = "queued"
    STARTING = "starting"
    WORKING = "working"
    WAITING = "waiting for you"
    IDLE = "idle"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


class ResultWord:
    """The words for the result of a task. The result of a running task is its phase."""

    READY = "ready"
    PUT_OFF = "put off"
    DEPENDENT = "waiting for dependencies"
    SET_ASIDE = "set aside"
    HELD = "held by a person"
    PARKED = "parked"
    NO_SUPERVISOR = "no supervisor"
    BLOCKED = "blocked"
    STOPPED = "stopped by you"
    CUT_SHORT = "stopped with its workflow"
    DONE = "done"  # closed, and no run of it was judged
    MERGED = "merged"
    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    TESTS_FAILED = "tests failed"
    UNCHANGED = "changed nothing"
    FALSE_CLAIM = "claimed work not found"
    OUT_OF_SCOPE = "out of scope"
    INCOMPLETE = "not finished"
    INTERRUPTED = "interrupted"


BY_FINDING = {
    "": ResultWord.DONE,
    Finding.VERIFIED: ResultWord.VERIFIED,
    Finding.UNVERIFIED: ResultWord.UNVERIFIED,
    Finding.NO_CHANGES: ResultWord.UNCHANGED,
    Finding.FAILED_VERIFY: ResultWord.TESTS_FAILED,
    Finding.INCOMPLETE: ResultWord.INCOMPLETE,
    Finding.FABRICATED: ResultWord.FALSE_CLAIM,
    Finding.OUT_OF_SCOPE: ResultWord.OUT_OF_SCOPE,
    Finding.INFRA_ERROR: ResultWord.INTERRUPTED,
}
#: What a terminal shows: a choice to make, an empty input, or an agent at work.
QUESTION, READY, BUSY = "question", "ready", "busy"
#: An agent that printed nothing for this long and uses no CPU is idle.
IDLE_SECONDS = 60.0
AT_REST_PCT = 2.0
#: The time in a merge note has whole seconds.
_SECOND = timedelta(seconds=1)


class TaskStatus(Record):
    """The status of a task: one word for scripts, one for people, and the reason."""

    phase: str
    result: str
    why: str = ""


def derive_status(
    task: Task,
    run: Run | None,
    now: datetime,
    *,
    asks: bool = False,
    prompt: str = "",
    is_lost: bool = False,
    held_up: str = "",
) -> TaskStatus:
    """Return the status of a task whose last run is `run`.

    `asks`: a question of the task is unanswered. `prompt`: the state of an unread prompt. `is_lost`: the run is
    recorded as live, but its processes are gone. `held_up`: why a ready task does not start, PARKED or NO_SUPERVISOR.
    """
    if run is not None and run.is_live:
        return _derive_live(task, run, now, asks, prompt, is_lost)
    if task.is_supervised:
        is_served = held_up != ResultWord.NO_SUPERVISOR
        return TaskStatus(phase=TaskPhase.STARTING, result=TaskPhase.STARTING if is_served else held_up)
    match task.status:
        case Status.CLOSED:
            return _derive_closed(task, run)
        case Status.IN_PROGRESS | Status.HOOKED:
            return TaskStatus(phase=TaskPhase.STARTING, result=ResultWord.HELD, why=task.assignee or task.claim_owner)
        case Status.BLOCKED:
            return _derive_blocked(task, asks)
    return TaskStatus(
        phase=TaskPhase.QUEUED, result=_find_wait_reason(task, now) or held_up or ResultWord.READY, why=task.reason
    )


def is_asked(question: Question, task: Task) -> bool:
    """Return True if a person should answer a question: its task waits for the answer and was not stopped."""
    if question.answered_at is not None or task.status == Status.CLOSED:
        return False
    if task.status == Status.BLOCKED:
        return not was_stopped(task)
    return question.source == BY_TOOL


def blocking_finding(task: Task) -> str:
    """Return the finding for which a person must judge a blocked task, or "" if it is blocked for another reason.

    The reason decides: a task has a finding too if its agent could not continue, or if a user blocked it.
    """
    said = (finding for finding, words in NEEDS_PERSON.items() if task.reason.startswith(words))
    return next(said, "") if task.status == Status.BLOCKED else ""


def is_merged(task: Task, run: Run | None) -> bool:
    """Return True if the work of a closed task was merged and no run has worked on it since."""
    told = task.metadata.get(MERGED)
    if task.status != Status.CLOSED or not isinstance(told, dict):
        return False
    try:
        return run is None or run.started_at < datetime.fromisoformat(told["at"]) + _SECOND
    except (KeyError, TypeError, ValueError):  # people can write metadata too
        return True


def _derive_live(task: Task, run: Run, now: datetime, asks: bool, prompt: str, is_lost: bool) -> TaskStatus:
    phase = TaskPhase.WAITING if asks else _at_work(task, run, now, prompt)
    return TaskStatus(phase=phase, result=ResultWord.NO_SUPERVISOR if is_lost else phase)


def _at_work(task: Task, run: Run, now: datetime, prompt: str) -> str:
    if run.screen == QUESTION:
        return TaskPhase.WAITING
    if prompt and (prompt == Delivery.QUEUED or run.screen != BUSY):
        return TaskPhase.STARTING
    if run.first_event_at is None and not run.screen:
        return TaskPhase.STARTING
    if task.mode == INTERACTIVE and (run.result_at is not None or _shows_ready(run)):
        return TaskPhase.IDLE
    quiet = (now - (run.last_event_at or run.started_at)).total_seconds()
    at_rest = run.cpu_pct is not None and run.cpu_pct < AT_REST_PCT
    return TaskPhase.IDLE if quiet >= IDLE_SECONDS and at_rest else TaskPhase.WORKING


def _shows_ready(run: Run) -> bool:
    """Return True if the screen waited for a message at the last sample and nothing was printed since."""
    return (
        run.screen == READY
        and run.sampled_at is not None
        and (run.last_event_at is None or run.sampled_at > run.last_event_at)
    )


def _derive_closed(task: Task, run: Run | None) -> TaskStatus:
    result = BY_FINDING.get(task.finding, ResultWord.DONE)
    if result in (ResultWord.VERIFIED, ResultWord.UNVERIFIED, ResultWord.DONE) and is_merged(task, run):
        result = ResultWord.MERGED
    return TaskStatus(phase=TaskPhase.FINISHED, result=result, why=task.close_reason)


def _derive_blocked(task: Task, asks: bool) -> TaskStatus:
    if was_stopped(task):
        by_hand = task.reason.startswith(BY_HAND)
        result = ResultWord.STOPPED if by_hand else ResultWord.CUT_SHORT
        return TaskStatus(phase=TaskPhase.STOPPED if by_hand else TaskPhase.FAILED, result=result, why=task.reason)
    if asks:
        return TaskStatus(phase=TaskPhase.WAITING, result=TaskPhase.WAITING, why=task.reason)
    finding = blocking_finding(task)
    if not finding or finding != task.finding:
        return TaskStatus(phase=TaskPhase.FAILED, result=ResultWord.BLOCKED, why=task.reason)
    why = task.reason.removeprefix(NEEDS_PERSON[finding]).partition(": ")[2]
    return TaskStatus(phase=TaskPhase.FAILED, result=BY_FINDING[finding], why=why)


def _find_wait_reason(task: Task, now: datetime) -> str:
    """Return why a waiting task is not ready, or "" if it is."""
    if task.status not in (Status.OPEN, Status.DEFERRED):
        return ResultWord.SET_ASIDE
    if task.is_blocked:
        return ResultWord.DEPENDENT
    is_early = task.defer_until is not None and task.defer_until > now
    return ResultWord.PUT_OFF if is_early or not task.can_start(now) else ""
