"""Checks of a workflow beyond the shape of its graph: coders, variables, conditions, size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.core.finding import FINDINGS
from fleet.workflows import conditions
from fleet.workflows.conditions import BadCondition
from fleet.workflows.faults import nearest
from fleet.workflows.references import FIELDS, THIS, VARIABLE, Reference, bare_reference, in_template
from fleet.workflows.results import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.workflows.faults import Faults, Path
    from fleet.workflows.graph import Graph

MOST_VARIABLES = 500
#: Maximum number of stages in a plan, with all rounds and items. A queue can hold it, and no one needs more.
LARGEST_PLAN = 10_000
MOST_EDGES = 200_000
_SETS = {"status": (*STATUSES, conditions.MIXED), "finding": (*FINDINGS, conditions.MIXED)}


class Known(NamedTuple):
    """Facts about this installation that the file does not contain."""

    coder: Callable[[str], bool]
    account: Callable[[str, str], bool] = lambda coder, account: True  # the coder may be empty


def check(graph: Graph, known: Known, faults: Faults) -> None:
    knows = known.coder
    unknown = {coder for coder in {stage.coder for stage in graph.stages} if coder and not knows(coder)}
    for number, stage in enumerate(graph.stages):
        if stage.coder in unknown:
            faults.add(
                (*stage.path, stage.spelled["coder"]), f"unknown coder {stage.coder!r}", "`fleet coders` lists them."
            )
        elif stage.account and not stage.requires and not stage.host and not known.account(stage.coder, stage.account):
            whose = f"{stage.coder} has no account" if stage.coder else "no coder has an account"
            faults.add((*stage.path, "account"), f"{whose} {stage.account!r}", "`fleet accounts` lists them.")
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
            faults.add(path, f"{name} asks for what no stage has", nearest(reference.field, FIELDS), words=said)
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
        hint = 'write it like: stages.review.status == "completed", or stages["a b"].status where a name has blanks'
        faults.add(path, f"bad condition {text[:60]!r}: {error}", hint)
        return
    for reference, compared in found:
        words = _SETS.get(reference.field)
        if words and compared is not None and compared not in words:
            faults.add(path, f"{reference} is never {compared!r}", nearest(compared, words))
        if (reference.head == THIS) != is_until:
            other = "of the stage itself: write it without a stage's name" if is_until else "of another stage"
            faults.add(path, f"the condition asks for {reference.field}, but can only ask for fields {other}")
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
    remedy = f"add {other!r} to depends_on." if target != number else ""
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
        faults.add(("stages",), f"{stages} stages with all rounds and items are more than {LARGEST_PLAN}", at_key=True)
    elif edges > MOST_EDGES:
        faults.add(("stages",), f"{edges} dependencies and variables are more than {MOST_EDGES}", at_key=True)
