"""The status of a task after a run, and the bound on the number of runs."""

import json
import random
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from builders import HOUR, NOON, a_task
from fleet.core.finding import DONE, FINDINGS
from fleet.core.policy import backoff, decide, limit_runs
from fleet.core.rules import Rules, rules_in
from fleet.core.run import Ending, Outcome
from fleet.core.task import COUNTS, Status, Task, Verdict
from fleet.settings.project_sections import FindingSettings
from fleet.settings.sections import LimitSettings

LIMITS = LimitSettings()
ENDINGS = sorted(value for name, value in vars(Ending).items() if name.isupper())
FAILURES = (Ending.FAILED, Ending.TIMED_OUT, Ending.STALLED, Ending.START_HANG)
LIMITED = (Ending.RATE_LIMITED, Ending.OVERLOADED, Ending.NOT_LOGGED_IN)


def verdict(
    ending: str,
    *,
    task: Task | None = None,
    limits: LimitSettings = LIMITS,
    findings: FindingSettings = FindingSettings(),  # noqa: B008 - frozen
    rules: Rules = Rules(),  # noqa: B008
    **said: Any,
) -> Verdict:
    """Return the verdict at noon, with half of the jitter."""
    outcome = Outcome(**{"ending": ending, "reason": "why", "tool_calls": 3, **said})
    task = task or a_task(status="in_progress")
    return decide(task, outcome, now=NOON, limits=limits, jitter=0.5, findings=findings, rules=rules)


def counted(found: Verdict) -> dict[str, int]:
    """Return the counters that a verdict increases."""
    return {name: count for name in COUNTS if (count := getattr(found, name))}


@pytest.mark.parametrize(
    ("ending", "before", "status", "added", "reason"),
    [
        ("finished", {}, "closed", {}, "why"),
        ("finished", {"hand_in_reason": "all green"}, "closed", {}, "all green"),
        ("hung_after_result", {}, "closed", {}, "why"),
        ("incomplete", {}, "open", {"continues": 1}, "why"),
        ("incomplete", {"continues": 2}, "open", {"continues": 1}, "why"),
        ("incomplete", {"continues": 3}, "blocked", {"continues": 1}, "continued 3 times without finishing"),
        *[(ending, {}, "open", {"failures": 1}, "why") for ending in FAILURES],
        *[(e, {"failures": 1}, "blocked", {"failures": 1}, "failed twice; last: why") for e in FAILURES],
        ("over_budget", {}, "blocked", {"failures": 1}, "why"),
        *[(e, {"failures": 1}, "open", {"waits": 1}, "why") for e in LIMITED],
        ("rate_limited", {"waits": 19}, "open", {"waits": 1}, "why"),
        ("rate_limited", {"waits": 20}, "blocked", {"waits": 1}, "waited for account limits 20 times"),
        ("context_full", {"failures": 1}, "open", {"fresh_starts": 1}, "why"),
        ("context_full", {"fresh_starts": 5}, "blocked", {"fresh_starts": 1}, "restarted with a new session 5 times"),
        ("lost", {"failures": 1}, "open", {"losses": 1}, "why"),
        ("lost", {"losses": 5}, "blocked", {"losses": 1}, "its agent disappeared 6 times"),
        ("blocked", {}, "blocked", {}, "why"),
        ("cancelled", {}, "blocked", {}, "stopped by hand: why"),
        ("released", {}, "open", {}, "why"),
    ],
)
def test_each_ending_has_its_rule(
    ending: str, before: dict[str, Any], status: str, added: dict[str, int], reason: str
) -> None:
    found = verdict(ending, task=a_task(status="in_progress", **before))
    assert found.status == status
    assert counted(found) == added
    assert found.reason.startswith(reason)
    assert found.reason.endswith("why") or "hand_in_reason" in before
    assert found.finding == ("unverified" if status == "closed" else "")


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_has_a_decision_and_a_reason(ending: str) -> None:
    found = verdict(ending, reason="")
    assert found.status in (Status.OPEN, Status.BLOCKED, Status.CLOSED)
    assert found.reason


def test_ending_without_a_rule_raises_an_error() -> None:
    with pytest.raises(ValueError, match="no rule for a run that ended 'exploded'"):
        verdict("exploded")


def test_each_counter_has_its_own_limit() -> None:
    full = a_task(status="in_progress", fresh_starts=4, losses=5, waits=20, disproofs=6, fakes=7)
    assert verdict("context_full", task=full).status == "open"
    assert verdict("lost", task=full).status == "blocked"
    assert verdict("rate_limited", task=full).status == "blocked"


