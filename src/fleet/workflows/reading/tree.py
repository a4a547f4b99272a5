"""The result of a reader: data with the place of every value and key, limited in depth and size."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from fleet.workflows.faults import FilePosition

if TYPE_CHECKING:
    from fleet.workflows.faults import Path

DEEPEST = 32
MOST_VALUES = 200_000


class Malformed(Exception):
    """The text is invalid in its format, or exceeds the limits."""

    def __init__(self, message: str, place: FilePosition) -> None:
        super().__init__(message)
        self.place = place


class DataTree:
    """Data under construction. A reader records the place of each value as it reads it."""

    def __init__(self, text: str) -> None:
        self.data: Any = None
        self.values: dict[Path, FilePosition] = {}
        self.keys: dict[Path, FilePosition] = {}
        self.doubles: list[Path] = []
        self._starts = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]

    def place(self, offset: int) -> FilePosition:
        """Return the line and column of a character."""
        line = bisect_right(self._starts, offset)
        return FilePosition(line, offset - self._starts[line - 1] + 1)

    def value_at(self, path: Path, place: FilePosition) -> None:
        """Record the place of a value. Raises Malformed if there are too many values or they are nested too deeply."""
        self.check(path, place)
        self.values.setdefault(path, place)

    def check(self, path: Path, place: FilePosition) -> None:
        """Raise Malformed if one more value at this path would exceed the limits."""
        if len(path) > DEEPEST:
            raise Malformed(f"nested more than {DEEPEST} deep", place)
        if len(self.values) >= MOST_VALUES:
            raise Malformed(f"more than {MOST_VALUES} values", place)

    def bound(self, data: Any) -> None:
        """Raise Malformed if data that was read without places exceeds the limits."""
        count, depth, level = 1, 0, [data]
        while level := [each for value in level if isinstance(value, dict | list) for each in inner(value)]:
            count, depth = count + len(level), depth + 1
            if depth > DEEPEST:
                raise Malformed(f"nested more than {DEEPEST} deep", FilePosition(1, 1))
            if count > MOST_VALUES:
                raise Malformed(f"more than {MOST_VALUES} values", FilePosition(1, 1))

    def key_at(self, path: Path, place: FilePosition, *, again: bool = False) -> None:
        """Record the place of a key. A repeated key is a fault, reported at its second occurrence."""
        if again:
            self.doubles.append(path)
        self.keys[path] = place


def inner(value: dict[str, Any] | list[Any]) -> list[Any]:
    """Return the values in a mapping or list."""
    return list(value.values()) if isinstance(value, dict) else value
