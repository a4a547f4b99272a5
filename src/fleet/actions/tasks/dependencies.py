"""Dependencies between tasks: add, remove and display them."""

from __future__ import annotations

from fleet.core.dependency import BLOCKS, EXTERNAL, SCHEDULING, WELL_KNOWN, Edge
from fleet.core.errors import BadInput, CycleRefused
from fleet.core.filter import Filter
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.core.task import Task
    from fleet.store.base import Store

    Ahead = dict[str, list[tuple[str, str]]]  # the far ends of each task's edges, with the type of the edge

RELATES_TO = "relates-to"
SAME_AS_BLOCKS = ("blocked-by", "depends-on")
LONGEST_TYPE = 32
DEEPEST_TREE, LARGEST_TREE = 500, 5000


class DependencyNode(Record):
    """A task in a dependency tree, with its depth, parent and edge type."""

    task: Task
    depth: int = 0
    parent: str = ""
    type: str = ""
    truncated: bool = False  # True if some of its children are not shown


def known_type(text: str) -> str:
    """Return bd's name of a dependency type. Raises BadInput."""
    if text in WELL_KNOWN:
        return text
    if text in SAME_AS_BLOCKS:
        return BLOCKS
    valid = f"valid types: {', '.join(sorted((*WELL_KNOWN, *SAME_AS_BLOCKS)))}"
    if not text or len(text) > LONGEST_TYPE:
        raise BadInput(f'invalid dependency type "{text}" (must be non-empty, max {LONGEST_TYPE} chars); {valid}')
    raise BadInput(f'unknown dependency type "{text}"; {valid}')


def check_external(text: str) -> str:
    """Return a valid reference to a capability of another project. Raises BadInput."""
    parts = text.split(":", 2)
    if len(parts) < 3 or not all(parts) or not text.isprintable():
        raise BadInput(f"invalid external reference format: expected 'external:<project>:<capability>', got '{text}'")
    return text


def add(store: Store, task_id: str, needs: str, kind: str = BLOCKS, *, actor: str) -> None:
    """Make one task depend on another, with an edge of the given type. Raises DependencyRefused."""
    store.edges.add(Edge(task=task_id, needs=needs, type=kind, created_at=store.now(), created_by=actor))


def add_all(store: Store, ties: Iterable[tuple[str, str, str]], *, actor: str, check_each: bool = True) -> None:
    """Add (task, needs, type) edges, all or none. Raises DependencyRefused.

    With `check_each`, look for cycles at each edge; otherwise once at the end.
    """
    wanted = list(ties)
    with store.atomic():
        now = store.now()
        for task_id, needs, kind in wanted:
            edge = Edge(task=task_id, needs=needs, type=kind, created_at=now, created_by=actor)
            store.edges.add(edge, check_cycles=check_each)
        if not check_each and _makes_a_circle(store, wanted):
            raise CycleRefused(
                "adding dependency would create a cycle", hint="run `bd dep tree` to show what waits for what"
            )


def relate(store: Store, one: str, other: str, *, actor: str) -> None:
    if one == other:
        raise BadInput("cannot relate an issue to itself")
    add_all(store, [(one, other, RELATES_TO), (other, one, RELATES_TO)], actor=actor)


def unrelate(store: Store, one: str, other: str) -> None:
    """Remove the relates-to edges between two tasks. Edges of other types stay."""
    with store.atomic():
        for edge in store.edges.find([one, other]):
            if edge.type == RELATES_TO and {edge.task, edge.needs} == {one, other}:
                store.edges.remove(edge.task, edge.needs)


