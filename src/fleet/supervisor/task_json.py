"""`task.json`: a copy of a task for users, who may change its directory, coder and model there between runs.

Each editable field has a mark of the value that fleet wrote, so that a change is recognized.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from fleet.core import checks
from fleet.core.ids import sha256

if TYPE_CHECKING:
    from typing import Any

EDITABLE = ("cwd", "coder", "model")
MARKS = "as_written"


class Edits(NamedTuple):
    """The changes of a user in `task.json`, and the reason if they are not used."""

    fields: dict[str, str]
    problem: str = ""


def with_marks(copy: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a task with a mark of each editable field.

    Marks survive a search and replace of a value or of text that looks like the field.
    """
    marked = [name for name in EDITABLE if isinstance(copy.get(name), str)]
    return {**copy, MARKS: " ".join(f"{name}={_mark(copy[name])}" for name in marked)}


def parse_edits(data: bytes) -> dict[str, str]:
    """Return the fields of a `task.json` that differ from what fleet wrote. Raises ValueError, BadInput."""
    try:
        told = json.loads(data.decode("utf-8"))
        marks = str(told.get(MARKS) or "").split()
        named = {name: _checked(name, "" if told[name] is None else told[name]) for name in EDITABLE if name in told}
        return {name: value for name, value in named.items() if f"{name}={_mark(value)}" not in marks}
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it does not contain a task: {error}") from error


def _mark(value: str) -> str:
    return sha256(value.encode("utf-8", "replace"))[:16]


def _checked(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"its {name} is not text")
    checks.line(name, value, longest=4096)
    value.encode("utf-8")
    if name == "cwd" and value and not value.startswith("/"):
        raise ValueError("its cwd is not an absolute path")
    return value
