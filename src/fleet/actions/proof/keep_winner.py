"""Merging the best candidate and keeping the others: refs of fleet hold their tips even without the branches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.merge.choice import changes_rules
from fleet.actions.merge.merge import MergeOptions, merge
from fleet.core.errors import FleetError
from fleet.core.finding import Finding
from fleet.git.repository import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from fleet.actions.merge.merge import MergeResult
    from fleet.actions.proof.ranking import RankedCandidate
    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.git.view import View

KEPT = "refs/fleet/kept/"
#: The maximum number of refs for one name.
MOST_NAMES = 1000
#: Why a candidate without proof cannot be merged.
UNPROVEN = "not verified"


class KeptWinner(NamedTuple):
    """The result of the merge, and the refs of the other candidates."""

    merging: MergeResult
    kept: dict[str, str]  # the ref that keeps each other candidate, by its name

    @property
    def landed(self) -> bool:
        """Return True if the winner was merged, or its merge waits to be fetched."""
        return bool(self.merging.merged)

    def view(self) -> dict[str, Any]:
        return {**self.merging.view(), "kept": self.kept}


def refusal(best: RankedCandidate | None) -> str:
    """Return why the best candidate cannot be merged. Return "" if it can."""
    if best is None:
        return "no candidate is good enough"
    if best.finding != Finding.VERIFIED:
        return f"{best.candidate.name} is {best.finding}: {'; '.join(best.shown)}"
    return "" if best.candidate.task else f"{best.candidate.name} does not belong to a task: merge it with `git merge`"


def take(
    fleet: Fleet,
    view: View,
    best: RankedCandidate,
    others: Sequence[RankedCandidate],
    *,
    by: str,
    caller: Caller | None = None,
    tell: Callable[[str], None],
) -> KeptWinner:
    """Merge the best candidate, which was just verified, and keep the tips of the others. Raises FleetError."""
    if why := refusal(best):
        raise FleetError(f"nothing was merged: {why}", hint="run `fleet merge` to merge a branch that you choose")
    task = best.candidate.task
    assert task is not None
    if view.commit_of(f"refs/heads/{best.candidate.branch}") != best.candidate.tip:
        raise FleetError(f"{best.candidate.branch} moved since it was ranked", hint="run `fleet pick` again")
    if why := changes_rules(view, best.candidate.base, best.candidate.tip):
        name = best.candidate.name
        raise FleetError(
            f"nothing was merged: {name}: {why}", hint=f"run `fleet merge {name} --unverified` to merge it"
        )
    kept = keep(fleet, view, others)  # first, so that their work is safe whatever happens
    return KeptWinner(merge(fleet, [task.id], MergeOptions(), exact=[task.id], by=by, caller=caller, tell=tell), kept)


def outlook(fleet: Fleet, best: RankedCandidate) -> tuple[str, str]:
    """Return the command that merges the best candidate and where to, or "" and why it cannot be merged now."""
    if best.finding != Finding.VERIFIED:
        return "", UNPROVEN
    task = best.candidate.task
    if task is None:
        return f"git merge {best.candidate.name}", ""
    try:
        tried = merge(fleet, [task.id], MergeOptions(dry_run=True), exact=[task.id])
    except FleetError as error:
        return "", str(error)
    if tried.merged:
        return f"fleet merge {best.candidate.name}", tried.target
    left = tried.left_out[0]
    files = f" in {', '.join(left.files[:3])}" if left.files else ""
    return "", f"{left.why}{files}"


def keep(fleet: Fleet, view: View, entries: Sequence[RankedCandidate]) -> dict[str, str]:
    """Keep the tips of these candidates under fleet's refs, reusing existing refs. Return the refs by name."""
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
    """Return a ref name that already keeps this tip, else a free one. Raises FleetError if none is free."""
    names = [name, *(f"{name}-{number}" for number in range(2, MOST_NAMES))]
    free = next((each for each in names if known.get(each, tip) == tip), None)
    if free is None:
        raise FleetError(
            f"too many saved refs of {name}", hint="run `git for-each-ref refs/fleet/kept` to list the saved refs"
        )
    return free


def _plain(key: str) -> str:
    """Return a key as one component of a ref name. A branch has slashes, and one branch may be a folder of another."""
    return re.sub(r"[^A-Za-z0-9._-]|\.(?=\.|lock$|$)|^[.-]", "-", key)
