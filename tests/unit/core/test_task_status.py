"""The single status of a task: different facts have different words, and no word claims an untrue fact."""

from datetime import timedelta
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, a_task
from fleet.core.finding import NEEDS_PERSON, Finding
from fleet.core.policy import decide
from fleet.core.run import BY_TOOL, Ending, Outcome, Question, Run
from fleet.core.task import MERGED, Status
from fleet.core.task_status import BY_FINDING, ResultWord, TaskStatus, derive_status, is_asked
from fleet.settings.project_sections import FindingSettings
from fleet.settings.sections import LimitSettings

MERGED_NOW = {MERGED: {"at": NOON.isoformat(timespec="seconds"), "tip": "a", "commit": "b", "into": "main"}}


def status(run: dict[str, Any] | None = None, facts: dict[str, Any] | None = None, **task: Any) -> TaskStatus:
    """Return the status of a task with this last run."""
    found = a_task(**task)
    given = {"started_at": NOON - HOUR, **(run or {})}
    made = None if run is None else Run(id=f"{found.id}/1", task_id=found.id, number=1, epoch=1, owner="o", **given)
    return derive_status(found, made, NOON, **(facts or {}))


@pytest.mark.parametrize(
    ("task", "facts", "result"),
    [
        ({}, {}, "ready"),
        ({}, {"held_up": "no supervisor"}, "no supervisor"),
        ({}, {"held_up": "parked"}, "parked"),
        ({"is_blocked": True}, {"held_up": "parked"}, "waiting for dependencies"),
        ({"defer_until": NOON + HOUR}, {"held_up": "no supervisor"}, "put off"),
        ({"defer_until": NOON - HOUR}, {}, "ready"),
        ({"status": Status.DEFERRED}, {}, "put off"),
        ({"status": Status.DEFERRED, "defer_until": NOON - HOUR}, {}, "ready"),
        ({"status": Status.PINNED}, {}, "set aside"),
        ({"status": Status.IN_PROGRESS, "assignee": "ada", "claim_owner": "ada"}, {}, "held by a person"),
        ({"status": Status.IN_PROGRESS, "claim_owner": "o", "claim_expires_at": NOON + HOUR}, {}, "starting"),
        (
            {"status": Status.IN_PROGRESS, "claim_owner": "o", "claim_expires_at": NOON + HOUR},
            {"held_up": "no supervisor"},
            "no supervisor",
        ),
    ],
)
def test_task_without_an_agent_shows_what_it_waits_for(
    task: dict[str, Any], facts: dict[str, Any], result: str
) -> None:
    assert status(facts=facts, **task).result == result


@pytest.mark.parametrize(("finding", "result"), BY_FINDING.items())
def test_closed_task_shows_the_word_of_its_finding(finding: str, result: str) -> None:
    assert status({"ended_at": NOON}, status=Status.CLOSED, finding=finding).result == result
    merged = status({"ended_at": NOON}, status=Status.CLOSED, finding=finding, metadata=MERGED_NOW).result
    assert merged == ("merged" if result in ("verified", "unverified", "done") else result)


def test_each_finding_has_its_own_word() -> None:
    assert len(set(BY_FINDING.values())) == len(BY_FINDING)


def test_task_that_ran_again_after_its_merge_is_not_merged() -> None:
    again = {"started_at": NOON + MINUTE, "ended_at": NOON + HOUR}
    assert status(again, status=Status.CLOSED, finding="verified", metadata=MERGED_NOW).result == "verified"
    odd = {MERGED: {"at": "a while ago"}}
    assert status(again, status=Status.CLOSED, finding="verified", metadata=odd).result == "merged"


@pytest.mark.parametrize("finding", [*NEEDS_PERSON])
def test_task_left_to_a_person_shows_the_word_of_its_finding(finding: str) -> None:
    strict = FindingSettings(unverified="person", verify_retries=0, fabricated_retries=0)
    outcome = Outcome(ending=Ending.FINISHED, finding=finding, shown="`make test` ended with exit code 1")
    task = a_task(status=Status.IN_PROGRESS)
    verdict = decide(task, outcome, now=NOON, limits=LimitSettings(), jitter=0.5, findings=strict)
    found = derive_status(verdict.on(task, NOON), None, NOON)
    assert (found.phase, found.result) == ("failed", BY_FINDING[finding])
    assert found.why == "`make test` ended with exit code 1"


def test_earlier_finding_does_not_explain_why_a_task_is_blocked() -> None:
    found = status(status=Status.BLOCKED, finding=Finding.FAILED_VERIFY, reason="failed twice; last: no git")
    assert (found.result, found.why) == ("blocked", "failed twice; last: no git")


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize(
    ("reason", "phase", "result"),
    [
        ("stopped by hand", "stopped", "stopped by you"),
        ("stopped by hand: no use", "stopped", "stopped by you"),
        ("not begun, since stage impl failed", "failed", "stopped with its workflow"),
        ("cancelled, since stage impl failed", "failed", "stopped with its workflow"),
    ],
)
def test_stopped_task_does_not_wait_for_an_answer(reason: str, phase: str, result: str, asks: bool) -> None:
    found = status({"ended_at": NOON}, {"asks": asks}, status=Status.BLOCKED, reason=reason, finding="incomplete")
    assert (found.phase, found.result) == (phase, result)


def test_result_of_a_running_agent_is_its_phase() -> None:
    heard = {"first_event_at": NOON, "last_event_at": NOON}
    for run, word in ((heard, "working"), ({}, "starting"), ({"screen": "question"}, "waiting for you")):
        found = status(run, status=Status.IN_PROGRESS)
        assert (found.phase, found.result) == (word, word)
    assert status(heard, {"asks": True}, status=Status.IN_PROGRESS).result == "waiting for you"
    assert status(heard, {"is_lost": True}, status=Status.IN_PROGRESS).result == "no supervisor"


@pytest.mark.parametrize(
    ("question", "task", "asked"),
    [
        ({}, {"status": Status.BLOCKED}, True),
        ({}, {"status": Status.BLOCKED, "reason": "stopped by hand"}, False),
        ({}, {"status": Status.OPEN}, False),
        ({}, {"status": Status.IN_PROGRESS}, False),
        ({"source": BY_TOOL}, {"status": Status.IN_PROGRESS}, True),
        ({"source": BY_TOOL}, {"status": Status.OPEN}, True),
        ({"source": BY_TOOL}, {"status": Status.CLOSED}, False),
        ({"source": BY_TOOL, "answered_at": NOON}, {"status": Status.IN_PROGRESS}, False),
        ({"answered_at": NOON}, {"status": Status.BLOCKED}, False),
    ],
)
def test_question_waits_only_when_its_task_waits_for_the_answer(
    question: dict[str, Any], task: dict[str, Any], asked: bool
) -> None:
    made = Question(id="q", task_id="t", asked_at=NOON - timedelta(minutes=1), text="red?", **question)
    assert is_asked(made, a_task(**task)) is asked


def test_result_words_are_unique() -> None:
    words = [value for name, value in vars(ResultWord).items() if name.isupper()]
    assert len(set(words)) == len(words)
