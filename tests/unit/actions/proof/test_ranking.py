"""The ranking of candidates, by evidence and never by claims."""

from typing import Any

import pytest

from builders import MINUTE, NOON, a_task
from fleet.actions.proof.candidates import Candidate
from fleet.actions.proof.ranking import ORDER, RankedCandidate, entry, ranked, tied, winner, with_first
from fleet.core.finding import FINDINGS, Finding
from fleet.core.receipt import Receipt, draft_receipt
from fleet.core.run import Run
from fleet.core.verification import Verification
from fleet.git.diffs import DiffSize


def a_candidate(name: str = "one", *, lines: int = 10, **changes: Any) -> Candidate:
    given = {"tip": "t" * 40, "base": "b" * 40, "size": DiffSize(files=1 if lines else 0, added=lines)}
    return Candidate(**{"name": name, "branch": name, **given, **changes})


def a_run(minutes: int = 1, cost: float | None = None) -> Run:
    names: dict[str, Any] = {"id": "t/1", "task_id": "t", "number": 1, "epoch": 1, "owner": "o"}
    return Run(**names, started_at=NOON, ended_at=NOON + minutes * MINUTE, cost_usd=cost)


def a_receipt(finding: str, **git: Any) -> Receipt:
    body = draft_receipt(finding, ("it touched .git/config",), {"git": git})
    return Receipt(run_id="t/1", task_id="t", owner="o", finding=finding, made_at=NOON, body=body)


def seen(status: int | None = 0, **changes: Any) -> Verification:
    return Verification(command="make test", commit="t" * 40, status=status, **changes)


def names(entries: list[RankedCandidate]) -> list[str]:
    return [each.candidate.name for each in entries]


@pytest.mark.parametrize(
    ("verification", "changes", "finding"),
    [
        (seen(), {}, Finding.VERIFIED),
        (seen(1), {}, Finding.FAILED_VERIFY),
        (seen(None, why="did not end within 5 s"), {}, Finding.FAILED_VERIFY),
        (seen(doubts=("its runner ran no tests",)), {}, Finding.UNVERIFIED),
        (seen(contested=("tests/a.py",), without_them=1), {}, Finding.UNVERIFIED),
        (seen(contested=("tests/a.py",), without_them=0), {}, Finding.VERIFIED),
        (None, {}, Finding.UNVERIFIED),
        (seen(), {"lines": 0}, Finding.NO_CHANGES),
        (seen(), {"receipt": a_receipt(Finding.OUT_OF_SCOPE)}, Finding.OUT_OF_SCOPE),
        (seen(), {"receipt": a_receipt(Finding.FABRICATED)}, Finding.FABRICATED),
        (seen(), {"receipt": a_receipt(Finding.FAILED_VERIFY)}, Finding.VERIFIED),
        (seen(1), {"receipt": a_receipt(Finding.VERIFIED)}, Finding.FAILED_VERIFY),
        (seen(), {"receipt": a_receipt(Finding.NO_CHANGES, blank=True, tip="t" * 40)}, Finding.NO_CHANGES),
        (seen(), {"receipt": a_receipt(Finding.NO_CHANGES, blank=True, tip="other")}, Finding.VERIFIED),
    ],
)
def test_finding_of_a_candidate_follows_from_its_verification(
    verification: Any, changes: dict[str, Any], finding: str
) -> None:
    found = entry(a_candidate(**changes), verification)
    assert found.finding == finding and found.shown


def test_each_finding_has_a_rank() -> None:
    assert sorted(ORDER) == sorted(FINDINGS)


def test_candidates_are_ranked_by_finding_then_tests_then_size() -> None:
    entries = [
        entry(a_candidate("fails", lines=1), seen(1, passed=99)),
        entry(a_candidate("large", lines=500), seen(passed=10)),
        entry(a_candidate("fewer tests", lines=1), seen(passed=9)),
        entry(a_candidate("small", lines=5), seen(passed=10)),
        entry(a_candidate("doubtful", lines=1), seen(passed=50, doubts=("hm",))),
    ]
    assert names(ranked(entries)) == ["small", "large", "fewer tests", "doubtful", "fails"]


def test_candidates_of_equal_size_are_ranked_by_time_cost_and_name() -> None:
    entries = [
        entry(a_candidate("b unknown"), seen()),
        entry(a_candidate("slow", runs=(a_run(9, 0.1),)), seen()),
        entry(a_candidate("dear", runs=(a_run(2, 5.0),)), seen()),
        entry(a_candidate("cheap", runs=(a_run(1, 0.5), a_run(1, 0.5))), seen()),
        entry(a_candidate("a unknown"), seen()),
    ]
    assert names(ranked(entries)) == ["cheap", "dear", "slow", "a unknown", "b unknown"]


def test_candidates_with_equal_finding_and_tests_tie() -> None:
    entries = ranked(
        [
            entry(a_candidate("large", lines=500), seen(passed=10)),
            entry(a_candidate("small", lines=5), seen(passed=10)),
            entry(a_candidate("fewer tests"), seen(passed=9)),
        ]
    )
    assert names(tied(entries)) == ["small", "large"]
    assert names(with_first(entries, tied(entries)[1])) == ["large", "small", "fewer tests"]


@pytest.mark.parametrize("verification", [seen(1), seen(None, why="was stopped")])
def test_failing_candidates_neither_win_nor_tie(verification: Verification) -> None:
    entries = ranked([entry(a_candidate("a"), verification), entry(a_candidate("b"), verification)])
    assert winner(entries) is None and tied(entries) == [] and winner([]) is None


def test_unverified_work_can_win() -> None:
    entries = ranked([entry(a_candidate("a", lines=0), None), entry(a_candidate("b"), None, not_verified="no command")])
    best = winner(entries)
    assert best is not None and (best.candidate.name, best.shown) == ("b", ("no command",))


def test_candidate_is_named_by_its_task() -> None:
    task = a_task(id="fleet-x", coder="codex", model="big")
    found = a_candidate(task=task)
    assert (found.key, found.coder, found.model, found.seconds, found.cost_usd) == (
        "fleet-x",
        "codex",
        "big",
        None,
        None,
    )
    assert entry(found, seen(passed=3)).view()["tests"] == {"passed": 3, "failed": None, "skipped": None}