def tree(store: Store, root: str, *, up: bool = False, max_depth: int = 50) -> list[DependencyNode]:
    """Return the tasks that a task needs, or with `up` its dependents.

    The list is in depth-first order, contains each task once, and has a bounded size.
    """
    deepest = min(max_depth, DEEPEST_TREE)
    with store.snapshot():
        ahead = _surroundings(store, root, up, deepest)
        reached = {root, *(key for steps in ahead.values() for key, _ in steps)}
        tasks = {task.id: task for task in store.tasks.find(Filter(ids=tuple(reached)), sort="id")}
    seen: set[str] = set()
    found: list[DependencyNode] = []
    stack = [(root, 0, "", "")]
    while stack:
        key, depth, parent, kind = stack.pop()
        if key in seen or key not in tasks:
            continue
        seen.add(key)
        steps = [step for step in ahead.get(key, ()) if step[0] not in seen and step[0] in tasks]
        room = max(LARGEST_TREE - len(found) - len(stack), 0) if depth + 1 < deepest else 0
        found.append(
            DependencyNode(task=tasks[key], depth=depth, parent=parent, type=kind, truncated=len(steps) > room)
        )
        stack += [(step, depth + 1, key, edge_type) for step, edge_type in reversed(steps[:room])]
    return found


def only_status(branches: list[DependencyNode], status: str) -> list[DependencyNode]:
    """Return the branches with a task in this status, and their ancestors."""
    kept: set[str] = set()
    for branch in reversed(branches):
        if branch.task.status == status or branch.task.id in kept:
            kept |= {branch.task.id, branch.parent}
    return [branch for branch in branches if branch.task.id in kept]


def circles(store: Store) -> list[list[str]]:
    """Return dependency cycles: for each strongly connected component, the shortest cycle through its first task."""
    ahead = _scheduling(store)
    return sorted(_circle_through(min(tangle), ahead, tangle) for tangle in _tangles(ahead))


def _surroundings(store: Store, root: str, up: bool, deepest: int) -> Ahead:
    ahead: Ahead = {}
    frontier = [root]
    for _ in range(deepest):
        if not frontier or len(ahead) > LARGEST_TREE:
            break
        ahead |= {key: [] for key in frontier}
        for edge in store.edges.find(frontier, up=up):
            near, far = (edge.needs, edge.task) if up else (edge.task, edge.needs)
            ahead[near].append((far, edge.type))
        frontier = list({far: None for key in frontier for far, _ in ahead[key] if far not in ahead})
    return ahead


def _scheduling(store: Store) -> dict[str, list[str]]:
    ahead: dict[str, list[str]] = {}
    for edge in store.edges.find():
        if edge.type in SCHEDULING and not edge.needs.startswith(EXTERNAL):
            ahead.setdefault(edge.task, []).append(edge.needs)
    return ahead


def _makes_a_circle(store: Store, ties: list[tuple[str, str, str]]) -> bool:
    tangle_of = {key: at for at, tangle in enumerate(_tangles(_scheduling(store))) for key in tangle}
    return any(
        kind in SCHEDULING and task in tangle_of and tangle_of[task] == tangle_of.get(needs)
        for task, needs, kind in ties
    )


def _tangles(ahead: dict[str, list[str]]) -> list[set[str]]:
    # Kosaraju's strongly connected components, without recursion, because chains can be longer than Python's stack.
    behind: dict[str, list[str]] = {}
    for key, steps in ahead.items():
        for step in steps:
            behind.setdefault(step, []).append(key)
    found, seen = [], set[str]()
    for start in reversed(_by_end(ahead)):
        tangle, frontier = set[str](), [start]
        while frontier:
            here = frontier.pop()
            if here not in seen:
                seen.add(here)
                tangle.add(here)
                frontier += behind.get(here, ())
        found += [tangle] if len(tangle) > 1 else []
    return found


def _by_end(ahead: dict[str, list[str]]) -> list[str]:
    seen: set[str] = set()
    ended: list[str] = []
    stack = [(key, False) for key in ahead]
    while stack:
        here, is_done = stack.pop()
        if is_done:
            ended.append(here)
        elif here not in seen:
            seen.add(here)
            stack.append((here, True))
            stack += [(step, False) for step in ahead.get(here, ()) if step not in seen]
    return ended


def _circle_through(start: str, ahead: dict[str, list[str]], within: set[str]) -> list[str]:
    came_from: dict[str, str] = {}
    frontier = [start]
    for here in frontier:
        for step in ahead.get(here, ()):
            if step == start:
                circle = [here]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return circle[::-1]
            if step in within and step not in came_from:
                came_from[step] = here
                frontier.append(step)
    return [start]
