"""What statements and texts look like to PostgreSQL, which spells values otherwise and takes no NUL in a text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

#: A character that stands for nothing in Unicode begins what a NUL, or itself, becomes.
_MARK, _NUL = "\ufdd0", "\0"
_VALUE = re.compile(r"(?<![:\w]):(\w+)")


@lru_cache(maxsize=1024)
def in_postgres(sql: str) -> bytes:
    """A statement with its values as psycopg names them, and lists read by our own function."""
    return _VALUE.sub(r"%(\1)s", sql.replace("%", "%%")).replace("json_each(", "each_of(").encode()


def escaped(values: dict[str, Any]) -> dict[str, Any]:
    """Values that PostgreSQL can keep: `unescaped` gives every text back as it was."""
    return {name: _escaped(value) for name, value in values.items()}


def unescaped(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows as they were before `escaped`."""
    return [tuple(map(_unescaped, row)) if any(map(_is_marked, row)) else row for row in rows]


def _escaped(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)  # flags are numbers, as in SQLite
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    if isinstance(value, str) and (_NUL in value or _MARK in value):
        return value.replace(_MARK, _MARK + "1").replace(_NUL, _MARK + "0")
    return value


def _is_marked(value: Any) -> bool:
    return isinstance(value, str) and _MARK in value


def _unescaped(value: Any) -> Any:
    return value.replace(_MARK + "0", _NUL).replace(_MARK + "1", _MARK) if _is_marked(value) else value
