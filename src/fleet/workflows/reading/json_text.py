"""JSON with places: what the json module reads, and nothing more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from fleet.workflows.reading.tree import Malformed, Tree

if TYPE_CHECKING:
    from fleet.workflows.faults import Path

_SPACE = re.compile(r"[ \t\n\r]*")


def read(text: str) -> Tree:
    """The data in a JSON text. Raises Malformed."""
    return _Reader(text).tree


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = Tree(text)
        self._plain = json.JSONDecoder(parse_constant=_refuse)
        self.tree.data, end = self._value(0, ())
        end = self._skip(end)
        if end < len(text):
            self._fail("something follows the value", end)

    def _value(self, at: int, path: Path) -> tuple[Any, int]:
        at = self._skip(at)
        self.tree.value_at(path, self.tree.place(at))
        first = self.text[at : at + 1]
        if first == "{":
            return self._object(at, path)
        if first == "[":
            return self._array(at, path)
        return self._scalar(at)

    def _object(self, at: int, path: Path) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = self._skip(at + 1)
        if self.text[at : at + 1] == "}":
            return found, at + 1
        while True:
            at = self._skip(at)
            if self.text[at : at + 1] != '"':
                self._fail("a key in double quotes is expected", at)
            name, end = self._scalar(at)
            self.tree.key_at((*path, name), self.tree.place(at), again=name in found)
            at = self._skip(end)
            if self.text[at : at + 1] != ":":
                self._fail("a colon is expected after the key", at)
            found[name], at = self._value(at + 1, (*path, name))
            at, is_over = self._next(at, "}")
            if is_over:
                return found, at

    def _array(self, at: int, path: Path) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self._skip(at + 1)
        if self.text[at : at + 1] == "]":
            return found, at + 1
        while True:
            value, at = self._value(at, (*path, len(found)))
            found.append(value)
            at, is_over = self._next(at, "]")
            if is_over:
                return found, at

    def _next(self, at: int, end: str) -> tuple[int, bool]:
        at = self._skip(at)
        if self.text[at : at + 1] not in (",", end):
            self._fail(f"a comma or {end} is expected", at)
        return at + 1, self.text[at] == end

    def _scalar(self, at: int) -> tuple[Any, int]:
        try:
            return self._plain.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            place = self.tree.place(error.pos)
            raise Malformed(f"{error.msg[:1].lower()}{error.msg[1:]}", place) from error
        except ValueError as error:
            raise Malformed(str(error).partition(";")[0].lower(), self.tree.place(at)) from error

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def _fail(self, message: str, at: int) -> NoReturn:
        raise Malformed(message, self.tree.place(at))


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
