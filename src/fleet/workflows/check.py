"""The dependency graph of a workflow: order, cycles, stages that can never start, and the stages of each loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.core.finding import FINDINGS
from fleet.workflows import conditions
from fleet.workflows.conditions import BadCondition
from fleet.workflows.faults import nearest, short
from fleet.workflows.references import FIELDS, THIS, VARIABLE, Reference, bare_reference, in_template
from fleet.workflows.results import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fleet.workflows.faults import Faults, Path
    from fleet.workflows.written import WrittenStage


MOST_VARIABLES = 500
#: Maximum number of stages in a plan, with all rounds and items. A queue can hold it, and no one needs more.
LARGEST_PLAN = 10_000
MOST_EDGES = 200_000
_SETS = {"status": (*STATUSES, conditions.MIXED), "finding": (*FINDINGS, conditions.MIXED)}


class KnownNames(NamedTuple):
    """Facts about this installation that the file does not contain."""

    coder: Callable[[str], bool]
    account: Callable[[str, str], bool] = lambda coder, account: True  # the coder may be empty


def check(graph: Graph, known: KnownNames, faults: Faults) -> None:
    knows = known.coder
    unknown = {coder for coder in {stage.coder for stage in graph.stages} if coder and not knows(coder)}
    for number, stage in enumerate(graph.stages):
        if stage.coder in unknown:
            faults.add(
                (*stage.path, stage.spelled["coder"]),
                f"unknown coder {stage.coder!r}",
                "run `fleet coders` to list them",
            )
        elif stage.account and not stage.requires and not stage.host and not known.account(stage.coder, stage.account):
            whose = f"{stage.coder} has no account" if stage.coder else "no coder has an account"
            faults.add((*stage.path, "account"), f"{whose} {stage.account!r}", "run `fleet accounts` to list them")
        _check_prompt(graph, number, faults)
        _check_conditions(graph, number, faults)
        _check_list(graph, number, faults)
    if graph.is_sound and not faults:
        _check_size(graph, faults)


def _check_prompt(graph: Graph, number: int, faults: Faults) -> None:
    stage = graph.stages[number]
    path = (*stage.path, stage.spelled.get("prompt", "prompt_template"))
    if sum(1 for _ in VARIABLE.finditer(stage.prompt)) > MOST_VARIABLES:
        faults.add(path, f"more than {MOST_VARIABLES} variables in one prompt")
        return
    for reference, said in in_template(stage.prompt).items():
        name = f"the variable {said}"
        target = _target(graph, reference)
        if target is not None and reference.field not in FIELDS:
            faults.add(path, f"{name} uses a field that no stage has", nearest(reference.field, FIELDS), words=said)
        elif reference.field in FIELDS:
            _check_reference(graph, number, reference, (path, name, said), faults)


def _check_conditions(graph: Graph, number: int, faults: Faults) -> None:
    stage = graph.stages[number]
    if stage.when:
        _check_condition(graph, number, stage.when, (*stage.path, "when"), faults)
    if stage.repeat is not None and stage.repeat.until:
        text = conditions.until_of(stage.repeat.until)
        _check_condition(graph, number, text, (*stage.path, "repeat", "until"), faults)


def _check_list(graph: Graph, number: int, faults: Faults) -> None:
    stage = graph.stages[number]
    reference = bare_reference(stage.each.of) if stage.each else None
    if reference is None:
        return
    path, name, target = (*stage.path, "each"), f"the list {reference}", _target(graph, reference)
    if target is not None and _is_of_same_loop(graph, target, number) and not graph.is_above(target, number):
        other = graph.stages[target].name
        faults.add(path, f"{name} is of stage {other!r}, which has not run when {stage.name!r} does for the first time")
        return
    _check_reference(graph, number, reference, (path, name, ""), faults)


def _check_condition(graph: Graph, number: int, text: str, path: Path, faults: Faults) -> None:
    is_until = path[-1] == "until"
    try:
        found = list(conditions.references(conditions.parse(text)))
    except BadCondition as error:
        hint = 'write it like: stages.review.status == "completed", or stages["a b"].status if a name has blanks'
        faults.add(path, f"bad condition {text[:60]!r}: {error}", hint)
        return
    for reference, compared in found:
        words = _SETS.get(reference.field)
        if words and compared is not None and compared not in words:
            faults.add(path, f"{reference} is never {compared!r}", nearest(compared, words))
        if (reference.head == THIS) != is_until:
            other = "of the stage itself: write it without a stage's name" if is_until else "of another stage"
            faults.add(path, f"the condition asks for {reference.field}, but may only use fields {other}")
        elif not is_until:
            _check_reference(graph, number, reference, (path, f"the condition's {reference}", ""), faults)


def _check_reference(
    graph: Graph, number: int, reference: Reference, said: tuple[Path, str, str], faults: Faults
) -> None:
    """Report a reference to an unknown stage, or to one whose result is not available in time.

    A stage can only use stages that end before it starts, or an earlier round of its own loop.
    """
    path, name, words = said
    target = _target(graph, reference)
    if target is None:
        message, hint = graph.unknown(reference.name if reference.number is None else reference.number)
        faults.add(path, f"{name}: {message}", hint, words=words)
        return
    graph.asks[number][reference.head] = target
    if not graph.is_sound or graph.is_above(target, number):
        return
    if _is_of_same_loop(graph, target, number):
        return
    own, other = graph.stages[number].name, graph.stages[target].name
    whose = "the stage itself" if target == number else f"stage {other!r}, on which {own!r} does not depend"
    remedy = f"add {other!r} to depends_on" if target != number else ""
    faults.add(path, f"{name} is about {whose}", remedy, words=words)


def _is_of_same_loop(graph: Graph, one: int, other: int) -> bool:
    return one in graph.loop_of and graph.loop_of[one] is graph.loop_of.get(other)


def _target(graph: Graph, reference: Reference) -> int | None:
    return graph.index(reference.name if reference.number is None else reference.number)


def _check_size(graph: Graph, faults: Faults) -> None:
    """Report a plan that is too large. This runs before unrolling: a short file can define a billion stages."""

    def copies(number: int) -> int:
        loop = graph.loop_of.get(number)
        each = graph.stages[number].each
        return (len(each.items) if each else 1) * (loop.rounds if loop else 1)

    stages = sum(copies(number) for number in range(len(graph.stages)))
    edges = 0
    for number, asked in enumerate(graph.asks):
        edges += copies(number) * sum(copies(each) for each in (*graph.needs[number], *asked.values()))
    if stages > LARGEST_PLAN:
        faults.add(
            ("stages",), f"{stages} stages with all rounds and items; the maximum is {LARGEST_PLAN}", at_key=True
        )
    elif edges > MOST_EDGES:
        faults.add(("stages",), f"{edges} dependencies and variables; the maximum is {MOST_EDGES}", at_key=True)


class StageLoop(NamedTuple):
    """The indexes of repeated stages: the first, the last and all between them."""

    first: int
    last: int
    members: frozenset[int]
    rounds: int
    until: str


class Graph:
    """The stages of a file by index. Check `is_sound` before you use anything that needs an order."""

    def __init__(self, stages: Sequence[WrittenStage], faults: Faults) -> None:
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
        self.loop_of: dict[int, StageLoop] = {}
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
            return f"no such stage: {said}", lambda: f"stages are numbered from 0 to {len(self.stages) - 1}."
        return f"no such stage: {short(said)}", lambda: nearest(said, self.names)

    def _take_names(self) -> None:
        for number, stage in enumerate(self.stages):
            if not stage.name:
                continue
            if stage.name in self.names:
                first = self.names[stage.name]
                message = f"stage {number} has the same name as stage {first}, {stage.name!r}"
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
            hint = 'add a stage to depends_on, or set worktree_strategy = "new"'
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
            message = f"stage {stage.name!r} can never start: its dependencies form a cycle"
            self._faults.add((*stage.path, "depends_on"), message)

    def _tell_circle(self, circle: list[int]) -> None:
        stage = self.stages[min(circle)]
        at = circle.index(min(circle))
        names = [self.stages[number].name or str(number) for number in [*circle[at:], *circle[:at], circle[at]]]
        shown = names if len(names) <= 12 else [*names[:6], "…", *names[-5:]]
        message = f"stages depend on each other in a cycle: {' → '.join(shown)}"
        self._faults.add((*stage.path, "depends_on"), message, "use `repeat` for loops")

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
            self._take_loop(StageLoop(back_to, number, members, stage.repeat.at_most, until))

    def _between(self, first: int, last: int) -> frozenset[int]:
        inner = {number for number in self.order if self.is_above(first, number) and self.is_above(number, last)}
        return frozenset({first, last} | inner)

    def _take_loop(self, loop: StageLoop) -> None:
        stage = self.stages[loop.last]
        path = (*stage.path, "repeat")
        taken = sorted(member for member in loop.members if member in self.loop_of)
        if taken:
            name = self.stages[taken[0]].name
            self._faults.add(path, f"stage {name!r} is already in another loop", "loops cannot overlap.")
        elif len(loop.members) > 1 and stage.each is not None:
            hint = "let one later stage decide about another round"
            self._faults.add(path, f"stage {stage.name!r} ends a loop of several stages and also uses `each`", hint)
        else:
            self.loop_of |= dict.fromkeys(loop.members, loop)
