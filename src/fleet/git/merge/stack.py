"""Stacking several branches: put those that fit on top of each other, verify them together, and find the bad ones.

The number of proofs is that of a binary search: one if all branches are good, and about log2(n) more for each bad one
among n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleet.git.merge.trial import BranchToMerge, Trials

    Prove = Callable[[str, tuple[BranchToMerge, ...]], "Proof"]

#: After this many bad branches, more are expected.
MANY = 3
TARGET_FAILS = "the target itself fails its verify command"


class Proof(Record):
    """The result of verifying a commit."""

    ok: bool
    words: str = ""
    tail: str = ""


class StackLayer(Record):
    """A branch on top of the ones below it."""

    change: BranchToMerge
    commit: str


class RefusedBranch(Record):
    """A branch that is left out, and the reason."""

    change: BranchToMerge
    why: str
    files: tuple[str, ...] = ()
    tail: str = ""


class MergeStack(Record):
    """Branches on top of a commit, in order, and the branches that are left out."""

    base: str
    layers: tuple[StackLayer, ...] = ()
    refused: tuple[RefusedBranch, ...] = ()

    @property
    def top(self) -> str:
        return self.layers[-1].commit if self.layers else self.base

    def below(self, count: int) -> str:
        """Return the commit that contains the first `count` layers."""
        return self.layers[count - 1].commit if count else self.base

    def upto(self, count: int) -> tuple[BranchToMerge, ...]:
        return tuple(layer.change for layer in self.layers[:count])


def pile_up(trials: Trials, base: str, changes: Sequence[BranchToMerge]) -> MergeStack:
    """Put branches on a commit, one on top of the other. Branches in conflict are left out. Raises GitFault."""
    layers: list[StackLayer] = []
    refused: list[RefusedBranch] = []
    onto = base
    for change in changes:
        tried = trials.put(change, onto)
        if tried.commit:
            onto = tried.commit
            layers.append(StackLayer(change=change, commit=onto))
        else:
            refused.append(RefusedBranch(change=change, why=tried.why, files=tried.files))
    return MergeStack(base=base, layers=tuple(layers), refused=tuple(refused))


def without_bad(trials: Trials, base: str, changes: Sequence[BranchToMerge], prove: Prove) -> MergeStack:
    """Return the branches that fit and pass together. The others are refused, each with its failure.

    `prove` gets a commit and the branches in it. If the target itself fails, all are refused.
    """
    pile, sound = pile_up(trials, base, changes), 0
    bad: list[RefusedBranch] = []
    # Most branches are good, so all are tried at once. After several bad ones, they are tried one by one, then in
    # growing steps while they pass.
    while failing := _find_failing(pile, sound, 1 if len(bad) >= MANY else len(pile.layers), prove):
        if not bad and not (alone := prove(base, ())).ok:
            return _refuse_all(pile, alone)
        sound, proof = _find_first_bad(pile, failing, prove)
        bad.append(RefusedBranch(change=pile.layers[sound].change, why=proof.words, tail=proof.tail))
        pile = _leave_out(trials, pile, changes, sound)
    order = {change.name: number for number, change in enumerate(changes)}
    refused = sorted((*pile.refused, *bad), key=lambda each: order[each.change.name])
    return pile.replace(refused=tuple(refused))


class _Failing(NamedTuple):
    """The numbers of layers up to which the pile is good, and up to which it fails."""

    good: int
    fails: int
    proof: Proof


def _find_failing(pile: MergeStack, good: int, step: int, prove: Prove) -> _Failing | None:
    """Return where a pile fails, given that its first `good` layers pass, or None."""
    while good < len(pile.layers):
        upto = min(good + step, len(pile.layers))
        proof = prove(pile.below(upto), pile.upto(upto))
        if not proof.ok:
            return _Failing(good, upto, proof)
        good, step = upto, 2 * step
    return None


def _find_first_bad(pile: MergeStack, failing: _Failing, prove: Prove) -> tuple[int, Proof]:
    """Return the lowest layer with which the pile fails, found by binary search."""
    good, fails, proof = failing
    while fails - good > 1:
        half = (good + fails) // 2
        tried = prove(pile.below(half), pile.upto(half))
        if tried.ok:
            good = half
        else:
            fails, proof = half, tried
    return fails - 1, proof


def _leave_out(trials: Trials, pile: MergeStack, changes: Sequence[BranchToMerge], at: int) -> MergeStack:
    """Return the pile without one branch.

    The layers above it are put on again, and so are branches that may have conflicted only with it.
    """
    kept, bad = pile.layers[:at], pile.layers[at].change
    order = {change.name: number for number, change in enumerate(changes)}
    below = tuple(each for each in pile.refused if order[each.change.name] < order[bad.name])
    again = [change for change in changes if order[change.name] > order[bad.name]]
    # Branches that an earlier proof found bad are in neither and stay out.
    known = {layer.change.name for layer in pile.layers} | {each.change.name for each in pile.refused}
    upper = pile_up(trials, pile.below(at), [change for change in again if change.name in known])
    return MergeStack(base=pile.base, layers=(*kept, *upper.layers), refused=(*below, *upper.refused))


def _refuse_all(pile: MergeStack, proof: Proof) -> MergeStack:
    why = f"{TARGET_FAILS}: {proof.words}"
    lost = tuple(RefusedBranch(change=layer.change, why=why, tail=proof.tail) for layer in pile.layers)
    return MergeStack(base=pile.base, refused=(*pile.refused, *lost))
