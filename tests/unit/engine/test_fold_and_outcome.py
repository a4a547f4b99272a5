"""Folding events into a run, and what the run then amounts to."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders import a_task
from fleet.core.event import Event, Kind, Limit, Usage
from fleet.core.run import Ending, Outcome, Run
from fleet.core.task import Status
from fleet.engine.fold import LARGEST, fold
from fleet.engine.outcome import Seen, outcome_of
from fleet.launchers.base import Exit

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def a_run(*events: Event, **changes: Any) -> Run:
    """A run after these events."""
    run = Run(id="fleet-a/1", task_id="fleet-a", number=1, epoch=1, owner="host", started_at=NOW, **changes)
    for event in events:
        run = fold(run, event, NOW)
    return run


def seen(*events: Event, exit: Exit | None = Exit(status=0), **facts: Any) -> Seen:  # noqa: B008 - frozen
    return Seen(run=a_run(*events), **{"task": a_task(), "exit": exit, **facts})


OK = Event(kind=Kind.RESULT, ok=True, text="done")
TOOL = Event(kind=Kind.TOOL_USE, tool="Bash")


def test_usage_is_added_replaced_by_totals_or_counted_once_per_message() -> None:
    added = a_run(*[Event(kind=Kind.USAGE, usage=Usage(input=5, output=1))] * 2)
    assert (added.input_tokens, added.output_tokens, added.tokens) == (10, 2, 12)
    total = a_run(*[Event(kind=Kind.USAGE, usage=Usage(input=n, total=True)) for n in (5, 9, 7)])
    assert total.input_tokens == 9
    told_twice = [Event(kind=Kind.USAGE, usage=Usage(input=5, message=name)) for name in ("a", "a", "b")]
    assert a_run(*told_twice).input_tokens == 10


def test_counts_that_mean_nothing_are_bounded() -> None:
    assert a_run(Event(kind=Kind.USAGE, usage=Usage(input=10**30, output=-5))).tokens == LARGEST


def test_context_keeps_its_peak_and_sessions_and_tools_are_noted() -> None:
    run = a_run(
        Event(kind=Kind.SESSION_STARTED, session="s"),
        Event(kind=Kind.USAGE, context=90, window=100),
        Event(kind=Kind.USAGE, context=10),
        TOOL,
    )
    assert (run.session, run.context_peak, run.context_window, run.tool_calls, run.events) == ("s", 90, 100, 1, 4)


@pytest.mark.parametrize(
    ("what", "ending"),
    [
        (seen(TOOL, OK), Ending.FINISHED),
        (seen(OK), Ending.INCOMPLETE),
        (seen(OK, result_file=True), Ending.FINISHED),
        (seen(OK, task=a_task(handed_in_at=NOW)), Ending.FINISHED),
        (seen(TOOL, OK, exit=Exit(status=1)), Ending.FINISHED),
        (seen(TOOL, Event(kind=Kind.RESULT, ok=False, text="refused")), Ending.FAILED),
        (seen(TOOL), Ending.INCOMPLETE),
        (seen(TOOL, exit=Exit(status=3)), Ending.FAILED),
        (seen(TOOL, exit=Exit(signal=9)), Ending.FAILED),
        (seen(exit=Exit(error="no such file")), Ending.FAILED),
        (seen(TOOL, exit=None), Ending.LOST),
        (seen(TOOL, OK, asked=True), Ending.BLOCKED),
        (seen(TOOL, OK, task=a_task(status=Status.BLOCKED)), Ending.BLOCKED),
        (seen(TOOL, OK, task=a_task(cancel_requested_at=NOW)), Ending.CANCELLED),
        (seen(TOOL, alarm=Outcome(ending=Ending.STALLED, reason="quiet")), Ending.STALLED),
        (
            seen(TOOL, Event(kind=Kind.RESULT, ok=False), alarm=Outcome(ending=Ending.HUNG_AFTER_RESULT)),
            Ending.FAILED,
        ),
        (seen(Event(kind=Kind.LIMIT, limit=Limit(kind="rate", resets_at=LATER)), exit=Exit(status=1)), "rate_limited"),
        (seen(TOOL, Event(kind=Kind.LIMIT, limit=Limit(kind="rate")), OK), Ending.FINISHED),
    ],
)
def test_an_ending_follows_from_what_was_seen(what: Seen, ending: str) -> None:
    assert outcome_of(what).ending == ending
    assert outcome_of(what).reason


def test_a_limit_says_when_it_ends() -> None:
    limited = seen(Event(kind=Kind.LIMIT, limit=Limit(kind="rate", resets_at=LATER)), exit=Exit(status=1))
    assert outcome_of(limited).resume_at == LATER
