"""Issues in the format of bd's lists: with raw dependencies, counts and parent."""

from __future__ import annotations

from fleet.beads.format import edge, issue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fleet.core.dependency import Edge, Tally
    from fleet.core.task import Task
    from fleet.store.base import Store


def with_counts(store: Store, found: Iterable[Task]) -> list[dict[str, Any]]:
    """Return the issues as lists show them: with raw dependencies, counts and parent."""
    tasks = list(found)
    ids = [task.id for task in tasks]
    edges: dict[str, list[Edge]] = {}
    for each in store.edges.find(ids):
        edges.setdefault(each.task, []).append(each)
    tallies = store.tasks.tallies(ids)
    return [
        {
            **issue(task),
            **({"dependencies": [edge(each) for each in edges[task.id]]} if task.id in edges else {}),
            **counts(tallies[task.id]),
            **parent_of(edges.get(task.id, ())),
        }
        for task in tasks
    ]


def counts(tally: Tally) -> dict[str, int]:
    """Return the counts that lists show for an issue. Only blocking dependencies are counted."""
    return {
        "dependency_count": tally.blockers,
        "dependent_count": tally.blocked,
        "comment_count": tally.comments,
    }


def parent_of(edges: Iterable[Edge]) -> Mapping[str, str]:
    """Return the `parent` field from a task's edges, or {} if it has no parent."""
    for each in edges:
        if each.type == "parent-child":
            return {"parent": each.needs}
    return {}
