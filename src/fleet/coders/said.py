"""Tolerant reading of a program's output: missing or malformed values read as empty."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fleet.core.event import Event

    Said = dict[str, Any]

LARGEST = 2**53  # all JSON readers agree on integers up to here

_decode = msgspec.json.Decoder().decode
_EMPTY: dict[str, Any] = {}


def decoded(line: str) -> Said | None:
    """Return the JSON object on a line, with texts that any file and database can store.

    Return None for anything else.
    """
    try:
        said = _decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        said = _with_half_characters(line)
    if type(said) is not dict:
        return None
    return _cleaned(said) if "\\u0000" in line else said


def read_by_type(line: str, readers: Mapping[str, Callable[[Said], list[Event]]]) -> list[Event]:
    """Return the events of a line, using the reader for the `type` of its JSON object."""
    said = decoded(line)
    kind = said.get("type") if said else None
    read = readers.get(kind) if type(kind) is str else None
    return read(said) if said and read else []


def text(said: Said, key: str) -> str:
    """Return a text that any file and database can store."""
    value = said.get(key)
    return clean(value) if type(value) is str else ""


def table(said: Said, key: str) -> Said:
    value = said.get(key)
    return value if type(value) is dict else _EMPTY


def tables(said: Said, key: str) -> list[Said]:
    value = said.get(key)
    return [each for each in value if type(each) is dict] if type(value) is list else []


def count(said: Said, key: str) -> int:
    """Return a non-negative integer. Return 0 for anything else."""
    value = said.get(key)
    return value if type(value) is int and 0 <= value < LARGEST else 0


def amount(said: Said, key: str) -> float | None:
    """Return a non-negative number. Return None for anything else."""
    value = _number(said.get(key))
    return value if value is not None and value >= 0 else None


def share(said: Said, key: str) -> float | None:
    """Return a fraction as a percentage with two decimals."""
    found = amount(said, key)
    return None if found is None else round(100 * found, 2)


def instant(value: object) -> datetime | None:
    """Return a time given as RFC 3339, or as seconds or milliseconds since 1970."""
    try:
        if type(value) is str:
            found = datetime.fromisoformat(value)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        number = _number(value)
        if number is not None and number > 0:
            return datetime.fromtimestamp(number / 1000 if number > 10**11 else number, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def clean(value: str) -> str:
    """Return text without lone surrogates and NULs, both of which JSON can contain."""
    if value.isascii():
        return value.replace("\0", "")
    return value if value.isprintable() else value.encode("utf-8", "replace").decode().replace("\0", "")


def _with_half_characters(line: str) -> object:
    """Return a line that msgspec refuses because a program cut a text inside a character, as JavaScript allows."""
    if "\\ud" not in line and "\\uD" not in line:
        return None
    try:
        return _cleaned(json.loads(line, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return None


def _cleaned(value: Any) -> Any:
    if type(value) is str:
        return clean(value)
    if type(value) is dict:
        return {clean(key): _cleaned(item) for key, item in value.items()}
    if type(value) is list:
        return [_cleaned(item) for item in value]
    if type(value) is float and not abs(value) < LARGEST:  # json reads 1e999 as infinity, msgspec refuses it
        return None
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _number(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
    return float(value) if usable else None  # type: ignore[arg-type]
