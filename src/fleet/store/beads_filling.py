"""A bd that is told of every task that the home's file has: for a queue that is moved into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.filter import Filter
from fleet.store.beads_issue import line_of
from fleet.store.beads_program import Refused, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.core.dependency import Edge
    from fleet.core.task import Task
    from fleet.store.beads_program import Bd
    from fleet.store.sqlite import SqliteQueue

PART = 500
#: Settings of the queue that bd goes by too.
SETTINGS = ("issue_prefix", "status.custom", "types.custom")


def fill(bd: Bd, queue: SqliteQueue, tell: Callable[[str, int], None]) -> None:
    """Have bd import all tasks that it has not, with what they need and what was said of them.

    What others need comes first, so that both ends of an edge are there when it comes. Raises Refused, StoreAway.
    """
    settings = queue.config()
    for key in SETTINGS:
        if value := settings.get(key):
            bd.run("config", "set", key, value)
    known = {each.get("id") for each in objects(bd.run("list", "--all", "--limit", "0", "--json"))}
    edges: dict[str, list[Edge]] = {}
    for edge in queue.edges():
        edges.setdefault(edge.task, []).append(edge)
    tasks = [task for task in _in_order(queue.find(Filter(), sort="id"), edges) if task.id not in known]
    for start in range(0, len(tasks), PART):
        part = tasks[start : start + PART]
        known |= {task.id for task in part}
        _import(bd, queue, part, {task.id: edges.get(task.id, []) for task in part})
        tell("tasks", len(part))


def _import(bd: Bd, queue: SqliteQueue, part: list[Task], edges: dict[str, list[Edge]]) -> None:
    comments = queue.comments([task.id for task in part])
    lines = [line_of(task, edges[task.id], [each for each in comments if each.task_id == task.id]) for task in part]
    answer = objects(bd.run("import", "-", "--json", text="".join(lines)))
    skipped = answer[0].get("skipped_dependencies") if answer else None
    if skipped:
        raise Refused(f"dependencies that bd does not take: {skipped[:3]}")


def _in_order(tasks: Iterable[Task], edges: dict[str, list[Edge]]) -> list[Task]:
    """The tasks, each after those that it needs; where they need each other in a circle, as they come."""
    by_id, begun = {task.id: task for task in tasks}, set[str]()
    ordered: dict[str, Task] = {}
    for first in by_id:
        todo = [first]
        while todo:
            key = todo[-1]
            begun.add(key)
            left = next((e.needs for e in edges.get(key, ()) if e.needs in by_id and e.needs not in begun), None)
            if left is None:
                ordered[todo.pop()] = by_id[key]
            else:
                todo.append(left)
    return list(ordered.values())
