"""Findings from evidence. An agent's claim alone never makes a run `verified`."""

from typing import Any

import pytest

from fleet.core.finding import DONE, FINDINGS, NOBODYS, Evidence, Finding, judge_evidence
from fleet.core.run import Ending
from fleet.core.task import WORKTREE
from fleet.core.verification import Verification

ENDINGS = sorted(value for name, value in vars(Ending).items() if name.isupper())


def passed(**said: Any) -> Verification:
    return Verification(**{"command": "make check", "commit": "c", "base": "b", "status": 0, **said})


def seen(**said: Any) -> Evidence:
    """Return the evidence of a worktree run that used tools, changed files and claims to be done."""
    honest = {"ending": Ending.FINISHED, "tool_calls": 3, "workspace": WORKTREE, "changed": 2, "handed_in": True}
    return Evidence(**{**honest, **said})


NOTHING: dict[str, Any] = {"changed": 0, "tool_calls": 0}
PLAIN: dict[str, Any] = {"workspace": "directory"}


@pytest.mark.parametrize(
    ("what", "finding", "shown"),
    [
        (seen(verification=passed()), "verified", "`make check` exited with 0"),
        (seen(), "unverified", "no verify command"),
        (seen(not_verified="not trusted"), "unverified", "not trusted"),
        (seen(verification=passed(doubts=("no test ran",))), "unverified", "no test ran"),
        (seen(verification=passed(contested=("t.py",))), "unverified", "its own changes to tests: t.py"),
        (seen(verification=passed(contested=("t.py",), without_them=1)), "unverified", "its own changes to tests"),
        (seen(verification=passed(contested=("t.py",), without_them=0)), "verified", "exited with 0"),
        (
            seen(verification=passed(status=2, tail="a\nb\n\nc\nd")),
            "failed_verify",
            "exit code 2; its last lines: c | d",
        ),
        (
            seen(verification=passed(status=None, why="did not end within 1 s")),
            "failed_verify",
            "did not end within 1 s",
        ),
        (seen(changed=0), "no_changes", "no change"),
        (seen(changed=0, commits=1), "no_changes", "no change"),  # an empty commit
        (seen(changed=1, blank=True), "no_changes", "only white space"),
        (seen(blank=True, verification=passed(base_status=1)), "verified", "exited with 0"),
        (seen(blank=True, verification=passed(base_status=0)), "no_changes", "only white space"),
        (seen(**NOTHING, handed_in=False), "fabricated", "never used a tool"),
        (seen(**NOTHING), "fabricated", "never used a tool"),
        (seen(**NOTHING, artifact=True), "no_changes", "no change"),
        (seen(tool_calls=0), "unverified", "no verify command"),  # the files exist, whatever its stream says
        (seen(**NOTHING, tells_tools=False, handed_in=False), "incomplete", "left no result"),
        (seen(**NOTHING, tells_tools=False), "no_changes", "no change"),
        (seen(absent=("a", "b", "c", "d", "e")), "fabricated", "do not exist: a, b, c and 2 more"),
        (seen(absent=("a",) * 3, verification=passed()), "fabricated", "do not exist: a"),
        (seen(absent=("a",), verification=passed()), "verified", "exited with 0"),
        (seen(absent=("a",), absent_artifact=True), "fabricated", "do not exist: a"),
        (seen(absent=("a",), blank=True), "fabricated", "do not exist: a"),
        (seen(absent=("a",), **PLAIN), "fabricated", "do not exist: a"),
        (seen(missing="its branch is gone", verification=passed()), "incomplete", "its branch is gone"),
        (seen(missing="its branch is gone", unknown_commits=("abc1234",)), "incomplete", "its branch is gone"),
        (seen(untouched=("a",), changed=0), "fabricated", "do not exist: a"),
        (seen(untouched=("a",)), "unverified", "no verify command"),
        (seen(untouched=("a",), changed=0, claimed_no_changes=True), "no_changes", "no change"),
        (seen(unknown_commits=("abc1234",)), "fabricated", "unknown commits: abc1234"),
        (seen(unseen=("pytest -q",)), "fabricated", "never ran: pytest -q"),
        (
            seen(claimed_blocked="the agent reports that it is blocked: why"),
            "incomplete",
            "the agent reports that it is blocked: why",
        ),
        (seen(claimed_blocked="blocked", verification=passed()), "incomplete", "blocked"),
        (seen(claimed_blocked="blocked", changed=0), "incomplete", "blocked"),
        (seen(claimed_blocked="blocked", **NOTHING), "incomplete", "blocked"),  # it does not claim any work
        (seen(claimed_blocked="blocked", absent=("a",) * 3), "fabricated", "do not exist: a"),
        (seen(claimed_blocked="blocked", untouched=("a",), changed=0), "fabricated", "do not exist: a"),
        (seen(claimed_blocked="blocked", strayed=("it wrote to ~",)), "out_of_scope", "it wrote to ~"),
        (seen(strayed=("it wrote to ~",), verification=passed()), "out_of_scope", "it wrote to ~"),
        (seen(strayed=("it wrote to ~",), ending="rate_limited"), "out_of_scope", "it wrote to ~"),
        (seen(**PLAIN, changed=None), "unverified", "no verify command"),
        (seen(**PLAIN, changed=None, tool_calls=0), "no_changes", "did nothing else"),  # handed in, without git
        (seen(**PLAIN, changed=None, formalities=2), "unverified", "no verify command"),
        (seen(**PLAIN, changed=None, formalities=3), "no_changes", "did nothing else"),
        (seen(**PLAIN, changed=None, formalities=3, artifact=True), "unverified", "no verify command"),
        (seen(**PLAIN, changed=None, tool_calls=0, tells_tools=False), "unverified", "no verify command"),
        (seen(**PLAIN, changed=0, formalities=3), "no_changes", "did nothing else"),
        (seen(formalities=3), "unverified", "no verify command"),
        (seen(**PLAIN, changed=None, tool_calls=0, handed_in=False), "fabricated", "never used a tool"),
        (seen(**PLAIN, changed=0), "unverified", "no verify command"),
        (seen(**PLAIN, changed=0, handed_in=False), "no_changes", "no change"),
        (seen(**PLAIN, changed=0, handed_in=False, artifact=True), "unverified", "no verify command"),
        (seen(**PLAIN, verification=passed()), "unverified", "plain directory"),
    ],
)
def test_finding_follows_from_the_evidence(what: Evidence, finding: str, shown: str) -> None:
    found = judge_evidence(what)
    assert found.finding == finding
    assert shown in "; ".join(found.shown)


@pytest.mark.parametrize("ending", ENDINGS)
def test_unfinished_run_is_incomplete_or_an_infrastructure_error(ending: str) -> None:
    found = judge_evidence(seen(ending=ending, reason="why", verification=passed()))
    if ending in DONE:
        assert found.finding == "verified"
    else:
        assert (found.finding, found.shown) == ("infra_error" if ending in NOBODYS else "incomplete", ("why",))


def test_only_a_passed_command_makes_a_run_verified() -> None:
    claims = {"handed_in": True, "tool_calls": 99, "commits": 9, "artifact": True, "claimed_no_changes": False}
    for ending in ENDINGS:
        for made in (None, passed(status=1), passed(status=None, why="was stopped"), passed(doubts=("x",))):
            assert judge_evidence(seen(ending=ending, verification=made, **claims)).finding != Finding.VERIFIED


def test_each_value_is_a_finding() -> None:
    assert len(FINDINGS) == 8 and all(word.islower() for word in FINDINGS)
