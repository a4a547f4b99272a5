"""The contract of what an agent hands in: result.json, or the last word of a coder that can be held to a schema."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.core.task import Task

STATUSES = ("completed", "completed_no_changes", "blocked")
TEST_STATUSES = ("passed", "failed", "not_run")
#: The key of an event's data under which a last word has it.
HANDED_IN = "handed_in"
#: The ways of making tasks whose results go on to somebody.
_HANDED_ON = ("mcp", "workflow")

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _table(**properties: Any) -> dict[str, Any]:
    # Whoever holds a model to a schema wants every property named as required, and no other allowed.
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
    """Whether what a task hands in goes on to a caller or another stage, so that its coder is held to the contract."""
    return task.origin in _HANDED_ON


def looks_handed_in(told: object) -> bool:
    """Whether plain data could be a result: what else is in it is checked when it is used."""
    return isinstance(told, dict) and isinstance(told.get("summary"), str) and told.get("status") in STATUSES