@pytest.mark.parametrize("ending", DONE)
@pytest.mark.parametrize(
    ("finding", "before", "status", "added", "reason"),
    [
        ("verified", {}, "closed", {}, "why"),
        ("verified", {"hand_in_reason": "all green"}, "closed", {}, "all green"),
        ("unverified", {}, "closed", {}, "why"),
        ("incomplete", {}, "open", {"continues": 1}, "seen"),
        ("incomplete", {"continues": 3}, "blocked", {"continues": 1}, "continued 3 times without finishing"),
        ("failed_verify", {}, "open", {"disproofs": 1}, "seen"),
        ("failed_verify", {"disproofs": 1}, "open", {"disproofs": 1}, "seen"),
        ("failed_verify", {"disproofs": 2}, "blocked", {}, "its work fails verification, tried 3 times: seen"),
        ("fabricated", {}, "open", {"fakes": 1}, "seen"),
        ("fabricated", {"fakes": 1}, "blocked", {}, "its claims are false, the second time: seen"),
        ("fabricated", {"disproofs": 2}, "open", {"fakes": 1}, "seen"),
        ("no_changes", {}, "blocked", {}, "the agent reports success but changed nothing: seen"),
        ("out_of_scope", {}, "blocked", {}, "it changed files outside its scope: seen"),
    ],
)
def test_finished_run_is_judged_by_its_finding(
    ending: str, finding: str, before: dict[str, Any], status: str, added: dict[str, int], reason: str
) -> None:
    found = verdict(ending, task=a_task(status="in_progress", **before), finding=finding, shown="seen")
    assert (found.status, found.finding) == (status, finding)
    assert found.reason.startswith(reason)
    assert counted(found) == added
    assert found.not_before is None


@pytest.mark.parametrize("finding", ["unverified", "no_changes", "out_of_scope", "failed_verify", "fabricated"])
def test_each_finding_can_close_a_task_or_ask_a_person(finding: str) -> None:
    none = FindingSettings(verify_retries=0, fabricated_retries=0)
    closes, asks = (msgspec.structs.replace(none, **{finding: word}) for word in ("close", "person"))
    assert verdict("finished", finding=finding, findings=closes).status == "closed"
    assert verdict("finished", finding=finding, findings=asks).status == "blocked"
    assert verdict("finished", finding="verified", findings=asks).status == "closed"


def test_rules_of_a_task_decide_whether_it_may_end_without_changes() -> None:
    assert verdict("finished", finding="no_changes", rules=Rules(no_changes=True)).status == "closed"
    close = FindingSettings(no_changes="close")
    assert verdict("finished", finding="no_changes", findings=close, rules=Rules(no_changes=False)).status == "blocked"
    assert verdict("finished", finding="fabricated", rules=Rules(no_changes=True)).status == "open"


@pytest.mark.parametrize("ending", DONE)
@pytest.mark.parametrize("finding", FINDINGS)
def test_task_reported_as_blocked_is_never_closed_by_settings(ending: str, finding: str) -> None:
    said: dict[str, Any] = {"finding": finding, "shown": "seen", "says_blocked": "the agent reports that it is blocked"}
    words = ("unverified", "no_changes", "out_of_scope", "failed_verify", "fabricated")
    none = FindingSettings(verify_retries=0, fabricated_retries=0)
    lenient = msgspec.structs.replace(none, **dict.fromkeys(words, "close"))
    rules = Rules(no_changes=True)
    found = verdict(ending, **said, findings=lenient, rules=rules)
    assert (found.status, found.reason, found.finding) == ("blocked", "the agent reports that it is blocked", finding)
    assert counted(found) == {}
    lie = verdict(ending, **said | {"finding": "fabricated"})
    assert (lie.status, counted(lie)) == ("open", {"fakes": 1}), "a lie is a lie, whatever else it says"


@pytest.mark.parametrize("ending", [e for e in ENDINGS if e not in (*DONE, Ending.RELEASED)])
def test_out_of_scope_run_is_not_retried_without_a_person(ending: str) -> None:
    found = verdict(ending, finding="out_of_scope", shown="it wrote to ~/x")
    assert (found.status, found.finding) == ("blocked", "out_of_scope")
    free = verdict(ending, finding="out_of_scope", findings=FindingSettings(out_of_scope="close"))
    assert free.status == verdict(ending).status


@pytest.mark.parametrize("finding", ["failed_verify", "fabricated"])
def test_bad_result_of_an_interactive_agent_blocks_its_task(finding: str) -> None:
    assert (
        verdict("finished", finding=finding, task=a_task(status="in_progress", mode="interactive")).status == "blocked"
    )


@pytest.mark.parametrize("ending", LIMITED)
def test_limit_delays_the_account_and_not_the_task(ending: str) -> None:
    """Another account may take the task at once. The same account is held back by its parking."""
    assert verdict(ending, resume_at=NOON + HOUR).not_before is None


