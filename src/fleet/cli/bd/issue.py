"""Tasks in bd's language: the JSON of an issue, its fields in bd's order, empty ones left out."""

from __future__ import annotations

from fleet.core.task import SPEC_FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from fleet.core.dependency import Edge
    from fleet.core.tally import Tally
    from fleet.core.task import Comment, Task
    from fleet.store.base import Queue

#: bd's name and ours, in bd's order; None stands for what is made specially.
FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "id"),
    ("title", "title"),
    ("description", "description"),
    ("design", "design"),
    ("acceptance_criteria", "acceptance"),
    ("notes", "notes"),
    ("spec_id", "spec_id"),
    ("status", "status"),
    ("priority", "priority"),
    ("issue_type", "type"),
    ("assignee", "assignee"),
    ("owner", "owner"),
    ("estimated_minutes", "estimated_minutes"),
    ("created_at", "created_at"),
    ("created_by", "created_by"),
    ("updated_at", "updated_at"),
    ("started_at", "started_at"),
    ("closed_at", "closed_at"),
    ("close_reason", "close_reason"),
    ("closed_by_session", "closed_by_session"),
    ("claim_fence", "epoch"),
    ("due_at", "due_at"),
    ("defer_until", "defer_until"),
    ("external_ref", "external_ref"),
    ("source_system", "source_system"),
    ("metadata", ""),
    ("labels", "labels"),
    ("ephemeral", "ephemeral"),
    ("no_history", "no_history"),
    ("pinned", "pinned"),
    ("is_template", "is_template"),
)
ALWAYS = ("priority",)


def issue(task: Task, *, exact: bool = False) -> dict[str, Any]:
    """A task as bd's JSON has it. Instants are in whole seconds, as bd reads them back, unless they must be exact."""
    found: dict[str, Any] = {}
    for name, field in FIELDS:
        value: Any = getattr(task, field) if field else metadata(task)
        if hasattr(value, "tzinfo"):
            found[name] = instant(value, exact=exact)
        elif isinstance(value, tuple):
            if value:
                found[name] = list(value)
        elif value or name in ALWAYS:
            found[name] = value
    return {**found, **task.extra}


def metadata(task: Task) -> dict[str, Any]:
    """The user's metadata and fleet's own fields under `fleet.`."""
    own = {f"fleet.{name}": value for name in SPEC_FIELDS if (value := getattr(task, name))}
    return {**task.metadata, **own} if own else task.metadata


def instant(moment: datetime, *, exact: bool = False) -> str:
    """RFC 3339 in UTC; with a fraction only where it must be exact and there is one."""
    text = f"{moment:%Y-%m-%dT%H:%M:%S}"
    if exact and moment.microsecond:
        text += f".{moment.microsecond:06d}".rstrip("0")
    return text + "Z"


def edge(each: Edge, *, exact: bool = False) -> dict[str, Any]:
    """A dependency as bd's JSON has it when it is not hydrated."""
    found = {
        "issue_id": each.task,
        "depends_on_id": each.needs,
        "type": each.type,
        "created_at": instant(each.created_at, exact=exact),
        "created_by": each.created_by,
        "metadata": each.metadata,
        "thread_id": each.thread_id,
    }
    return {name: value for name, value in found.items() if value}


def comment(each: Comment, *, exact: bool = False) -> dict[str, Any]:
    """A comment as bd's JSON has it."""
    return {
        "id": each.id,
        "issue_id": each.task_id,
        "author": each.author,
        "text": each.text,
        "created_at": instant(each.created_at, exact=exact),
    }


def with_counts(queue: Queue, found: Iterable[Task], *, exact: bool = False) -> list[dict[str, Any]]:
    """Issues as lists show them: with their raw dependencies, counts and parent."""
    tasks = list(found)
    ids = [task.id for task in tasks]
    edges: dict[str, list[Edge]] = {}
    for each in queue.edges(ids):
        edges.setdefault(each.task, []).append(each)
    tallies = queue.tallies(ids)
    return [
        {
            **issue(task, exact=exact),
            **({"dependencies": [edge(each, exact=exact) for each in edges[task.id]]} if task.id in edges else {}),
            **counts(tallies[task.id]),
            **parent_of(edges.get(task.id, ())),
        }
        for task in tasks
    ]


def counts(tally: Tally) -> dict[str, int]:
    """The counts that lists show beside an issue: dependencies only where they hold work up."""
    return {
        "dependency_count": tally.blockers,
        "dependent_count": tally.blocked,
        "comment_count": tally.comments,
    }


def parent_of(edges: Iterable[Edge]) -> Mapping[str, str]:
    """The parent among a task's edges, as a field."""
    for each in edges:
        if each.type == "parent-child":
            return {"parent": each.needs}
    return {}
