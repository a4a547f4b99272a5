"""Tasks, edges and comments in bd's JSON, without empty fields."""

from __future__ import annotations

from fleet.core.task import SPEC_FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task

#: bd's name and our name of each field, in bd's order. "" marks a field that is computed.
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
INSTANTS = ("created_at", "updated_at", "started_at", "closed_at", "due_at", "defer_until")
FLAGS = ("ephemeral", "no_history", "pinned", "is_template")
_OTHERS = ("id", "priority", "estimated_minutes", "claim_fence", "metadata", "labels")
TEXTS = {name: field for name, field in FIELDS if name not in (*INSTANTS, *FLAGS, *_OTHERS)}
#: Fields that fleet recomputes, bd's own bookkeeping, and fields that another field already covers.
DERIVED = (
    *("_type", "wisp", "dependencies", "comments", "dependency_count", "dependent_count", "comment_count", "parent"),
    *("revision", "schema_version", "lease_expires_at", "heartbeat_at"),
)
KNOWN = frozenset((*(name for name, _ in FIELDS), *DERIVED))


def issue(task: Task, *, exact: bool = False) -> dict[str, Any]:
    """Return a task in bd's JSON. Instants are in whole seconds, as bd reads them back, unless `exact`."""
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
    """Return the user's metadata and fleet's own fields under `fleet.`."""
    own = {f"fleet.{name}": value for name in SPEC_FIELDS if (value := getattr(task, name))}
    return {**task.metadata, **own} if own else task.metadata


def instant(moment: datetime, *, exact: bool = False) -> str:
    """Return an RFC 3339 time in UTC. The fraction of a second is included only if `exact`."""
    text = f"{moment:%Y-%m-%dT%H:%M:%S}"
    if exact and moment.microsecond:
        text += f".{moment.microsecond:06d}".rstrip("0")
    return text + "Z"


def edge(each: Edge, *, exact: bool = False) -> dict[str, Any]:
    """Return a dependency in bd's JSON, without details of the tasks."""
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
    """Return a comment in bd's JSON."""
    return {
        "id": each.id,
        "issue_id": each.task_id,
        "author": each.author,
        "text": each.text,
        "created_at": instant(each.created_at, exact=exact),
    }
