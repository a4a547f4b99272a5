"""Several branches on top of one another: those that fit are put there, proven together, and the bad ones found.

As many proofs as halving needs: one where all are good, about log2(n) more for each bad one among n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleet.workspaces.trials import Change, Trials

    Prove = Callable[[str, tuple[Change, ...]], "Proof"]

#: From so many bad ones on, more are expected.
MANY = 3
TARGET_FAILS = "the target itself fails its verify command"


class Proof(Record):
    """Whether a commit is good, and how it showed."""

    ok: bool
    words: str = ""
    tail: str = ""


class Layer(Record):
    """A branch that lies on those below it."""

    change: Change
    commit: str


class Refused(Record):
    """A branch that is left out, and why."""

    change: Change
    why: str
    files: tuple[str, ...] = ()
    tail: str = ""


class Pile(Record):
    """Branches on top of a commit, in their order, and those that are left out."""

    base: str
    layers: tuple[Layer, ...] = ()
    refused: tuple[Refused, ...] = ()

    @property
    def top(self) -> str:
        return self.layers[-1].commit if self.layers else self.base

    def below(self, count: int) -> str:
        """The commit that holds the first so many."""
        return self.layers[count - 1].commit if count else self.base

    def upto(self, count: int) -> tuple[Change, ...]:
        return tuple(layer.change for layer in self.layers[:count])


def pile_up(trials: Trials, base: str, changes: Sequence[Change]) -> Pile:
    """Put branches on a commit, one after the other; one in conflict is left out. Raises GitFault."""
    layers: list[Layer] = []
    refused: list[Refused] = []
    onto = base
    for change in changes:
        tried = trials.put(change, onto)
        if tried.commit:
            onto = tried.commit
            layers.append(Layer(change=change, commit=onto))
        else:
            refused.append(Refused(change=change, why=tried.why, files=tried.files))
    return Pile(base=base, layers=tuple(layers), refused=tuple(refused))


def without_bad(trials: Trials, base: str, changes: Sequence[Change], prove: Prove) -> Pile:
    """The branches that fit and are good together; the others are refused, each with what it failed by.

    `prove` is asked about a commit and the branches in it. Where the target fails by itself, nothing can be told.
    """
    pile, sound = pile_up(trials, base, changes), 0
    bad: list[Refused] = []
    # Most are good: all at once. Where several were not, one after the other, and more as long as that goes well.
    while failing := _failing(pile, sound, 1 if len(bad) >= MANY else len(pile.layers), prove):
        if not bad and not (alone := prove(base, ())).ok:
            return _all_refused(pile, alone)
        sound, proof = _first_bad(pile, failing, prove)
        bad.append(Refused(change=pile.layers[sound].change, why=proof.words, tail=proof.tail))
        pile = _without(trials, pile, changes, sound)
    order = {change.name: number for number, change in enumerate(changes)}
    refused = sorted((*pile.refused, *bad), key=lambda each: order[each.change.name])
    return pile.replace(refused=tuple(refused))


class _Failing(NamedTuple):
    """So many layers are good, and so many are not."""

    good: int
    fails: int
    proof: Proof


def _failing(pile: Pile, good: int, step: int, prove: Prove) -> _Failing | None:
    """Where a pile fails, of which the first so many layers are good; none: nowhere."""
    while good < len(pile.layers):
        upto = min(good + step, len(pile.layers))
        proof = prove(pile.below(upto), pile.upto(upto))
        if not proof.ok:
            return _Failing(good, upto, proof)
        good, step = upto, 2 * step
    return None


def _first_bad(pile: Pile, failing: _Failing, prove: Prove) -> tuple[int, Proof]:
    """The lowest layer with which the pile fails, found by halves."""
    good, fails, proof = failing
    while fails - good > 1:
        half = (good + fails) // 2
        tried = prove(pile.below(half), pile.upto(half))
        if tried.ok:
            good = half
        else:
            fails, proof = half, tried
    return fails - 1, proof


def _without(trials: Trials, pile: Pile, changes: Sequence[Change], at: int) -> Pile:
    """The pile without one branch: what lay above it is put on anew, with what had collided with it perhaps."""
    kept, bad = pile.layers[:at], pile.layers[at].change
    order = {change.name: number for number, change in enumerate(changes)}
    below = tuple(each for each in pile.refused if order[each.change.name] < order[bad.name])
    again = [change for change in changes if order[change.name] > order[bad.name]]
    # What an earlier proof found bad is in neither, and stays out.
    known = {layer.change.name for layer in pile.layers} | {each.change.name for each in pile.refused}
    upper = pile_up(trials, pile.below(at), [change for change in again if change.name in known])
    return Pile(base=pile.base, layers=(*kept, *upper.layers), refused=(*below, *upper.refused))


def _all_refused(pile: Pile, proof: Proof) -> Pile:
    why = f"{TARGET_FAILS}: {proof.words}"
    lost = tuple(Refused(change=layer.change, why=why, tail=proof.tail) for layer in pile.layers)
    return Pile(base=pile.base, refused=(*pile.refused, *lost))
