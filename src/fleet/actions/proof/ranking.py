"""The ranking of candidates. Pure: based on fleet's own findings, never on claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.finding import Evidence, Finding, judge_evidence
from fleet.core.record import Record
from fleet.core.run import Ending
from fleet.core.task import WORKTREE
from fleet.core.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fleet.actions.proof.candidates import Candidate

#: Findings from the best to the worst.
ORDER = (
    Finding.VERIFIED,
    Finding.UNVERIFIED,
    Finding.FAILED_VERIFY,
    Finding.INCOMPLETE,
    Finding.INFRA_ERROR,
    Finding.NO_CHANGES,
    Finding.FABRICATED,
    Finding.OUT_OF_SCOPE,
)
#: Findings about how the work was made. A later verification cannot clear them.
STAYS = (Finding.FABRICATED, Finding.OUT_OF_SCOPE)
#: Findings that can win.
GOOD = (Finding.VERIFIED, Finding.UNVERIFIED)
UNKNOWN = float("inf")


class RankedCandidate(Record):
    """A candidate and the result of fleet's verification."""

    candidate: Candidate
    finding: str
    shown: tuple[str, ...] = ()
    verification: Verification | None = None

    @property
    def passed(self) -> int:
        return (self.verification.passed if self.verification else None) or 0

    @property
    def lines(self) -> int:
        return self.candidate.size.added + self.candidate.size.removed

    @property
    def standing(self) -> tuple[int, int]:
        """Return the measure of quality: the finding, then the number of passed tests. Equal values tie."""
        return _place(self.finding), -self.passed

    def view(self) -> dict[str, Any]:
        seen = self.verification
        return self.candidate.view() | {
            "finding": self.finding,
            "shown": list(self.shown),
            "tests": {name: getattr(seen, name) if seen else None for name in ("passed", "failed", "skipped")},
            "verify": seen.as_dict() if seen else None,
        }


def entry(candidate: Candidate, verification: Verification | None, *, not_verified: str = "") -> RankedCandidate:
    """Return the entry of a candidate, from a verification that was the same for all candidates."""
    receipt = candidate.receipt
    if receipt is not None and receipt.finding in STAYS:
        shown = tuple(str(each) for each in receipt.told.get("shown") or ())
        return RankedCandidate(candidate=candidate, finding=receipt.finding, shown=shown, verification=verification)
    seen = Evidence(
        ending=Ending.FINISHED,
        tells_tools=False,  # the run was judged before
        handed_in=True,
        workspace=WORKTREE,
        commits=1,
        changed=candidate.size.files,
        blank=_is_blank(candidate),
        verification=verification,
        not_verified=not_verified,
    )
    found = judge_evidence(seen)
    return RankedCandidate(candidate=candidate, finding=found.finding, shown=found.shown, verification=verification)


def ranked(entries: Iterable[RankedCandidate]) -> list[RankedCandidate]:
    """Sort the best first: by finding, passed tests, size of the change, time and cost."""
    return sorted(entries, key=_order)


def tied(entries: list[RankedCandidate]) -> list[RankedCandidate]:
    """Return the entries as good as the first of a ranked list, including the first. Return [] if none is good."""
    if not entries or entries[0].finding not in GOOD:
        return []
    return [each for each in entries if each.standing == entries[0].standing]


def tie_break(first: RankedCandidate, second: RankedCandidate) -> str:
    """Return why the first of two tied entries comes first."""
    one, other = _order(first)[1:], _order(second)[1:]
    words = ("it changes fewer lines", "it took less time", "it cost less", "by name only")
    return next((said for said, a, b in zip(words, one, other, strict=True) if a != b), words[-1])


def with_first(entries: list[RankedCandidate], best: RankedCandidate) -> list[RankedCandidate]:
    """Return the entries with `best` moved to the front."""
    return [best, *(each for each in entries if each is not best)]


def winner(entries: list[RankedCandidate]) -> RankedCandidate | None:
    """Return the first of a ranked list. Return None if it is not good."""
    return entries[0] if entries and entries[0].finding in GOOD else None


def _order(each: RankedCandidate) -> tuple[tuple[int, int], int, float, float, str]:
    candidate = each.candidate
    seconds = UNKNOWN if candidate.seconds is None else candidate.seconds
    cost = UNKNOWN if candidate.cost_usd is None else candidate.cost_usd
    return each.standing, each.lines, seconds, cost, candidate.name


def _is_blank(candidate: Candidate) -> bool:
    """Return True if the receipt saw only white space change, and the candidate's tip is still that commit."""
    return candidate.is_current and bool(candidate.piece("git").get("blank"))


def _place(finding: str) -> int:
    return ORDER.index(finding) if finding in ORDER else len(ORDER)
