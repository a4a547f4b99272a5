"""Rows and records of all but tasks, whose rows every `bd` call imports."""

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
    """Return a record from a row, whose columns are in the order of its fields."""
    values = list(row)
    for at in _instants(kind):
        if values[at] is not None:
            values[at] = from_micros(values[at])
    return kind.from_values(values)


def values_of(record: Record) -> dict[str, Any]:
    """A record's columns, under the names of its fields."""
    values = record.as_dict()
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = storable(value)
        elif _is_instant(name) and value is not None:
            values[name] = to_micros(value)
    return values


def storable(text: str) -> str:
    """Text without halves of surrogate pairs: an agent that cuts an emoji in two must not stop the others' writes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@cache
def _instants(kind: type[Record]) -> list[int]:
    return [at for at, name in enumerate(kind._fields) if _is_instant(name)]


def _is_instant(name: str) -> bool:
    return name.endswith(("_at", "_until"))


def check_text(what: str, text: str) -> None:
    """Raise BadInput for text that a database cannot keep: two such names could look like one there."""
    if not is_text(text):
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise BadInput(f"{what} is not UTF-8: {shown}", hint="give the folder or branch another name.")


def is_text(text: str) -> bool:
    """Whether text is whole: names from the file system may hold bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
