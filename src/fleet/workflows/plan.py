"""Expansion of loops and fans into plain stages: rounds `name#2`, items `name@1`, each with its dependencies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.core.host import make_requirements
from fleet.core.workflow import Stage, WorkflowPlan
from fleet.workflows import reading
from fleet.workflows.check import Graph, check
from fleet.workflows.faults import Document, Faults
from fleet.workflows.references import THIS
from fleet.workflows.written import LONGEST_NAME, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.core.workflow import Chain
    from fleet.workflows.check import KnownNames, StageLoop
    from fleet.workflows.written import WrittenStage


#: Maximum number of skipped stages in a row. After more than these, an heir starts on a new branch.
MOST_ORIGINS = 50


class _Copy(NamedTuple):
    """A copy of one of the file's stages."""

    number: int
    round: int = 1
    item: int = 0  # from 1; 0 if the stage has no list


def unrolled(graph: Graph, *, on_failure: str, timeout_seconds: float | None = None) -> tuple[Stage, ...]:
    """Return the plain stages of a sound graph, each after those it needs."""
    stages = {copy.name: copy for copy in (_stage(graph, each, timeout_seconds) for each in _copies(graph))}
    stages = {name: stage.replace(on_failure=on_failure) for name, stage in stages.items()}
    skippable: set[str] = set()
    for stage in stages.values():
        of_its_own = stage.when or stage.unless or stage.items_of
        if of_its_own or (stage.after and all(chain[0] in skippable for chain in stage.after)):
            skippable.add(stage.name)
    return tuple(_with_origins(stage, stages, skippable) for stage in stages.values())


def _with_origins(stage: Stage, stages: Mapping[str, Stage], skippable: set[str]) -> Stage:
    """Return the stage with its fallback origins.

    If its predecessor may be skipped, it starts from where that one would have started, and so on backwards.
    """
    found: list[Chain] = []
    above = stage
    while stage.inherits and above.inherited and above.inherited[0][0] in skippable and len(found) < MOST_ORIGINS:
        above = stages[above.inherited[0][0]]
        found += above.inherited
    return stage.replace(origins=tuple(found)) if found else stage


def _copies(graph: Graph) -> Iterator[_Copy]:
    """Yield the copies of all stages. A loop follows everything it needs from outside, round by round."""
    for number in _order(graph):
        loop = graph.loop_of.get(number)
        members = [number] if loop is None else [each for each in graph.order if each in loop.members]
        for round_number in range(1, (loop.rounds if loop else 1) + 1):
            for member in members:
                yield from (_Copy(member, round_number, item) for item in _items(graph, member))


def _order(graph: Graph) -> list[int]:
    """Return one stage of each loop and every other stage, each after all that it or its whole loop needs."""
    waits = {number: _outside(graph, number) for number in graph.order}
    order: list[int] = []
    placed: set[int] = set()
    for start in sorted(graph.order):
        stack = [start]
        while stack:
            number = stack[-1]
            missing = [] if number in placed else sorted(waits[number] - placed, reverse=True)
            if missing:
                stack += missing
                continue
            stack.pop()
            if number not in placed:
                placed |= _group(graph, number)
                order.append(number)
    return order


def _group(graph: Graph, number: int) -> frozenset[int]:
    return graph.loop_of[number].members if number in graph.loop_of else frozenset((number,))


def _items(graph: Graph, number: int) -> range | tuple[int, ...]:
    each = graph.stages[number].each
    return range(1, len(each.items) + 1) if each else (0,)


def _outside(graph: Graph, number: int) -> set[int]:
    """Return the stages that must finish before a stage, or before the whole loop that contains it."""
    group = _group(graph, number)
    return {need for member in group for need in graph.needs[member]} - group


def _stage(graph: Graph, copy: _Copy, timeout_seconds: float | None) -> Stage:
    written, loop = graph.stages[copy.number], graph.loop_of.get(copy.number)
    is_again = loop is not None and copy.round > 1
    reads = {head: _read(graph, copy, target) for head, target in graph.asks[copy.number].items()}
    if loop is not None and is_again:
        reads[THIS] = ((_name(graph, _before(copy, loop)),),)
    return Stage(
        name=_name(graph, copy),
        stage=written.name,
        index=copy.number,
        round=copy.round,
        **_item(written, copy),
        after=_after(graph, copy),
        goes_on_with=_goes_on_with(graph, copy),
        reads=reads,
        unless=loop.until if loop is not None and is_again else "",
        may_fail=loop is not None and copy.number == loop.last and copy.round < loop.rounds,
        inherits=written.inherits or (loop is not None and is_again and copy.number == loop.first),
        **_plain(written, timeout_seconds),
    )


def _item(written: WrittenStage, copy: _Copy) -> dict[str, Any]:
    """Return the item of a copy. If the list is not known yet, the last copy gets all remaining items."""
    if written.each is None:
        return {}
    if not written.each.of:
        return {"item": written.each.items[copy.item - 1]}
    return {"items_of": written.each.of, "items_from": copy.item, "has_the_rest": copy.item == len(written.each.items)}