@pytest.mark.parametrize(("failures", "most"), [(0, 5), (1, 10), (2, 20), (5, 160), (6, 300), (400, 300)])
def test_retries_wait_with_full_jitter(failures: int, most: int) -> None:
    assert backoff(failures, 1.0) == timedelta(seconds=most)
    assert backoff(failures, 0.0) == timedelta(0)
    found = verdict("failed", task=a_task(failures=failures), limits=LimitSettings(retry_limit=500))
    assert found.not_before == NOON + timedelta(seconds=most / 2)


def test_resuming_and_fresh_starts_have_no_delay() -> None:
    assert verdict("incomplete").not_before is None
    assert verdict("context_full").not_before is None


@pytest.mark.parametrize("ending", ["failed", "incomplete", "lost", "context_full", *LIMITED])
def test_interactive_session_is_never_restarted_automatically(ending: str) -> None:
    assert verdict(ending, task=a_task(status="in_progress", mode="interactive")).status == "blocked"


def test_stopped_by_hand_is_not_repeated_in_a_reason() -> None:
    assert verdict("cancelled", reason="").reason == "stopped by hand"
    assert verdict("cancelled", reason="stopped by hand").reason == "stopped by hand"
    assert verdict("cancelled", reason="stopped by hand: too slow").reason == "stopped by hand: too slow"


@pytest.mark.parametrize("most", [1_500, 10**30, 1e300, float("nan"), float("inf"), -1])
def test_task_comes_to_rest_when_its_rules_ask_for_any_number_of_retries(most: float) -> None:
    names = ("retries", "stale_restarts", "rate_limit_retries", "rate_limit_base_seconds", "rate_limit_max_seconds")
    rules = rules_in(json.dumps(dict.fromkeys(names, most)))
    for ending in (Ending.FAILED, Ending.STALLED, *LIMITED):
        task, runs = a_task(status="in_progress"), 0
        while task.status == Status.IN_PROGRESS:
            assert runs <= 501, f"still going after {runs} runs that were {ending}"
            task = verdict(ending, task=task, rules=rules).on(task, NOON)
            runs += 1
            if task.status == Status.OPEN:
                task = task.claimed("host", NOON, NOON + HOUR)
        assert task.status == Status.BLOCKED


def test_task_comes_to_rest_after_any_sequence_of_outcomes() -> None:
    for seed in range(100):
        bring_to_rest(seed)


def bring_to_rest(seed: int) -> None:
    """Run a task with random endings until it rests.

    Each way back increases a counter that only grows, and a setting bounds each counter.
    """
    random_ = random.Random(seed)
    limits = LimitSettings(
        retry_limit=random_.randint(1, 6), **{n: random_.randint(0, 6) for n in ("continue_limit", "context_limit")}
    )
    again, anew = random_.randint(0, 4), random_.randint(0, 4)
    findings = FindingSettings(verify_retries=again, fabricated_retries=anew, out_of_scope="close")
    # Released is left out: only a person who stops the supervisor causes it.
    endings = random_.sample([e for e in ENDINGS if e != Ending.RELEASED], random_.randint(1, len(ENDINGS) - 1))
    task, runs = a_task(status="in_progress"), 0
    while task.status == Status.IN_PROGRESS:
        assert runs < limit_runs(limits, findings), f"seed {seed}: still going after {runs} runs with {endings}"
        outcome = Outcome(ending=random_.choice(endings), finding=random_.choice(("", *FINDINGS)))
        task = decide(task, outcome, now=NOON, limits=limits, jitter=random_.random(), findings=findings).on(task, NOON)
        runs += 1
        if task.status == Status.OPEN:
            task = task.claimed("host", NOON, NOON + HOUR)
    assert task.status in (Status.BLOCKED, Status.CLOSED) and task.reason
    assert task.failures <= limits.retry_limit and task.continues <= limits.continue_limit + 1
    assert task.fresh_starts <= limits.context_limit + 1 and task.losses <= limits.lost_limit + 1
    assert task.waits <= limits.limit_waits + 1
    assert task.disproofs <= findings.verify_retries and task.fakes <= findings.fabricated_retries


@pytest.mark.parametrize("ending", [e for e in ENDINGS if e != Ending.RELEASED])
def test_task_comes_to_rest_when_one_outcome_repeats(ending: str) -> None:
    task, runs = a_task(status="in_progress"), 0
    while task.status == Status.IN_PROGRESS:
        task = verdict(ending, task=task, tool_calls=0).on(task, NOON)
        runs += 1
        if task.status == Status.OPEN:
            task = task.claimed("host", NOON, NOON + HOUR)
    assert runs <= 21
