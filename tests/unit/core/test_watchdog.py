"""When and why an agent is stopped, and when the next check is due."""

import math
from datetime import timedelta
from typing import Any

import pytest

from builders import HOUR, NOON, a_task
from fleet.core.run import Ending
from fleet.core.watchdog import Facts, Watchdog, check, next_check
from fleet.settings import Settings
from fleet.settings.limits import watchdog_for
from fleet.settings.load import Origin, SettingsLayer, merge


def settings(**values: Any) -> Settings:
    """Return settings, given by their dotted names with __ for the dot."""
    return merge(
        [SettingsLayer(Origin("runtime", ""), {tuple(name.split("__")): value for name, value in values.items()})]
    )


DEFAULTS = watchdog_for(settings(), a_task())
BUDGET = DEFAULTS.replace(max_tokens=1_000, max_cost_usd=2.0)


def after(seconds: float) -> Any:
    return NOON + timedelta(seconds=seconds)


def facts(**said: Any) -> Facts:
    """Return the facts of an agent that started at noon and spoke after a second. Numbers are seconds after noon."""
    instants = {name: after(value) if name.endswith("_at") else value for name, value in said.items()}
    return Facts(**{"started_at": NOON, "first_event_at": after(1), "last_output_at": after(1), **instants})


SILENT_START = Facts(started_at=NOON)


@pytest.mark.parametrize(
    ("seen", "limits", "seconds", "ending"),
    [
        (SILENT_START, DEFAULTS, 119, None),
        (SILENT_START, DEFAULTS, 120, "start_hang"),
        (SILENT_START.replace(last_output_at=after(5), last_cpu_at=after(100)), DEFAULTS, 120, "start_hang"),
        (SILENT_START.replace(last_transcript_at=after(9)), DEFAULTS, 120, None),
        (SILENT_START.replace(last_transcript_at=after(-9)), DEFAULTS, 120, "start_hang"),
        (facts(), DEFAULTS, 406, None),  # claude is sometimes silent for 405 s while it works
        (facts(), DEFAULTS, 900, None),
        (facts(), DEFAULTS, 901, "stalled"),
        (facts(last_output_at=500), DEFAULTS, 1_399, None),
        (facts(last_output_at=500), DEFAULTS, 1_400, "stalled"),
        (facts(last_transcript_at=500), DEFAULTS, 1_399, None),
        (facts(last_transcript_at=500), DEFAULTS, 1_400, "stalled"),
        (facts(last_cpu_at=500), DEFAULTS, 1_399, None),
        (facts(last_cpu_at=500), DEFAULTS, 1_400, "stalled"),
        (facts(last_output_at=14_399), DEFAULTS, 14_399, None),
        (facts(last_output_at=14_399), DEFAULTS, 14_400, "timed_out"),
        (facts(result_at=50), DEFAULTS, 79, None),
        (facts(result_at=50), DEFAULTS, 80, "hung_after_result"),
        (facts(result_at=50, last_output_at=79, last_cpu_at=79), DEFAULTS, 80, "hung_after_result"),
        (facts(result_at=14_390, last_output_at=14_390), DEFAULTS, 14_410, None),
        (facts(tokens=999, cost_usd=1.99), BUDGET, 9, None),
        (facts(tokens=1_000), BUDGET, 9, "over_budget"),
        (facts(cost_usd=2.0), BUDGET, 9, "over_budget"),
        (facts(tokens=10**9, cost_usd=900.0), DEFAULTS, 9, None),
        (facts(tokens=1_000, result_at=5), BUDGET, 9, None),  # it is done, so stopping it saves nothing
        (facts(context=179_999, window=200_000), DEFAULTS, 9, None),
        (facts(context=180_000, window=200_000), DEFAULTS, 9, "context_full"),
        (facts(context=180_000), DEFAULTS, 9, None),
        (facts(context=199_000, window=200_000, result_at=5), DEFAULTS, 9, None),
        (facts(interactive=True), DEFAULTS, 10**6, None),
        (SILENT_START.replace(interactive=True), DEFAULTS, 10**6, None),
        (facts(interactive=True, result_at=50), DEFAULTS, 10**6, None),
        (facts(interactive=True, context=199_000, window=200_000), DEFAULTS, 9, None),
        (facts(interactive=True, tokens=1_000, result_at=5), BUDGET, 9, "over_budget"),
        (facts(), DEFAULTS, -3_600, None),  # the clock was set back
    ],
)
def test_each_watchdog_has_its_ending(seen: Facts, limits: Watchdog, seconds: float, ending: str | None) -> None:
    alarm = check(seen, limits, after(seconds))
    assert (alarm.ending if alarm else None) == ending
    assert alarm is None or alarm.reason


@pytest.mark.parametrize(
    ("seen", "seconds", "reason"),
    [
        (SILENT_START, 120, "no output in its first 120 s"),
        (facts(), 901, "no output, transcript or CPU use for 900 s"),
        (facts(result_at=1), 31, "did not exit 30 s after its result"),
        (facts(last_output_at=14_400), 14_400, "not done after 14400 s"),
        (facts(context=190, window=200), 9, "its context is 95% full"),
        (facts(tokens=1_200), 9, "used 1200 tokens of 1000 allowed"),
        (facts(cost_usd=2.5), 9, "cost $2.50 of $2.00 allowed"),
    ],
)
def test_alarm_reason_is_readable(seen: Facts, seconds: float, reason: str) -> None:
    alarm = check(seen, BUDGET, after(seconds))
    assert alarm is not None and alarm.reason == reason


