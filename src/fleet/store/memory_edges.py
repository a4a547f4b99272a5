"""What waits for what, in memory: who is above and below a task, and whether it is blocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.dependency import ANY_CHILDREN, EXTERNAL, HARD, PARENT_CHILD, SCHEDULING, WAITS_FOR
from fleet.core.task import RESOLVED

if TYPE_CHECKING:
    from fleet.core.dependency import Edge
    from fleet.core.task import Task
    from fleet.store.memory_state import State


def ancestors(state: State, task_id: str) -> list[str]:
    """What the task belongs to, nearest first."""
    found: list[str] = []
    frontier = [task_id]
    while frontier:
        above = [e.needs for e in state.edges.values() if e.type == PARENT_CHILD and e.task in frontier]
        frontier = [key for key in above if key not in found]
        found += frontier
    return found


def kin(state: State, task_id: str) -> tuple[list[Task], list[Task]]:
    """The tasks one belongs to: its parents, and all above it."""
    near = [e.needs for e in state.edges.values() if e.task == task_id and e.type == PARENT_CHILD]
    return [state.tasks[key] for key in near], [state.tasks[key] for key in ancestors(state, task_id)]


def children(state: State, task_id: str) -> list[str]:
    """What belongs to the task."""
    return [e.task for e in state.edges.values() if e.needs == task_id and e.type == PARENT_CHILD]


def waiters(state: State, task_id: str) -> list[str]:
    """What waits for the task's children."""
    return [e.task for e in state.edges.values() if e.needs == task_id and e.type == WAITS_FOR]


def watchers(state: State, task_id: str) -> list[str]:
    """The tasks whose blocked state can change when this one is resolved, reopened, moved or removed."""
    edges = state.edges.values()
    above = [e.needs for e in edges if e.task == task_id and e.type == PARENT_CHILD]
    waiting = [e.task for e in edges if e.needs in above and e.type == WAITS_FOR]
    return [e.task for e in edges if e.needs == task_id and e.type in HARD] + waiting


def refresh(state: State, ids: list[str]) -> None:
    """Bring the blocked state of these tasks up to date, and of all below those that changed."""
    while ids:
        changed = []
        for key in set(ids):
            task = state.tasks[key]
            if task.is_blocked != any(_holds_up(state, e) for e in state.edges.values() if e.task == key):
                state.tasks[key] = task.replace(is_blocked=not task.is_blocked)
                changed.append(key)
        ids = [child for key in changed for child in children(state, key)]


def reaches(state: State, start: str, goal: str) -> bool:
    """Whether one leads to the other along dependencies that can keep work from starting."""
    seen, frontier = {start}, [start]
    while frontier:
        here = frontier.pop()
        ahead = [e.needs for e in state.edges.values() if e.task == here and e.type in SCHEDULING]
        frontier += [key for key in ahead if key not in seen]
        seen |= set(ahead)
    return goal in seen


def _holds_up(state: State, edge: Edge) -> bool:
    target = state.tasks.get(edge.needs)
    if edge.type in HARD:
        return edge.needs.startswith(EXTERNAL) or (target is not None and target.status not in RESOLVED)
    if edge.type == PARENT_CHILD:
        return target is not None and target.is_blocked
    if edge.type == WAITS_FOR:
        resolved = [state.tasks[key].status in RESOLVED for key in children(state, edge.needs)]
        return not all(resolved) and not (edge.gate == ANY_CHILDREN and any(resolved))
    return False
