"""Comparison of two branches: files changed by one or both, and the difference between their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.proof.candidates import find_candidates
from fleet.core.errors import UsageError
from fleet.git.diffs import diff

if TYPE_CHECKING:
    from typing import Any

    from fleet.actions.proof.candidates import Candidate
    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.verification import Verification

MOST_FILES = 2_000
#: Maximum length of the difference in characters. Longer text is cut, with a note.
LARGEST = 2_000_000


class ComparedBranch(NamedTuple):
    """One of the two branches."""

    candidate: Candidate
    files: tuple[str, ...]

    @property
    def finding(self) -> str:
        """Return the finding of the last receipt, or "" if there is no receipt."""
        return self.candidate.receipt.finding if self.candidate.receipt else ""

    @property
    def verification(self) -> Verification | None:
        return self.candidate.verification

    def view(self) -> dict[str, Any]:
        seen = self.verification
        return self.candidate.view() | {
            "finding": self.finding or None,
            "is_current": self.candidate.is_current,
            "verify": seen.command if seen else None,
            "tests": {name: getattr(seen, name) if seen else None for name in ("passed", "failed", "skipped")},
            "runs": len(self.candidate.runs),
        }


class BranchComparison(NamedTuple):
    """Two branches, the files of each, and the difference between their tips."""

    one: ComparedBranch
    other: ComparedBranch
    text: str

    @property
    def both(self) -> list[str]:
        return sorted({*self.one.files} & {*self.other.files})

    def alone(self, side: ComparedBranch) -> list[str]:
        rest = self.other if side is self.one else self.one
        return sorted({*side.files} - {*rest.files})

    def view(self) -> dict[str, Any]:
        sides = [{**side.view(), "files_alone": self.alone(side)} for side in (self.one, self.other)]
        return {"sides": sides, "files_both": self.both, "difference": self.text}


def compare(
    fleet: Fleet, names: tuple[str, str], *, scope: NameScope, directory: str, patch: bool = False
) -> BranchComparison:
    """Compare two branches of one repository. The difference is a summary per file, or a full diff if `patch` is True.

    Raises the errors of `find_candidates`. Raises UsageError if the names do not select exactly two branches.
    """
    field = find_candidates(fleet, names, scope=scope, directory=directory, at_work=True)
    if len(field.candidates) != 2:
        why = "; ".join(f"{name}: {why}" for name, why in field.left_out)
        found = ", ".join(each.name for each in field.candidates[:5])
        raise UsageError(
            f"expected two branches, got {found or 'none'}{f' ({why})' if why else ''}", hint="pass two names"
        )
    changed = [diff(field.view, each.base, each.tip, names=True) for each in field.candidates]
    one, other = (ComparedBranch(each, _files(told)) for each, told in zip(field.candidates, changed, strict=True))
    between = diff(field.view, one.candidate.tip, other.candidate.tip, stat=not patch).decode("utf-8", "replace")
    return BranchComparison(one, other, _cut(between))


def _files(told: bytes) -> tuple[str, ...]:
    return tuple(told.decode("utf-8", "replace").splitlines()[:MOST_FILES])


def _cut(text: str) -> str:
    return text if len(text) <= LARGEST else f"{text[:LARGEST]}\n(truncated: the difference is longer)\n"
