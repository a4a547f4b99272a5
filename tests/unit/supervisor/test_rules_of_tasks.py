"""Rules of a task: its retries, its pool size and the options of its coder."""

from datetime import timedelta

import pytest

from builders import NOON, a_task
from fleet import coders
from fleet.core import admission
from fleet.core.policy import decide
from fleet.core.rules import Rules
from fleet.core.run import Ending, Outcome
from fleet.core.task import Claim, Verdict
from fleet.settings.project_sections import FindingSettings
from fleet.settings.sections import LimitSettings


def verdict(rules: Rules, ending: str, *, failures: int = 0, waits: int = 0) -> Verdict:
    task = a_task(status="in_progress", failures=failures, waits=waits)
    return decide(
        task,
        Outcome(ending=ending, reason="why"),
        now=NOON,
        limits=LimitSettings(),
        jitter=0.5,
        findings=FindingSettings(),
        rules=rules,
    )


@pytest.mark.parametrize(
    ("rules", "ending", "failures", "status"),
    [
        (Rules(), Ending.FAILED, 0, "open"),
        (Rules(retries=0), Ending.FAILED, 0, "blocked"),
        (Rules(retries=0), Ending.TIMED_OUT, 0, "blocked"),
        (Rules(retries=3), Ending.FAILED, 2, "open"),
        (Rules(retries=3), Ending.FAILED, 3, "blocked"),
        (Rules(retries=0, stale_restarts=2), Ending.STALLED, 1, "open"),
        (Rules(retries=0, stale_restarts=2), Ending.START_HANG, 2, "blocked"),
        (Rules(retries=0, stale_restarts=2), Ending.FAILED, 0, "blocked"),
        (Rules(stale_restarts=0), Ending.FAILED, 0, "open"),
    ],
)
def test_retry_limit_of_a_task_decides_when_it_is_blocked(
    rules: Rules, ending: str, failures: int, status: str
) -> None:
    assert verdict(rules, ending, failures=failures).status == status


@pytest.mark.parametrize(
    ("waits", "status", "seconds"), [(0, "open", 4), (1, "open", 8), (2, "open", 10), (3, "blocked", None)]
)
def test_rate_limit_delay_of_a_task_grows(waits: int, status: str, seconds: float | None) -> None:
    rules = Rules(rate_limit_retries=3, rate_limit_base_seconds=4.0, rate_limit_max_seconds=10.0)
    found = verdict(rules, Ending.RATE_LIMITED, waits=waits)
    assert found.status == status
    assert found.not_before == (None if seconds is None else NOON + timedelta(seconds=seconds))
    assert verdict(Rules(), Ending.RATE_LIMITED, waits=waits).not_before is None
    assert verdict(Rules(rate_limit_base_seconds=4.0), Ending.CONTEXT_FULL).not_before is None


def claims(*at_once: int | None, origin: str = "mcp") -> list[Claim]:
    rules = [Rules(at_once=each).text() for each in at_once]
    tasks = [a_task(id=f"t{n}", origin=origin, rules=text) for n, text in enumerate(rules)]
    return [Claim(task=task, owner="me", epoch=1, expires_at=NOON) for task in tasks]


def test_pooled_task_starts_only_within_its_own_limit() -> None:
    start, back = admission.split_by_room(claims(2, 2, 5, 2, None), running=1)
    assert [claim.task.id for claim in start] == ["t0", "t2", "t4"]
    assert [claim.task.id for claim in back] == ["t1", "t3"]
    assert admission.split_by_room(claims(1, 1, origin="create"), running=5)[1] == [], (
        "the others have slots of their own"
    )
    assert admission.room_of([claim.task for claim in claims(2, 7)], otherwise=3) == 7
    assert admission.room_of([], otherwise=3) == 3
    assert not admission.is_pooled(a_task(origin="mcp", mode="interactive"))


@pytest.mark.parametrize(
    ("coder", "options"),
    [
        ("claude", ("--effort=high",)),
        ("codex", ("-c", 'model_reasoning_effort="high"')),
        ("copilot", ("--reasoning-effort=high",)),
        ("pi", ("--thinking", "high")),
        ("gemini", ()),
        ("demo", ()),
    ],
)
def test_reasoning_effort_is_passed_in_the_form_of_each_coder(coder: str, options: tuple[str, ...]) -> None:
    assert coders.load(coder).effort("high") == options
