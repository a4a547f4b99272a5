"""Receipts in plain text: the most important facts first, and no error for hostile or missing pieces."""

from typing import Any

import pytest

from builders import MINUTE, NOON
from fleet.actions.proof.receipt_words import MEANING, headline, lines, sections
from fleet.core.finding import FINDINGS, Finding
from fleet.core.receipt import PIECES, Receipt, draft_receipt
from fleet.core.run import Run
from receipted import pieces


def a_receipt(finding: str = Finding.VERIFIED, shown: tuple[str, ...] = ("because",), **changes: Any) -> Receipt:
    body = draft_receipt(finding, shown, changes.pop("told", None) or pieces(**changes))
    names = {"run_id": "fleet-1/2", "task_id": "fleet-1", "owner": "host", "coder": "claude", "model": "opus"}
    return Receipt(**names, finding=finding, made_at=NOON, body=body, hash="f" * 64)


def words(receipt: Receipt, label: str, run: Run | None = None) -> list[str]:
    return dict(sections(receipt, run)).get(label, [])


def test_receipt_shows_the_finding_first_and_its_reason_next() -> None:
    first, second, *_ = lines(a_receipt())
    assert first == "fleet-1/2: verified – real work, verified by fleet"
    assert second == "why:         because"


def test_each_finding_has_an_explanation() -> None:
    assert set(MEANING) == set(FINDINGS)
    assert all(headline(a_receipt(each)).startswith(f"fleet-1/2: {each} – ") for each in FINDINGS)


def test_receipt_of_an_honest_run_shows_all_facts() -> None:
    names: dict[str, Any] = {"id": "fleet-1/2", "task_id": "fleet-1", "number": 2, "epoch": 1, "owner": "host"}
    took: dict[str, Any] = {"account": "second", "cost_usd": 0.4217, "input_tokens": 12_345}
    run = Run(**names, **took, started_at=NOON, ended_at=NOON + 3 * MINUTE)
    made = a_receipt()
    assert words(made, "by", run) == ["claude 2.1 with opus on account second", "/opt/claude (abababababab)"]
    assert words(made, "took", run) == ["3 min 0 s, $0.4217, 12,345 tokens, 7 tool calls, exit code 0"]
    assert words(made, "changed") == ["2 files, +10 -3 lines on work", "M a.py", "A b.py"]
    assert words(made, "commits") == ["cccccccccccc fix it (agent)"]
    assert words(made, "verify") == [
        "`make test` ended with exit code 0 after 2.5 s; tests: 12 passed",
        "it was run with no network",
        "| 12 passed",
    ]
    assert words(made, "claims") == ["it says: completed – all of it", "2 claimed files, all as it says"]
    assert words(made, "scope") == ["allowed: src/"]
    assert words(made, "contained") == ["pid namespace"]


def test_failed_verification_shows_the_end_of_its_output() -> None:
    tail = "\n".join(f"line {number}" for number in range(50))
    found = words(
        a_receipt(Finding.FAILED_VERIFY, verify={"status": 2, "tail": tail, "passed": 3, "failed": 1}), "verify"
    )
    assert found[0] == "`make test` ended with exit code 2 after 2.5 s; tests: 3 passed, 1 failed"
    assert found[-20:] == [f"| line {number}" for number in range(30, 50)]


@pytest.mark.parametrize(
    ("verify", "told"),
    [
        ({"why": "took longer than 600 s", "status": None}, "`make test` took longer than 600 s after 2.5 s"),
        ({"base_status": 1}, "at the base it ended with 1"),
        ({"restored": ["verify.sh"]}, "taken from the base: verify.sh"),
        ({"contested": ["tests/test_a.py"]}, "tests of the base that the branch changed: tests/test_a.py"),
        ({"doubts": ["its runner ran no tests"]}, "doubt: its runner ran no tests"),
    ],
)
def test_each_doubt_about_a_verification_is_shown(verify: dict[str, Any], told: str) -> None:
    assert any(line.startswith(told) for line in words(a_receipt(verify=verify), "verify"))


def test_receipt_says_why_nothing_was_verified() -> None:
    made = pieces() | {"verify": {"not_verified": "the project's command is not trusted"}}
    assert words(a_receipt(told=made), "verify") == ["not verified: the project's command is not trusted"]


@pytest.mark.parametrize("claimed", [2, ["a.py", "b.py"]])
def test_true_claims_are_counted(claimed: Any) -> None:
    found = words(a_receipt(claims={"files_changed": claimed}), "claims")
    assert found[1:] == ["2 claimed files, all as it says"]


def test_false_claims_are_named() -> None:
    found = words(a_receipt(claims={"absent": ["x.py"], "unknown_commits": ["abc"], "unseen": ["make"]}), "claims")
    assert found[1:] == [
        "claimed files that are not there: x.py",
        "claimed commits that do not exist: abc",
        "claimed commands that it never ran: make",
    ]


def test_many_files_are_counted_and_cut() -> None:
    files = [{"path": f"f{number}", "status": "M"} for number in range(30)]
    found = words(a_receipt(git={"files": files, "file_count": 700}), "changed")
    assert found[0].startswith("700 files") and len(found) == 12 and found[-1] == "and 690 more"


@pytest.mark.parametrize("name", PIECES)
def test_missing_or_malformed_pieces_are_skipped(name: str) -> None:
    others: tuple[Any, ...] = (None, [], "text", {}, 3)
    for value in others:
        made = a_receipt(told=pieces() | {name: value})
        assert lines(made)[0] == headline(made), value


def test_empty_receipt_shows_its_finding() -> None:
    bare = a_receipt(Finding.INFRA_ERROR, (), told={"stream": {}}).replace(coder="", model="")
    assert lines(bare)[0].startswith("fleet-1/2: infra_error")
    assert words(bare, "by") == ["an unknown coder"]
