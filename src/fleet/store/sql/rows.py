"""Conversion between rows and records, one function per table and direction."""

from __future__ import annotations

from fleet.core.clock import from_micros, to_micros
from fleet.core.dependency import Edge
from fleet.core.jsontext import decode, encode
from fleet.core.task import Caller, Comment, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LABEL_SEPARATOR = "\x1f"

_FIELDS = list(Task._fields)
_INSTANTS = [name for name in _FIELDS if name.endswith("_at") or name in ("defer_until",)]
_FLAGS = ("ephemeral", "no_history", "pinned", "is_template", "is_blocked")
_INSTANT_AT = [_FIELDS.index(name) for name in _INSTANTS]
_FLAG_AT = [_FIELDS.index(name) for name in _FLAGS]
_JSON_AT = [_FIELDS.index(name) for name in ("metadata", "extra")]
_LABELS_AT = _FIELDS.index("labels")


def task_from(row: tuple[Any, ...]) -> Task:
    values = list(row)
    for at in _INSTANT_AT:
        if values[at] is not None:
            values[at] = from_micros(values[at])
    for at in _FLAG_AT:
        values[at] = values[at] == 1
    for at in _JSON_AT:
        values[at] = decode(values[at])
    labels = values[_LABELS_AT]
    values[_LABELS_AT] = tuple(labels.split(LABEL_SEPARATOR)) if labels else ()
    return Task.from_values(values)


def task_values(task: Task) -> dict[str, Any]:
    values = task.as_dict()
    for name in _INSTANTS:
        if values[name] is not None:
            values[name] = to_micros(values[name])
    for name in _FLAGS:
        values[name] = int(values[name])
    values["metadata"] = encode(task.metadata)
    values["extra"] = encode(task.extra)
    del values["labels"]
    return values


def edge_from(row: tuple[Any, ...]) -> Edge:
    task, needs, kind, created_at, created_by, metadata, thread_id = row
    return Edge(
        task=task,
        needs=needs,
        type=kind,
        created_at=from_micros(created_at),
        created_by=created_by,
        metadata=metadata,
        thread_id=thread_id,
    )


def edge_values(edge: Edge) -> dict[str, Any]:
    return {**edge.as_dict(), "created_at": to_micros(edge.created_at)}


def comment_from(row: tuple[Any, ...]) -> Comment:
    key, task_id, author, text, created_at = row
    return Comment(id=key, task_id=task_id, author=author, text=text, created_at=from_micros(created_at))


def caller_from(row: tuple[Any, ...]) -> Caller:
    task_id, run_id, epoch, depth, budget_usd, repos = row
    return Caller(
        task_id=task_id, run_id=run_id, epoch=epoch, depth=depth, budget_usd=budget_usd, repos=tuple(decode(repos))
    )
