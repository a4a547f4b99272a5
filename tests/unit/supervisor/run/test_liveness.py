"""Signs of life, by a clock that only runs forward."""

from datetime import timedelta
from typing import Any

import pytest

from builders import NOON
from fleet.core.run import Run
from fleet.core.watchdog import Facts
from fleet.supervisor.run.liveness import Liveness

SECOND = timedelta(seconds=1)


def a_run(**said: Any) -> Run:
    return Run(id="t/1", task_id="t", number=1, epoch=1, owner="o", started_at=NOON, **said)


def facts(signs: Liveness, run: Run | None = None) -> Facts:
    return signs.facts(run or a_run(), None, None)


def test_silence_of_a_new_agent_counts_from_its_start() -> None:
    found = facts(Liveness(a_run(), NOON, 0))
    assert (found.started_at, found.first_event_at, found.last_output_at) == (NOON, None, NOON)


def test_adopted_agent_keeps_its_age_and_gets_a_new_silence() -> None:
    signs = Liveness(a_run(first_event_at=NOON, last_event_at=NOON), NOON, 3600)
    found = facts(signs)
    assert found.started_at == NOON - 3600 * SECOND
    assert (found.first_event_at, found.last_output_at) == (NOON - 3600 * SECOND, NOON)


def test_adopted_agent_that_never_spoke_is_judged_by_its_age() -> None:
    found = facts(Liveness(a_run(), NOON, 100))
    assert (found.first_event_at, found.last_output_at) == (None, NOON - 100 * SECOND)


@pytest.mark.parametrize(
    ("used", "after", "working"),
    [(0.5, 90, False), (4.4, 90, False), (4.5, 90, True), (90, 90, True), (0.04, 0.3, False), (0.05, 0.3, True)],
)
def test_cpu_time_counts_as_work_only_above_a_share(used: float, after: float, working: bool) -> None:
    """A waiting program wakes up now and then. This must not keep a dead agent alive forever."""
    signs = Liveness(a_run(), NOON, 0)
    signs.used_cpu(10.0, NOON)
    later = NOON + after * SECOND
    signs.used_cpu(10.0 + used, later)
    assert (facts(signs).last_cpu_at == later) is working


def test_first_cpu_sample_shows_no_work() -> None:
    signs = Liveness(a_run(), NOON, 0)
    signs.used_cpu(1000.0, NOON + SECOND)
    assert facts(signs).last_cpu_at == NOON


def test_small_amounts_of_cpu_time_are_not_summed() -> None:
    signs = Liveness(a_run(), NOON, 0)
    for step in range(1, 100):
        signs.used_cpu(step * 0.25, NOON + step * 10 * SECOND)
    assert facts(signs).last_cpu_at == NOON


def test_result_is_withdrawn_when_the_agent_continues() -> None:
    signs = Liveness(a_run(), NOON, 0)
    done = a_run(first_event_at=NOON, result_at=NOON)
    signs.printed(done, NOON + SECOND)
    signs.printed(done, NOON + 2 * SECOND)
    assert facts(signs).result_at == NOON + SECOND
    signs.has_more_to_read(NOON + 3 * SECOND)
    assert facts(signs).result_at == NOON + 3 * SECOND
    signs.printed(a_run(first_event_at=NOON), NOON + 4 * SECOND)
    assert facts(signs).result_at is None


def test_time_waiting_for_people_does_not_count() -> None:
    signs = Liveness(a_run(), NOON, 0)
    signs.waited(100, ago=10, now=NOON + 150 * SECOND)
    found = facts(signs)
    assert (found.started_at, found.last_cpu_at) == (NOON + 100 * SECOND, NOON + 140 * SECOND)


def test_frozen_time_does_not_count() -> None:
    signs = Liveness(a_run(), NOON, 50)
    signs.printed(a_run(first_event_at=NOON), NOON)
    signs.wrote_transcript(NOON)
    before = facts(signs)
    signs.rested(600, NOON + 610 * SECOND)
    after = facts(signs)
    assert after.started_at == before.started_at + 600 * SECOND
    for name in ("first_event_at", "last_output_at", "last_transcript_at", "last_cpu_at"):
        assert getattr(after, name) == getattr(before, name) + 600 * SECOND, name
    assert (after.result_at, after.limited_at) == (None, None)


def test_pause_does_not_extend_beyond_now() -> None:
    signs = Liveness(a_run(result_at=NOON), NOON, 50)
    signs.rested(10_000, NOON + 5 * SECOND)  # the machine slept, and only one of two clocks counts sleep
    found = facts(signs)
    assert found.started_at == found.result_at == found.last_output_at == NOON + 5 * SECOND
