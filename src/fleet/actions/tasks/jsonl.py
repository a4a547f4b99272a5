"""Parser for lines of bd's JSONL: an issue with its labels, comments and dependencies, each field checked."""

from __future__ import annotations

from datetime import UTC, datetime

from fleet.beads.format import FLAGS, INSTANTS, KNOWN
from fleet.core import checks
from fleet.core.dependency import BLOCKS, Edge
from fleet.core.errors import BadInput
from fleet.core.ids import new_uuid
from fleet.core.jsontext import decode, encode
from fleet.core.patch import with_metadata
from fleet.core.record import Record
from fleet.core.task import Comment, Status, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST_LINE = 64 * 1024 * 1024
LONGEST_NAME = 1024
LONGEST_FOLDER = 200  # bytes of an ID, because the ID names a folder
DEEPEST = 64
LARGEST = 2**53

_LINES = ("spec_id", "assignee", "owner", "created_by", "closed_by_session", "external_ref", "source_system")
_BODIES = {
    "description": "description",
    "design": "design",
    "acceptance_criteria": "acceptance",
    "notes": "notes",
    "close_reason": "close_reason",
}


class TaskLine(Record):
    """A task as read from a file. A task without an ID gets a new ID."""

    task: Task
    comments: tuple[Comment, ...] = ()
    edges: tuple[Edge, ...] = ()

    def named(self, key: str) -> TaskLine:
        return TaskLine(
            task=self.task.replace(id=key),
            comments=tuple(each.replace(task_id=key) for each in self.comments),
            edges=tuple(each.replace(task=key) for each in self.edges),
        )


def read_line(line: bytes, config: Mapping[str, str], now: datetime) -> TaskLine | str:
    """Return the row of a line, or the kind of a skipped line: blank, header, memory or tombstone. Raises BadInput.

    `config` has the custom statuses and types. `now` replaces missing timestamps.
    """
    text = _decoded(line).strip()
    if not text:
        return "blank"
    found = _parsed(text)
    if "_schema" in found:
        return "header"
    if found.get("_type") == "memory":
        return "memory"
    if found.get("status") == "tombstone":
        return "tombstone"
    check_plain(found)
    try:
        return row_from(found, config, now)
    except BadInput as error:
        name = found.get("id") or found.get("title") or ""
        raise BadInput(f"validation failed for issue {name}: {error}", hint=error.hint) from error


def task_id(text: str) -> str:
    """Return an ID that is safe as a folder name and as a command-line argument. Raises BadInput."""
    name = checks.line("id", text, longest=128)
    if (
        len(name.encode()) > LONGEST_FOLDER
        or name[0] in "-."
        or not name.isprintable()
        or set(name) & set(" /\\")
        or name.startswith("external:")
    ):
        raise BadInput(
            f"invalid id {text!r}", hint="use an id without blanks or slashes that does not begin with - or a dot"
        )
    return name


def _decoded(line: bytes) -> str:
    try:
        return line.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BadInput(f"it is not UTF-8 text (byte {error.start})", hint="convert the file to UTF-8 first") from error


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = decode(text)
    except RecursionError:
        raise BadInput("it is nested too deeply") from None
    except ValueError as error:
        where = f" (column {error.colno})" if hasattr(error, "colno") else ""
        raise BadInput(f"it is not JSON: {getattr(error, 'msg', error)}{where}") from error
    if not isinstance(found, dict):
        raise BadInput(f"it is not a JSON object but {_kind(found)}")
    return found


def check_plain(found: dict[str, Any]) -> None:
    """Raise BadInput for values that Python accepts as JSON but other programs cannot read back."""
    _check_depth(found, DEEPEST)
    try:
        encode(found).encode()
    except UnicodeEncodeError:
        raise BadInput("it contains half of a surrogate pair, which is not a character") from None
    except ValueError as error:
        raise BadInput(f"it contains an invalid number: {error}") from error


def _check_depth(value: Any, room: int) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise BadInput("it contains a NUL character", hint="remove it: fleet passes texts to agents unchanged")
        return
    if not isinstance(value, dict | list):
        return
    if not room:
        raise BadInput("it is nested too deeply")
    for item in (*value, *value.values()) if isinstance(value, dict) else value:
        _check_depth(item, room - 1)


