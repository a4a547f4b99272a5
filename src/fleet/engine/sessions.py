"""Whether the next run goes on in the session of the one before. Pure.

A full context is never gone on with, nor is a session that did not come up, nor one that claimed what it had not done:
then the artifacts are the hand-over. Whose work failed its verify command goes on where it was.
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
#: What a session that said it was done is gone on with after.
NOT_DONE = (Finding.FAILED_VERIFY, Finding.INCOMPLETE)


def session_to_resume(coder: Coder, run: Run, last: Run | None) -> str:
    """The session that a new run goes on in; empty for a fresh one."""
    if last is None or not last.session or last.ending in AFRESH or last.finding == Finding.FABRICATED:
        return ""
    if last.ending == Ending.FINISHED and last.finding not in NOT_DONE:
        return ""
    if (last.coder, last.account) != (run.coder, run.account):
        return ""
    if not last.notes.get("answered") and not did_resume(last):
        return ""  # nothing was said in it: some coders do not even keep such a session
    if did_resume(last) and last.ending == Ending.FAILED and not last.tool_calls:
        return ""  # it did not come to anything: the session may be what is broken
    same_place = last.workspace == run.workspace
    return last.session if coder.resumes == ANYWHERE or (coder.resumes == SAME_CWD and same_place) else ""


def did_resume(run: Run) -> bool:
    """Whether a run went on in an earlier session."""
    return "before" in run.notes
