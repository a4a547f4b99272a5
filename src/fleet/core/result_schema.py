"""The schema of what an agent hands in: result.json, or the final message of a coder that supports a schema."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.core.task import Task

STATUSES = ("completed", "completed_no_changes", "blocked")
TEST_STATUSES = ("passed", "failed", "not_run")
#: The key in an event's data that holds a final message in this schema.
HANDED_IN = "handed_in"
#: Origins of tasks whose results go to a caller or another stage.
_HANDED_ON = ("mcp", "workflow")

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _table(**properties: Any) -> dict[str, Any]:
    # Services that enforce a schema on a model want all properties required and no others allowed.
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMA = _table(
    summary=_TEXT,
    files_changed=_TEXTS,
    tests={
        "type": "array",
        "items": _table(command=_TEXT, status={"type": "string", "enum": list(TEST_STATUSES)}, details=_TEXT),
    },
    commits=_TEXTS,
    next_steps=_TEXTS,
    status={"type": "string", "enum": list(STATUSES)},
)


def is_handed_on(task: Task) -> bool:
    """Return True if a task's result goes to a caller or another stage. Its coder must then follow the schema."""
    return task.origin in _HANDED_ON


def looks_handed_in(told: object) -> bool:
    """Return True if plain data could be a result. Other fields are checked when they are used."""
    return isinstance(told, dict) and isinstance(told.get("summary"), str) and told.get("status") in STATUSES