def row_from(found: dict[str, Any], config: Mapping[str, str], now: datetime) -> TaskLine:
    """Return the row of a JSON issue, with every field checked. Raises BadInput."""
    fields: dict[str, Any] = {"id": _text(found, "id"), "title": checks.title(_text(found, "title"))}
    if fields["id"]:
        task_id(fields["id"])
    fields |= {name: checks.line(name, _text(found, name), longest=LONGEST_NAME) for name in _LINES}
    fields |= {ours: checks.body(name, _text(found, name)) for name, ours in _BODIES.items()}
    fields |= {name: _flag(found, name) for name in FLAGS}
    fields["ephemeral"] |= _flag(found, "wisp")
    fields["type"] = checks.task_type(_text(found, "issue_type") or "task", config)
    fields["priority"] = _priority(found)
    fields["estimated_minutes"] = _number(found, "estimated_minutes") or None
    fields["epoch"] = _number(found, "claim_fence")
    fields["labels"] = checks.labels([_as_text("label", each) for each in _list(found, "labels")])
    fields |= _status_and_instants(found, config, now)
    fields["extra"] = {key: value for key, value in found.items() if key not in KNOWN}
    task = with_metadata(Task(**fields), _object(found, "metadata"))
    comments = tuple(_comment(each, task) for each in _list(found, "comments"))
    return TaskLine(
        task=task, comments=comments, edges=tuple(_edge(each, task) for each in _list(found, "dependencies"))
    )


def _status_and_instants(found: dict[str, Any], config: Mapping[str, str], now: datetime) -> dict[str, Any]:
    fields: dict[str, Any] = {name: _instant(found, name) for name in INSTANTS}
    fields["created_at"] = fields["created_at"] or now
    fields["updated_at"] = fields["updated_at"] or now
    fields["status"] = checks.status(_text(found, "status") or Status.OPEN, config)
    if fields["status"] == Status.CLOSED:
        fields["closed_at"] = fields["closed_at"] or fields["updated_at"]
    elif fields["closed_at"] is not None:
        raise BadInput("non-closed issues cannot have closed_at timestamp")
    return fields


def _comment(found: Any, task: Task) -> Comment:
    if not isinstance(found, dict):
        raise BadInput(f"a comment is {_kind(found)}, not an object")
    key = found.get("id")
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)  # before bd 1.0, comment IDs were numbers
    return Comment(
        id=checks.line("comment id", _as_text("comment id", key or "")) or new_uuid(),
        task_id=task.id,
        author=checks.line("author", _text(found, "author"), longest=LONGEST_NAME),
        text=checks.body("comment", _text(found, "text")),
        created_at=_instant(found, "created_at") or task.created_at,
    )


def _edge(found: Any, task: Task) -> Edge:
    if not isinstance(found, dict):
        raise BadInput(f"a dependency is {_kind(found)}, not an object")
    metadata = found.get("metadata")
    return Edge(
        task=_text(found, "issue_id") or task.id,
        needs=checks.line("depends_on_id", _text(found, "depends_on_id")),
        type=checks.line("dependency type", _text(found, "type"), longest=50) or BLOCKS,
        created_at=_instant(found, "created_at") or task.created_at,
        created_by=checks.line("created_by", _text(found, "created_by"), longest=LONGEST_NAME),
        metadata=encode(metadata) if isinstance(metadata, dict) else _json_text(_text(found, "metadata")),
        thread_id=checks.line("thread_id", _text(found, "thread_id"), longest=LONGEST_NAME),
    )


def _json_text(text: str) -> str:
    try:
        if not text or isinstance(decode(text), dict):
            return text or "{}"
    except (ValueError, RecursionError):
        pass
    raise BadInput("the metadata of a dependency is not a JSON object")


def _instant(found: dict[str, Any], name: str) -> datetime | None:
    text = _text(found, name)
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None or len(text) < len("2026-01-01T00:00:00Z"):
            raise ValueError("no time zone")
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(
            f"{name} {text!r} is not an RFC 3339 time", hint="write the time like 2026-01-15T10:00:00Z"
        ) from None
    if moment.year == 1:
        return None  # Go writes an unset time as year 1
    if moment.year < 1000:
        raise BadInput(f"{name} {text!r} is too long ago")
    return moment


def _priority(found: dict[str, Any]) -> int:
    number = found.get("priority")
    if number is None:
        return 0  # bd reads a missing number as 0
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadInput(f"priority is {_kind(number)}, not a number")
    if not 0 <= number <= 4:
        raise BadInput(f"priority must be between 0 and 4 (got {number})")
    return number


def _number(found: dict[str, Any], name: str) -> int:
    number = found.get(name)
    if number is None:
        return 0
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadInput(f"{name} is {_kind(number)}, not a whole number")
    if not 0 <= number < LARGEST:
        raise BadInput(f"{name} is out of range (got {number})")
    return number


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return "" if value is None else _as_text(name, value)


def _as_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{name} is {_kind(value)}, not text")
    return value


def _flag(found: dict[str, Any], name: str) -> bool:
    value = found.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadInput(f"{name} is {_kind(value)}, not true or false")
    return bool(value)


def _list(found: dict[str, Any], name: str) -> list[Any]:
    value = found.get(name)
    if value is not None and not isinstance(value, list):
        raise BadInput(f"{name} is {_kind(value)}, not a list")
    return value or []


def _object(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadInput(f"{name} is {_kind(value)}, not an object")
    return value or {}


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