@pytest.mark.parametrize(
    ("seen", "now", "seconds"),
    [
        (SILENT_START, 0, 90),  # to look for a transcript and for CPU use
        (SILENT_START, 90, 30),
        (facts(), 1, 90),
        (facts(), 31, 60),
        (facts(), 850, 51),
        (facts(last_output_at=14_390), 14_390, 10),
        (facts(result_at=50), 60, 20),
        (facts(), 5_000, 0),
        (facts(interactive=True), 5, math.inf),
    ],
)
def test_next_check_is_no_earlier_than_needed(seen: Facts, now: float, seconds: float) -> None:
    assert next_check(seen, DEFAULTS, after(now)) == pytest.approx(seconds)


@pytest.mark.parametrize("seen", [SILENT_START, facts(), facts(last_cpu_at=450), facts(result_at=70)])
def test_no_alarm_is_missed_when_checks_follow_the_schedule(seen: Facts) -> None:
    now, looks = NOON, 0
    while check(seen, DEFAULTS, now) is None:
        pause = next_check(seen, DEFAULTS, now)
        assert check(seen, DEFAULTS, now + timedelta(seconds=pause - 0.001)) is None
        now, looks = now + timedelta(seconds=pause), looks + 1
    assert looks <= 16
    assert check(seen, DEFAULTS, now - timedelta(seconds=0.001)) is None


def test_limits_come_from_settings_unless_the_task_sets_them() -> None:
    held = settings(watchdog__wall_seconds=60, watchdog__max_tokens=5, context_pressure_threshold_pct=50)
    found = watchdog_for(held, a_task(limits='{"silence_seconds": 7.5, "max_cost_usd": 3, "max_tokens": null}'))
    assert (found.wall_seconds, found.silence_seconds, found.first_event_seconds) == (60, 7.5, 120)
    assert (found.max_cost_usd, found.max_tokens, found.context_pct, found.ignored) == (3, None, 50, ())


def test_project_may_set_its_own_limits() -> None:
    home = SettingsLayer(Origin("runtime", ""), {("watchdog", "wall_seconds"): 60, ("watchdog", "silence_seconds"): 5})
    project = SettingsLayer(Origin("project", ""), {("watchdog", "wall_seconds"): 90})
    found = watchdog_for(merge([home, project]), a_task(limits='{"silence_seconds": 6}'))
    assert (found.wall_seconds, found.silence_seconds) == (90, 6)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("60", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"wal_seconds": 60}', "unknown limit wal_seconds"),
        ('{"wall_seconds": "60"}', "watchdog.wall_seconds must be a number"),
        ('{"wall_seconds": 0}', "watchdog.wall_seconds must be a number"),
        ('{"wall_seconds": null}', "watchdog.wall_seconds must be a number"),
        ('{"max_tokens": true}', "watchdog.max_tokens must be a whole number"),
    ],
)
def test_invalid_limits_are_reported_and_ignored(text: str, reason: str) -> None:
    found = watchdog_for(settings(), a_task(limits=text))
    assert found.replace(ignored=()) == DEFAULTS
    assert len(found.ignored) == 1 and reason in found.ignored[0]


def test_invalid_limit_does_not_affect_the_others() -> None:
    found = watchdog_for(settings(), a_task(limits='{"wall_seconds": 60, "colour": "red"}'))
    assert found.wall_seconds == 60 and found.ignored == ("the task's limits: unknown limit colour",)


def test_default_limits_match_the_documentation() -> None:
    assert check(facts(last_output_at=3 * 3_600), DEFAULTS, NOON + 3 * HOUR) is None
    assert (DEFAULTS.first_event_seconds, DEFAULTS.silence_seconds, DEFAULTS.wall_seconds) == (120, 900, 14_400)
    assert (DEFAULTS.result_grace_seconds, DEFAULTS.stop_grace_seconds) == (30, 10)


def test_coder_is_stopped_when_its_context_overflows_repeatedly() -> None:
    once = facts(overflows=1)
    assert check(once, DEFAULTS, after(2)) is None
    for twice in (facts(overflows=2), facts(overflows=2, result_at=1)):
        stopped = check(twice, DEFAULTS, after(2))
        assert stopped is not None and stopped.ending == Ending.CONTEXT_FULL
    assert check(facts(overflows=9, interactive=True), DEFAULTS, after(2)) is None


def test_run_is_stopped_when_it_only_gets_refusals() -> None:
    refused = facts(limited_at=10, last_output_at=39)
    assert check(refused, DEFAULTS, after(39)) is None
    stopped = check(refused, DEFAULTS, after(40))
    assert stopped is not None and stopped.ending == Ending.RATE_LIMITED
    assert next_check(refused, DEFAULTS, after(39)) <= 1