def _plain(written: WrittenStage, timeout_seconds: float | None) -> dict[str, Any]:
    """Return the fields that a copy takes from the file unchanged."""
    names = ("coder", "model", "prompt", "account", "extra_args", "reasoning_effort", "verify", "retries", "no_changes")
    found = {name: getattr(written, name) for name in names}
    found["requires"] = make_requirements(written.requires, written.host)
    return {**found, "when": written.when, "timeout_seconds": written.timeout_seconds or timeout_seconds}


def _after(graph: Graph, copy: _Copy) -> tuple[Chain, ...]:
    loop = graph.loop_of.get(copy.number)
    if loop is not None and copy.round > 1 and copy.number == loop.first:
        # A later round starts where the previous one ended. The first round's dependencies have finished by then.
        return _read(graph, copy, loop.last)
    return tuple(chain for need in graph.needs[copy.number] for chain in _read(graph, copy, need))


def _goes_on_with(graph: Graph, copy: _Copy) -> Chain:
    """Return the rounds from which the first stage of a later round starts.

    Empty for a stage that is repeated alone, because it already comes after its previous round.
    """
    loop = graph.loop_of.get(copy.number)
    if loop is None or copy.round == 1 or copy.number != loop.first or loop.first == loop.last:
        return ()
    carrier = _carrier(graph, loop)
    item = copy.item if carrier == copy.number else 0
    return tuple(_name(graph, _Copy(carrier, number, item)) for number in range(1, copy.round))


def _carrier(graph: Graph, loop: StageLoop) -> int:
    """Return the last stage of a loop whose branch carries the loop's work.

    A stage on a new branch, such as a reviewer, has none of that work. Each copy of a fan has only its own part. If a
    fan begins the loop, each of its copies continues its own part.
    """
    at = loop.first if graph.stages[loop.first].each else loop.last
    while at != loop.first and not (graph.stages[at].inherits and not graph.stages[at].each):
        at = next(need for need in graph.needs[at] if need in loop.members)
    return at


def _read(graph: Graph, copy: _Copy, target: int) -> tuple[Chain, ...]:
    """Return for each item of a stage the rounds to which a copy's reference refers.

    These are the rounds that can have finished by then.
    """
    loop, own = graph.loop_of.get(target), graph.loop_of.get(copy.number)
    items = _items(graph, target)
    if loop is None and items == (0,):
        return ((graph.stages[target].name,),)
    rounds = loop.rounds if loop else 1
    if loop is not None and loop is own:
        rounds = copy.round if graph.is_above(target, copy.number) else copy.round - 1
        if target == copy.number:
            items = (copy.item,)
    if not rounds:
        return ()
    return tuple(tuple(_name(graph, _Copy(target, number, item)) for number in range(1, rounds + 1)) for item in items)


def _before(copy: _Copy, loop: StageLoop) -> _Copy:
    """Return the end of the previous round. If a stage is its own loop, that is the copy of the same item."""
    item = copy.item if loop.last == copy.number else 0
    return _Copy(loop.last, copy.round - 1, item)


def _name(graph: Graph, copy: _Copy) -> str:
    item = f"@{copy.item}" if copy.item else ""
    return f"{graph.stages[copy.number].name}{item}{f'#{copy.round}' if copy.round > 1 else ''}"


def plan_from_file(path: str, *, known: KnownNames) -> WorkflowPlan:
    """Return the plan in a file. `known` describes this installation.

    Raises BadWorkflow with every fault, or BadInput.
    """
    stem = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122 - paths of users are strings
    return _plan(reading.read(path), name=stem, known=known)


def plan_from_data(data: Any, *, name: str, known: KnownNames) -> WorkflowPlan:
    """Return the plan in plain data that is not from a file. Raises BadWorkflow, whose faults name paths of values."""
    return _plan(Document("", data, {}, {}), name=name, known=known)


def _plan(document: Document, *, name: str, known: KnownNames) -> WorkflowPlan:
    faults = Faults(document)
    flow = written(document.data, faults)
    graph = Graph(flow.stages, faults)
    check(graph, known, faults)
    faults.refuse()
    return WorkflowPlan(
        name=flow.name or _plain_name(name),
        stages=unrolled(graph, on_failure=flow.on_failure, timeout_seconds=flow.timeout_seconds),
        description=flow.description,
        task_prompt=flow.task_prompt,
        on_failure=flow.on_failure,
        repo_hint=flow.repo_hint,
        base=flow.base,
    )


def _plain_name(name: str) -> str:
    """Return a file name, which may contain any characters, as a valid name of a workflow."""
    shown = "".join(char if char.isprintable() else " " for char in name).strip()
    return shown[:LONGEST_NAME] or "workflow"
