"""Folding of events into a run, and the outcome of the run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders import a_task
from fleet.core.event import Event, Kind, Limit, Usage
from fleet.core.outcome import Exit, RunObservations, outcome_of
from fleet.core.run import Ending, Outcome, Run
from fleet.core.task import Status
from fleet.supervisor.run.fold import LARGEST, fold, going_on

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def a_run(*events: Event, **changes: Any) -> Run:
    """Return a run after these events."""
    run = Run(id="fleet-a/1", task_id="fleet-a", number=1, epoch=1, owner="host", started_at=NOW, **changes)
    return fold(run, events, NOW)


def seen(*events: Event, exit: Exit | None = Exit(status=0), **facts: Any) -> RunObservations:  # noqa: B008 - frozen
    return RunObservations(run=a_run(*events), **{"task": a_task(), "exit": exit, **facts})


OK = Event(kind=Kind.RESULT, ok=True, text="done")
BAD = Event(kind=Kind.RESULT, ok=False, text="no")
TOOL = Event(kind=Kind.TOOL_USE, tool="Bash")
FULL = Event(kind=Kind.CONTEXT_FULL, text="prompt is too long")
DENIED = Event(kind=Kind.DENIED, tool="Bash")


def limit(kind: str, text: str = "") -> Event:
    return Event(kind=Kind.LIMIT, limit=Limit(kind=kind, text=text))


def test_usage_is_added_replaced_by_totals_or_counted_once_per_message() -> None:
    added = a_run(*[Event(kind=Kind.USAGE, usage=Usage(input=5, output=1))] * 2)
    assert (added.input_tokens, added.output_tokens, added.tokens) == (10, 2, 12)
    total = a_run(*[Event(kind=Kind.USAGE, usage=Usage(input=n, total=True)) for n in (5, 9, 7)])
    assert total.input_tokens == 9
    told_twice = [Event(kind=Kind.USAGE, usage=Usage(input=5, message=name)) for name in ("a", "a", "b")]
    assert a_run(*told_twice).input_tokens == 10
    mixed = [Event(kind=Kind.USAGE, usage=Usage(input=5, message=name)) for name in ("a", "b", "a", "b", "a")]
    assert a_run(*mixed).input_tokens == 10


def test_invalid_counts_are_bounded() -> None:
    assert a_run(Event(kind=Kind.USAGE, usage=Usage(input=10**30, output=-5))).tokens == LARGEST


def test_context_keeps_its_peak_and_sessions_and_tools_are_recorded() -> None:
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
        (seen(OK), Ending.FINISHED),  # its receipt judges the evidence
        (seen(TOOL, OK, dangling="Bash"), Ending.INCOMPLETE),
        (seen(TOOL, OK, dangling="Bash", result_file=True), Ending.FINISHED),
        (seen(TOOL, Event(kind=Kind.RESULT, ok=True, text="API Error: 529 overloaded")), Ending.FAILED),
        (seen(OK, result_file=True), Ending.FINISHED),
        (seen(OK, task=a_task(handed_in_at=NOW)), Ending.FINISHED),
        (seen(TOOL, OK, exit=Exit(status=1)), Ending.FINISHED),
        (seen(TOOL, OK, exit=Exit(status=1), result_needs_exit_0=True), Ending.FAILED),
        (seen(TOOL, OK, exit=Exit(signal=11), result_needs_exit_0=True), Ending.FAILED),
        (seen(TOOL, OK, exit=Exit(status=1), result_needs_exit_0=True, result_file=True), Ending.FINISHED),
        (seen(TOOL, OK, result_needs_exit_0=True), Ending.FINISHED),
        (seen(OK, TOOL), Ending.INCOMPLETE),
        (seen(TOOL, BAD, OK), Ending.FAILED),
        (seen(TOOL, BAD, Event(kind=Kind.SESSION_STARTED), OK), Ending.FINISHED),
        (seen(TOOL, OK, Event(kind=Kind.TEXT, text="and another thing")), Ending.INCOMPLETE),
        (seen(TOOL, OK, Event(kind=Kind.USAGE, usage=Usage(input=1))), Ending.FINISHED),
        (seen(TOOL, FULL, BAD), Ending.CONTEXT_FULL),
        (seen(FULL, TOOL, exit=Exit(status=1)), Ending.FAILED),
        (seen(DENIED, OK), Ending.BLOCKED),
        (seen(DENIED, TOOL, OK, result_file=True), Ending.FINISHED),
        (seen(limit("auth"), BAD, exit=Exit(status=1)), Ending.NOT_LOGGED_IN),
        (seen(limit("overload"), BAD, exit=Exit(status=1)), Ending.OVERLOADED),
        (seen(limit("plan"), BAD, exit=Exit(status=1)), Ending.RATE_LIMITED),
        (seen(limit("plan"), exit=Exit(signal=15)), Ending.RATE_LIMITED),
        (seen(limit("rate"), TOOL, exit=Exit(status=1)), Ending.FAILED),
        (seen(limit("auth"), alarm=Outcome(ending=Ending.RATE_LIMITED), exit=Exit(signal=15)), Ending.NOT_LOGGED_IN),
        (seen(limit("warning"), exit=Exit(status=1)), Ending.FAILED),
        (seen(tells_result=False), Ending.INCOMPLETE),
        (seen(TOOL, tells_result=False), Ending.INCOMPLETE),
        (seen(result_file=True, tells_result=False), Ending.FINISHED),
        (seen(result_file=True, tells_result=False, exit=Exit(status=2)), Ending.FAILED),
        (seen(TOOL, Event(kind=Kind.RESULT, ok=False, text="refused")), Ending.FAILED),
        (seen(TOOL), Ending.INCOMPLETE),
        (seen(TOOL, exit=Exit(status=3)), Ending.FAILED),
        (seen(TOOL, exit=Exit(signal=9)), Ending.FAILED),
        (seen(exit=Exit(error="no such file")), Ending.FAILED),
        (seen(TOOL, exit=None), Ending.LOST),
        (seen(TOOL, OK, asked=("why?",)), Ending.BLOCKED),
        (seen(TOOL, OK, unanswered=("why?",)), Ending.BLOCKED),
        (seen(TOOL, OK, unanswered=("why?",), result_file=True), Ending.FINISHED),
        (seen(TOOL, OK, task=a_task(status=Status.BLOCKED)), Ending.BLOCKED),
        (seen(TOOL, OK, task=a_task(cancel_requested_at=NOW)), Ending.CANCELLED),
        (seen(TOOL, alarm=Outcome(ending=Ending.STALLED, reason="quiet")), Ending.STALLED),
        (
            seen(TOOL, Event(kind=Kind.RESULT, ok=False), alarm=Outcome(ending=Ending.HUNG_AFTER_RESULT)),
            Ending.FAILED,
        ),
        (
            seen(Event(kind=Kind.LIMIT, limit=Limit(kind="rate", resets_at=LATER)), exit=Exit(status=1)),
            "rate_limited",
        ),
        (seen(TOOL, Event(kind=Kind.LIMIT, limit=Limit(kind="rate")), OK), Ending.FINISHED),
    ],
)
def test_ending_follows_from_the_evidence(what: RunObservations, ending: str) -> None:
    assert outcome_of(what).ending == ending
    assert outcome_of(what).reason


def test_tokens_of_a_resumed_session_are_not_counted_twice() -> None:
    def told(tokens: int) -> Event:
        return Event(kind=Kind.USAGE, session="s", usage=Usage(input=tokens, total=True, session=True))

    first = a_run(told(100))
    second = fold(going_on(a_run(), first), [told(130)], NOW)
    third = fold(going_on(a_run(), second), [told(150)], NOW)
    assert [run.input_tokens for run in (first, second, third)] == [100, 30, 20]
    assert third.session == "s"
    of_this_run_alone = Event(kind=Kind.USAGE, usage=Usage(input=7, total=True))
    assert fold(going_on(a_run(), third), [of_this_run_alone], NOW).input_tokens == 7


def test_tool_calls_of_earlier_runs_of_the_session_count() -> None:
    """An agent that was interrupted after its work only needs to report the end."""
    resumed = fold(going_on(a_run(), going_on(a_run(), a_run(TOOL))), [OK], NOW)
    assert outcome_of(RunObservations(run=resumed, task=a_task(), exit=Exit(status=0))).tool_calls == 1
    idle = fold(going_on(a_run(), a_run()), [OK], NOW)
    assert outcome_of(RunObservations(run=idle, task=a_task(), exit=Exit(status=0))).tool_calls == 0


def test_last_text_is_the_last_word_of_a_coder_without_one() -> None:
    def text(words: str, *, delta: bool = True) -> Event:
        return Event(kind=Kind.TEXT, text=words, delta=delta)

    silent = Event(kind=Kind.RESULT, ok=True)
    assert outcome_of(seen(text("I look."), TOOL, text("All "), text("done."), silent)).reason == "All done."
    assert outcome_of(seen(TOOL, text("one"), text("two", delta=False), silent)).reason == "two"
    assert outcome_of(seen(TOOL, text("one"), OK)).reason == "done"


def test_costs_are_reported_as_a_total_or_per_step() -> None:
    steps = [Event(kind=Kind.USAGE, cost_added=cost) for cost in (0.25, 0.5)]
    assert a_run(*steps).cost_usd == 0.75
    assert a_run(Event(kind=Kind.USAGE, cost_usd=0.25), Event(kind=Kind.USAGE, cost_usd=0.5)).cost_usd == 0.5


def test_end_of_a_limit_is_parsed_from_its_text_when_it_is_missing() -> None:
    told = outcome_of(seen(limit("plan", "You've hit your limit · resets 6:42pm (UTC)"), exit=Exit(status=1)))
    assert (told.limit, told.resume_at) == ("plan", NOW.replace(hour=18, minute=42))


def test_events_are_folded_alike_in_any_chunks() -> None:
    events = [
        TOOL,
        limit("rate"),
        Event(kind=Kind.TEXT, text="x", usage=Usage(input=3, message="m")),
        FULL,
        DENIED,
        OK,
    ]
    whole = a_run(*events)
    run = a_run()
    for event in events:
        run = fold(run, [event], NOW)
    assert run == whole


def test_limit_gives_its_end() -> None:
    limited = seen(Event(kind=Kind.LIMIT, limit=Limit(kind="rate", resets_at=LATER)), exit=Exit(status=1))
    assert outcome_of(limited).resume_at == LATER


def test_only_a_last_word_hands_in() -> None:
    told = {"summary": "mended", "status": "completed"}
    by_text, by_result = (Event(kind=kind, ok=True, data={"handed_in": told}) for kind in (Kind.TEXT, Kind.RESULT))
    for last in ([by_text], [by_result], [by_text, OK], [TOOL, by_text, Event(kind=Kind.USAGE), OK]):
        assert a_run(*last).notes["handed_in"] == told
    for after in (TOOL, Event(kind=Kind.TEXT, text="one more thing"), Event(kind=Kind.THINKING)):
        assert "handed_in" not in a_run(by_text, OK, after).notes
    long = Event(kind=Kind.TEXT, data={"handed_in": told | {"summary": "x" * 70_000}})
    assert "handed_in" not in a_run(long).notes
