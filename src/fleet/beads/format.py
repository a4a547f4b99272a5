"""Tasks, edges and comments in bd's JSON: lines of its export, and answers in its format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fleet.core.dependency import BLOCKS, Edge
from fleet.core.jsontext import encode
from fleet.core.patch import FLEET_KEY, is_fleet_key
from fleet.core.task import SPEC_FIELDS, Comment, Status, Task

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


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


_KNOWN = KNOWN | {"wisp_plane"}
#: bd rounds instants to whole seconds, so instants that differ by one second or less are equal.
_ROUNDED = timedelta(seconds=1)


def is_issue(found: Any) -> bool:
    """Return True if a line of the export is a task that fleet can hold.

    Its id must be safe as a folder name and as a command-line argument.
    """
    if not isinstance(found, dict) or found.get("_type", "issue") != "issue" or found.get("status") == "tombstone":
        return False
    key = found.get("id")
    if not isinstance(key, str) or not 0 < len(key.encode("utf-8", "replace")) <= 200 or not key.isprintable():
        return False
    return key[0] not in "-." and not set(key) & set(" /\\") and bool(found.get("title"))


def task_from(found: dict[str, Any], before: Task | None, now: datetime) -> Task:
    """Return the task for an issue, based on the known task `before`.

    Fields that bd cannot store and exact instants stay as they were.
    """
    fields: dict[str, Any] = {ours: _text(found.get(name)) for name, ours in TEXTS.items()}
    fields |= {name: found.get(name) is True for name in FLAGS}
    fields |= {name: _instant(found.get(name)) for name in INSTANTS}
    fields["status"] = fields["status"] or Status.OPEN
    fields["type"] = fields["type"] or "task"
    fields["priority"] = min(max(_number(found.get("priority")), 0), 4)
    fields["estimated_minutes"] = _number(found.get("estimated_minutes")) or None
    fields["labels"] = tuple(sorted({_text(each) for each in found.get("labels") or ()} - {""}))
    fields |= _metadata(found.get("metadata"))
    extra = {key: value for key, value in found.items() if key not in _KNOWN}
    if before is None:
        fields["created_at"] = fields["created_at"] or now
        fields["updated_at"] = fields["updated_at"] or fields["created_at"]
        held = fields["assignee"] if fields["status"] == Status.IN_PROGRESS else ""
        return Task(id=found["id"], **fields, extra=extra, claim_owner=held)
    after = before.replace(**fields, extra={**before.extra, **extra})
    return _keep_claim(before, _keep_instants(before, after))


def edges_from(found: dict[str, Any], now: datetime) -> dict[tuple[str, str], Edge]:
    """Return the dependencies of an issue, by their two ends."""
    edges = {}
    for each in found.get("dependencies") or ():
        needs = _text(each.get("depends_on_id")) if isinstance(each, dict) else ""
        if needs:
            metadata = each.get("metadata")
            known = Edge(
                task=found["id"],
                needs=needs,
                type=_text(each.get("type")) or BLOCKS,
                created_at=_instant(each.get("created_at")) or now,
                created_by=_text(each.get("created_by")),
                metadata=metadata if isinstance(metadata, str) and metadata else "{}",
                thread_id=_text(each.get("thread_id")),
            )
            edges[known.task, known.needs] = known
    return edges


def comments_from(found: dict[str, Any], now: datetime) -> list[Comment]:
    said = [each for each in found.get("comments") or () if isinstance(each, dict) and each.get("id")]
    return [
        Comment(
            id=str(each["id"]),
            task_id=found["id"],
            author=_text(each.get("author")),
            text=_text(each.get("text")),
            created_at=_instant(each.get("created_at")) or now,
        )
        for each in said
    ]


def line_of(task: Task, edges: Iterable[Edge] = (), comments: Iterable[Comment] = ()) -> str:
    """Return the line of JSON that imports this task into bd."""
    found = {"_type": "issue", **issue(task, exact=True)}
    found.pop("claim_fence", None)
    needs = [edge(each, exact=True) for each in edges]
    said = [comment(each, exact=True) for each in comments]
    found |= ({"dependencies": needs} if needs else {}) | ({"comments": said} if said else {})
    return encode(found) + "\n"


def _keep_instants(before: Task, after: Task) -> Task:
    """Return `after` with the known exact instants.

    bd rounds instants, and it sets some by its own clock even if nothing else changed.
    """
    exact = {}
    for name in INSTANTS:
        was, told = getattr(before, name), getattr(after, name)
        dated = name in ("started_at", "closed_at") and before.status == after.status
        known = was is not None and told is not None and (dated or abs(told - was) <= _ROUNDED)
        if known or (told is None and name in ("created_at", "updated_at")):
            exact[name] = was
    after = after.replace(**exact)
    same = after.replace(updated_at=before.updated_at)
    return same if same == before else after


def _keep_claim(before: Task, after: Task) -> Task:
    """Return `after` with the claim that results from bd's status and assignee.

    A supervisor's claim lasts until bd shows another holder. For a manual claim, bd decides.
    """
    if (before.status, before.assignee) == (after.status, after.assignee):
        return after
    held = after.assignee if after.status == Status.IN_PROGRESS else ""
    reopened = before.status == Status.CLOSED != after.status
    after = after.replace(handed_in_at=None) if reopened else after
    if before.is_supervised:
        if held in ("", before.claim_owner):
            return after.replace(epoch=before.epoch + 1) if reopened else after
        return after.replace(claim_owner=held, claim_expires_at=None, run_id="", epoch=before.epoch + 1)
    grows = reopened or (held and held != before.claim_owner)
    return after.replace(claim_owner=held, epoch=before.epoch + 1 if grows else before.epoch)


def _metadata(found: Any) -> dict[str, Any]:
    kept = found if isinstance(found, dict) else {}
    fields: dict[str, Any] = {name: _text(kept.get(f"{FLEET_KEY}{name}")) for name in SPEC_FIELDS}
    return {**fields, "metadata": {key: value for key, value in kept.items() if not is_fleet_key(key)}}


def _text(value: Any) -> str:
    return value.replace("\0", "") if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _instant(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return moment if moment.year >= 1000 else None  # Go writes year 1 for unset times
