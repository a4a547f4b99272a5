"""Applying a transaction's writes to bd call by call, and undoing them if a call fails."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fleet.core.errors import AlreadyClaimed, ClaimLost, FleetError, StoreAway
from fleet.store.beads_program import GUARDED, Refused, objects
from fleet.store.beads_push import claim_steps, steps, undoing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.core.task import Task
    from fleet.store.beads_program import Answer, Bd
    from fleet.store.beads_push import Changes, Step

log = logging.getLogger(__name__)


class Telling:
    """A set of changes, the bd calls that apply them, and the progress so far."""

    def __init__(self, bd: Bd, changes: Changes, *, fenced: bool) -> None:
        self._bd, self._changes, self._fenced = bd, changes, fenced
        self._steps = steps(changes, fenced=fenced)
        self._told: set[str] = set()
        self._linked = False

    def __bool__(self) -> bool:
        return bool(self._steps)

    def run(self) -> None:
        """Make all calls. Raises Refused, ClaimLost, AlreadyClaimed or StoreAway at the first failure."""
        for step in self._steps:
            self._run(step)
            self._linked |= step.argv[0] == "batch"

    def run_anyway(self) -> None:
        """Make all calls that bd accepts.

        If bd refuses a call, someone else changed the task, which then stays as it is.
        """
        for step in self._steps:
            try:
                self._run(step)
            except StoreAway as error:
                log.warning("bd keeps what came to nothing: %s", error)
                return
            except FleetError as error:
                log.info("bd does not take back what came to nothing: %s", error)

    def reverse(self) -> Telling:
        """Return the calls that undo everything applied so far."""
        changes = undoing(self._changes, self._told, linked=self._linked)
        return Telling(self._bd, changes, fenced=self._fenced)

    def _run(self, step: Step) -> None:
        if "--claim" in step.argv:
            return self._claim(step)
        told = ("--json",) if step.argv[0] == "update" else ()
        answer = self._bd.ask(*step.words, *told, actor=step.actor, text=step.text)
        applied = _applied(step, answer)
        self._told |= applied
        if answer.code == GUARDED:
            held = next(each.before for each in self._changes.tasks if each.before and each.before.id in step.ids)
            raise ClaimLost(held.id, held.epoch)
        # an older bd exits with 0 if only some of the tasks were changed
        if answer.code or not applied.issuperset(step.ids):
            raise Refused(answer.fault)
        if step.argv[0] == "import":
            for skipped in objects(answer.out)[0].get("skipped_dependencies") or () if objects(answer.out) else ():
                raise Refused(f"dependency {skipped}")
        return None

    def _claim(self, step: Step) -> None:
        taken = [(each.before, each.after) for each in self._changes.tasks if each.after and each.after.id in step.ids]
        lost = take(self._bd, [(before, after) for before, after in taken if before and after])
        self._told |= set(step.ids) - set(lost)
        if lost:
            raise AlreadyClaimed(next(iter(lost.values())))


def take(bd: Bd, pairs: Sequence[tuple[Task, Task]]) -> dict[str, str]:
    """Claim tasks in bd. Return the tasks that bd did not give to us, with reasons. Raises StoreAway."""
    lost: dict[str, str] = {}
    for step in claim_steps(pairs):
        answer = bd.ask(*step.words, actor=step.actor)
        if "--claim" in step.argv:
            held = {each.get("id"): each for each in objects(answer.out)}
            for key in step.ids:
                if held.get(key, {}).get("assignee") != step.actor:
                    lost[key] = answer.fault
    return lost


def _applied(step: Step, answer: Answer) -> set[str]:
    """Return the tasks that a call of bd changed."""
    if step.argv[0] == "update":
        return {str(each.get("id")) for each in objects(answer.out)} & set(step.ids)
    return set() if answer.code else {*step.ids, *step.inside}
