"""Conversion between rows and records of all kinds except tasks, whose rows every `bd` call imports."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fleet.core.clock import from_micros, to_micros
from fleet.core.errors import BadInput

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from fleet.core.record import Record

    R = TypeVar("R", bound=Record)


def record_from(kind: type[R], row: tuple[Any, ...]) -> R:
    """Return a record from a row whose columns are in the order of its fields."""
    values = list(row)
    for at in _instants(kind):
        if values[at] is not None:
            values[at] = from_micros(values[at])
    return kind.from_values(values)


def values_of(record: Record) -> dict[str, Any]:
    """Return a record's columns by field name."""
    values = record.as_dict()
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = storable(value)
        elif _is_instant(name) and value is not None:
            values[name] = to_micros(value)
    return values


def storable(text: str) -> str:
    """Return text without lone surrogates. An agent that cuts an emoji in two must not block the writes of others."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@cache
def _instants(kind: type[Record]) -> list[int]:
    return [at for at, name in enumerate(kind._fields) if _is_instant(name)]


def _is_instant(name: str) -> bool:
    return name.endswith(("_at", "_until"))


def check_text(what: str, text: str) -> None:
    """Raise BadInput for text that a database cannot store, because two such names could look the same there."""
    if not is_text(text):
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise BadInput(f"{what} is not UTF-8: {shown}", hint="rename the folder or branch")


def is_text(text: str) -> bool:
    """Return True if the text can be encoded. Names from the file system may hold bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
