"""Reading what a program said, where nothing can be relied on: what is missing or of another shape reads as nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from typing import Any

    Said = dict[str, Any]

LARGEST = 2**53  # what every reader of JSON agrees on

_decode = msgspec.json.Decoder().decode
_EMPTY: dict[str, Any] = {}


def decoded(line: str) -> Said | None:
    """The JSON object on a line; none where there is something else."""
    try:
        said = _decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return said if type(said) is dict else None


def text(said: Said, key: str) -> str:
    """A text that any file and database can hold."""
    value = said.get(key)
    return clean(value) if type(value) is str else ""


def table(said: Said, key: str) -> Said:
    """An object within."""
    value = said.get(key)
    return value if type(value) is dict else _EMPTY


def tables(said: Said, key: str) -> list[Said]:
    """The objects of a list within."""
    value = said.get(key)
    return [each for each in value if type(each) is dict] if type(value) is list else []


def count(said: Said, key: str) -> int:
    """How many: a whole number that is not negative."""
    value = said.get(key)
    return value if type(value) is int and 0 <= value < LARGEST else 0


def amount(said: Said, key: str) -> float | None:
    """How much: a number that is not negative."""
    value = _number(said.get(key))
    return value if value is not None and value >= 0 else None


def instant(value: object) -> datetime | None:
    """A moment: RFC 3339, or seconds or milliseconds since 1970."""
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
    """Text without half characters and NULs: JSON can name both."""
    return value if value.isprintable() else value.encode("utf-8", "replace").decode().replace("\0", "")


def _number(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
    return float(value) if usable else None  # type: ignore[arg-type]
