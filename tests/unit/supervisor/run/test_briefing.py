"""When the next run resumes the session of the last one, and when it starts afresh."""

from typing import Any

import pytest

from builders import NOON
from fleet.coders.base import ANYWHERE, SAME_CWD, Coder
from fleet.core.run import Ending, Run
from fleet.supervisor.run.briefing import did_resume, session_to_resume
from fleet.supervisor.run.fold import going_on

ENDINGS = sorted(value for name, value in vars(Ending).items() if name.isupper())
FRESH = {"context_full", "start_hang", "over_budget", "finished"}


class Resuming(Coder):
    """A coder that resumes in the same directory."""

    name = "resuming"
    resumes = SAME_CWD


class Travelling(Resuming):
    """A coder that resumes in any directory."""

    resumes = ANYWHERE


def a_run(**said: Any) -> Run:
    given = {
        "coder": "resuming",
        "session": "s-1",
        "workspace": "/w",
        "ending": "stalled",
        "folded": '{"answered": true}',
        **said,
    }
    return Run(id="t/1", task_id="t", number=1, epoch=1, owner="o", started_at=NOON, **given)


NEXT = a_run(session="", ending="")


@pytest.mark.parametrize("ending", ENDINGS)
def test_session_is_resumed_after_every_ending_except_a_full_or_broken_one(ending: str) -> None:
    found = session_to_resume(Resuming(), NEXT, a_run(ending=ending))
    assert found == ("" if ending in FRESH else "s-1")


@pytest.mark.parametrize(
    ("finding", "session"), [("failed_verify", "s-1"), ("incomplete", "s-1"), ("fabricated", ""), ("verified", "")]
)
def test_session_is_resumed_after_failed_verification_but_not_after_fabrication(finding: str, session: str) -> None:
    assert session_to_resume(Resuming(), NEXT, a_run(ending="finished", finding=finding)) == session
    hung = a_run(ending="hung_after_result", finding=finding)
    assert session_to_resume(Resuming(), NEXT, hung) == (session or ("s-1" if finding == "verified" else ""))


@pytest.mark.parametrize(
    "last", [None, a_run(session=""), a_run(coder="codex"), a_run(account="other"), a_run(workspace="/elsewhere")]
)
def test_session_starts_afresh_with_another_coder_account_or_directory(last: Run | None) -> None:
    assert session_to_resume(Resuming(), NEXT, last) == ""


def test_session_without_output_is_not_resumed() -> None:
    assert session_to_resume(Resuming(), NEXT, a_run(folded="{}")) == ""
    silent_after_all = going_on(a_run(folded="{}"), a_run())
    assert session_to_resume(Resuming(), NEXT, silent_after_all) == "s-1"


def test_session_is_resumed_from_another_directory_when_the_coder_can() -> None:
    assert session_to_resume(Travelling(), NEXT, a_run(workspace="/elsewhere")) == "s-1"
    assert session_to_resume(Coder(), NEXT, a_run()) == ""


def test_resumed_session_that_failed_at_once_is_not_resumed_again() -> None:
    resumed = going_on(a_run(ending="failed"), a_run())
    assert did_resume(resumed) and not did_resume(a_run())
    assert session_to_resume(Resuming(), NEXT, resumed) == ""
    assert session_to_resume(Resuming(), NEXT, resumed.replace(tool_calls=1)) == "s-1"
