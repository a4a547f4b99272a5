"""The dependency graph of a workflow: order, cycles, stages that can never start, and the stages of each loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.workflows.faults import nearest, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fleet.workflows.faults import Faults
    from fleet.workflows.written import Written


class Loop(NamedTuple):
    """The indexes of repeated stages: the first, the last and all between them."""

    first: int
    last: int
    members: frozenset[int]
    rounds: int
    until: str


class Graph:
    """The stages of a file by index. Check `is_sound` before you use anything that needs an order."""

    def __init__(self, stages: Sequence[Written], faults: Faults) -> None:
        self.stages = stages
        self.names: dict[str, int] = {}
        self._faults = faults
        self._take_names()
        self.needs = [tuple(self._resolved(number)) for number in range(len(stages))]
        self.order = self._ordered()
        self.is_sound = len(self.order) == len(stages)
        if not self.is_sound:
            self._tell_circles()
        self._above = self._ancestors()
        self.loop_of: dict[int, Loop] = {}
        #: Stages named in the prompt and the condition of each stage, by reference head. `checking` fills it.
        self.asks: list[dict[str, int]] = [{} for _ in stages]
        if self.is_sound:
            self._take_loops()

    def index(self, said: str | int) -> int | None:
        """Return the index of the stage with this name or number. Return None if it does not exist."""
        if isinstance(said, int):
            return said if 0 <= said < len(self.stages) else None
        return self.names.get(said)

    def is_above(self, upper: int, lower: int) -> bool:
        """Return True if stage `upper` always finishes before stage `lower` starts."""
        return bool(self._above[lower] >> upper & 1)

    def unknown(self, said: str | int) -> tuple[str, Callable[[], str]]:
        """Return the message for an unknown stage name or number, and a hint."""
        if isinstance(said, int):
            return f"there is no stage {said}", lambda: f"stages are numbered from 0 to {len(self.stages) - 1}."
        return f"there is no stage {short(said)}", lambda: nearest(said, self.names)

    def _take_names(self) -> None:
        for number, stage in enumerate(self.stages):
            if not stage.name:
                continue
            if stage.name in self.names:
                first = self.names[stage.name]
                message = f"stage {number} has the name of stage {first}, {stage.name!r}"
                self._faults.add((*stage.path, "name"), message, "give each stage its own name.")
            self.names.setdefault(stage.name, number)

    def _resolved(self, number: int) -> Iterator[int]:
        stage, seen = self.stages[number], set()
        for place, said in enumerate(stage.depends_on):
            found = self.index(said)
            path = (*stage.path, "depends_on", place)
            if found is None:
                self._faults.add(path, *self.unknown(said))
            elif found not in seen:
                seen.add(found)
                yield found
        if stage.inherits and not stage.depends_on:
            message = f"stage {stage.name!r} inherits a worktree, but depends on no stage"
            hint = 'name one in depends_on, or say worktree_strategy = "new".'
            self._faults.add((*stage.path, "worktree_strategy"), message, hint)

    def _ordered(self) -> list[int]:
        """Return the stages in dependency order. Stages in a cycle, or after one, are missing."""
        waiting = [len(needs) for needs in self.needs]
        below: list[list[int]] = [[] for _ in self.stages]
        for number, needs in enumerate(self.needs):
            for upper in needs:
                below[upper].append(number)
        order = [number for number, count in enumerate(waiting) if not count]
        for number in order:
            for lower in below[number]:
                waiting[lower] -= 1
                if not waiting[lower]:
                    order.append(lower)  # the outer loop continues over it: the list is a queue
        return order

    def _tell_circles(self) -> None:
        stuck = set(range(len(self.stages))) - set(self.order)
        seen: set[int] = set()
        circled: set[int] = set()
        for start in sorted(stuck):
            trail: list[int] = []
            at = start
            while at not in seen:
                seen.add(at)
                trail.append(at)
                at = next(need for need in self.needs[at] if need in stuck)
            if at in trail:
                circle = trail[trail.index(at) :]
                circled |= set(circle)
                self._tell_circle(circle)
        for number in sorted(stuck - circled):
            stage = self.stages[number]
            message = f"stage {stage.name!r} can never start: what it depends on goes round in a circle"
            self._faults.add((*stage.path, "depends_on"), message)

    def _tell_circle(self, circle: list[int]) -> None:
        stage = self.stages[min(circle)]
        at = circle.index(min(circle))
        names = [self.stages[number].name or str(number) for number in [*circle[at:], *circle[:at], circle[at]]]
        shown = names if len(names) <= 12 else [*names[:6], "…", *names[-5:]]
        message = f"stages depend on each other in a circle: {' → '.join(shown)}"
        self._faults.add((*stage.path, "depends_on"), message, "for going round use `repeat`.")

    def _ancestors(self) -> list[int]:
        """Return for each stage the set of its ancestors, as the bits of an integer."""
        above = [0] * len(self.stages)
        for number in self.order:
            for upper in self.needs[number]:
                above[number] |= above[upper] | 1 << upper
        return above

    def _take_loops(self) -> None:
        for number, stage in enumerate(self.stages):
            if stage.repeat is None:
                continue
            path = (*stage.path, "repeat")
            back_to = number if stage.repeat.back_to is None else self.index(stage.repeat.back_to)
            if back_to is None:
                self._faults.add((*path, "from"), *self.unknown(stage.repeat.back_to or ""))
                continue
            if back_to != number and not self.is_above(back_to, number):
                message = (
                    f"stage {stage.name!r} cannot repeat from {self.stages[back_to].name!r}: it does not depend on it"
                )
                self._faults.add((*path, "from"), message)
                continue
            members = self._between(back_to, number)
            until = stage.repeat.until or ("verify" if stage.verify else "content")
            self._take_loop(Loop(back_to, number, members, stage.repeat.at_most, until))

    def _between(self, first: int, last: int) -> frozenset[int]:
        inner = {number for number in self.order if self.is_above(first, number) and self.is_above(number, last)}
        return frozenset({first, last} | inner)

    def _take_loop(self, loop: Loop) -> None:
        stage = self.stages[loop.last]
        path = (*stage.path, "repeat")
        taken = sorted(member for member in loop.members if member in self.loop_of)
        if taken:
            name = self.stages[taken[0]].name
            self._faults.add(path, f"stage {name!r} is already in another loop", "loops cannot overlap.")
        elif len(loop.members) > 1 and stage.each is not None:
            hint = "let one stage behind them decide whether to go round again."
            self._faults.add(path, f"stage {stage.name!r} ends a loop of several stages, and is many by `each`", hint)
        else:
            self.loop_of |= dict.fromkeys(loop.members, loop)
