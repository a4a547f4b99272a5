"""Taking the best home, and keeping the others: their tips stay under refs of fleet's, whatever becomes of branches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.merge_choice import changes_rules
from fleet.actions.merging import Terms, merge
from fleet.core.errors import FleetError
from fleet.core.finding import Finding
from fleet.workspaces.repository import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from fleet.actions.candidates import Candidate
    from fleet.actions.merging import Merging
    from fleet.actions.ranking import Entry
    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.workspaces.view import View

KEPT = "refs/fleet/kept/"
#: More names for the same than anybody needs.
MOST_NAMES = 1000


class Taken(NamedTuple):
    """What became of the winner and of the others."""

    merging: Merging
    kept: dict[str, str]  # the name of each other, and the ref that keeps it

    @property
    def landed(self) -> bool:
        """Whether the winner is home, or waits to be fetched."""
        return bool(self.merging.merged)

    def view(self) -> dict[str, Any]:
        return {**self.merging.view(), "kept": self.kept}


def refusal(best: Entry | None) -> str:
    """Why the best is not merged; empty: it may be."""
    if best is None:
        return "none of them is any good"
    if best.finding != Finding.VERIFIED:
        return f"{best.candidate.name} is {best.finding}: {'; '.join(best.shown)}"
    return "" if best.candidate.task else f"{best.candidate.name} is no task's branch: `git merge` takes it"


def take(
    fleet: Fleet,
    view: View,
    best: Entry,
    others: Sequence[Entry],
    *,
    by: str,
    caller: Caller | None = None,
    tell: Callable[[str], None],
) -> Taken:
    """Merge the best, which was just verified, and keep the tips of the others. Raises FleetError."""
    if why := refusal(best):
        raise FleetError(f"nothing is merged: {why}", hint="`fleet merge` takes a branch that you choose.")
    task = best.candidate.task
    assert task is not None
    if view.commit_of(f"refs/heads/{best.candidate.branch}") != best.candidate.tip:
        raise FleetError(f"{best.candidate.branch} moved since it was looked at", hint="pick again.")
    if why := changes_rules(view, best.candidate.base, best.candidate.tip):
        name = best.candidate.name
        raise FleetError(f"nothing is merged: {name}: {why}", hint=f"`fleet merge {name} --unverified` merges it.")
    kept = keep(fleet, view, others)  # first: whatever happens, nothing of theirs is lost
    terms = Terms(unverified=not _was_proven(best.candidate))  # by the look that was just made, it is
    return Taken(merge(fleet, [task.id], terms, exact=[task.id], by=by, caller=caller, tell=tell), kept)


def _was_proven(candidate: Candidate) -> bool:
    """Whether its own receipt says of this very commit that it is good."""
    receipt, task = candidate.receipt, candidate.task
    if receipt is None or task is None or {receipt.finding, task.finding} != {Finding.VERIFIED}:
        return False
    seen = receipt.told.get("pieces", {}).get("git")
    return isinstance(seen, dict) and seen.get("tip") == candidate.tip


def keep(fleet: Fleet, view: View, entries: Sequence[Entry]) -> dict[str, str]:
    """Keep the tips of these under refs of fleet's; what is kept already stays. The refs, by name."""
    with locked(fleet.home, view.repository):
        told = view.text("for-each-ref", "--format=%(refname) %(objectname)", KEPT)
        known = dict(line.split(" ") for line in told.splitlines())
        found, orders = {}, {}
        for each in entries:
            ref = _ref(f"{KEPT}{_plain(each.candidate.key)}", each.candidate.tip, known)
            known[ref] = orders[ref] = each.candidate.tip
            found[each.candidate.name] = ref
        lines = "".join(f"update {ref} {tip}\n" for ref, tip in orders.items())
        view.git("update-ref", "--create-reflog", "--stdin", stdin=lines.encode())
    return found


def _ref(name: str, tip: str, known: dict[str, str]) -> str:
    """The name under which a tip is kept already, else one that is free."""
    names = [name, *(f"{name}-{number}" for number in range(2, MOST_NAMES))]
    free = next((each for each in names if known.get(each, tip) == tip), None)
    if free is None:
        raise FleetError(f"{name} was kept too often", hint="`git for-each-ref refs/fleet/kept` lists what is kept.")
    return free


def _plain(key: str) -> str:
    """A key as one part of a ref's name: a branch may have several, and one may be a folder to another."""
    return re.sub(r"[^A-Za-z0-9._-]|\.(?=\.|lock$|$)|^[.-]", "-", key)
