"""Decide whether the next run resumes the previous session. Pure.

A session is never resumed if its context was full, it did not start, it went over budget, or it claimed work that it
had not done. Then the artifacts hand over the work. A session whose work failed its verify command is resumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.coders.base import ANYWHERE, SAME_CWD
from fleet.core.finding import Finding
from fleet.core.run import Ending

if TYPE_CHECKING:
    from fleet.coders.base import Coder
    from fleet.core.run import Run

AFRESH = (Ending.CONTEXT_FULL, Ending.START_HANG, Ending.OVER_BUDGET)
#: Findings after which a session that reported success is resumed.
NOT_DONE = (Finding.FAILED_VERIFY, Finding.INCOMPLETE)


def session_to_resume(coder: Coder, run: Run, last: Run | None) -> str:
    """Return the session that a new run resumes. Return "" for a fresh session."""
    if last is None or not last.session or last.ending in AFRESH or last.finding == Finding.FABRICATED:
        return ""
    if last.ending == Ending.FINISHED and last.finding not in NOT_DONE:
        return ""
    if (last.coder, last.account) != (run.coder, run.account):
        return ""
    if not last.notes.get("answered") and not did_resume(last):
        return ""  # the model never answered: some coders do not keep such a session
    if did_resume(last) and last.ending == Ending.FAILED and not last.tool_calls:
        return ""  # the resumed session achieved nothing and may itself be broken
    same_place = last.workspace == run.workspace
    return last.session if coder.resumes == ANYWHERE or (coder.resumes == SAME_CWD and same_place) else ""


def did_resume(run: Run) -> bool:
    """Return True if a run resumed an earlier session."""
    return "before" in run.notes
