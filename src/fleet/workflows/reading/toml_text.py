"""TOML with places: tomllib says what is in the text, a scan of the same text where it stands."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from fleet.workflows.faults import Place
from fleet.workflows.reading.tree import Malformed, Tree

if TYPE_CHECKING:
    from fleet.workflows.faults import Path

_BLANK = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TEXT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)
_PLAIN = re.compile(r"[^,\]}#\n]+")
_PLACED = re.compile(r" \(at line (\d+), column (\d+)\)\Z")


def read(text: str) -> Tree:
    """The data in a TOML text. Raises Malformed."""
    # First, since it has bounds: tomllib's work grows with the square of a dotted key's length.
    tree = _Scan(text).tree
    try:
        tree.data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _malformed(tree, text, str(error)) from error
    except (RecursionError, ValueError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error).partition(";")[0].lower()
        raise Malformed(what, Place(1, 1)) from error
    return tree


def _malformed(tree: Tree, text: str, told: str) -> Malformed:
    what = re.sub(r" \(at [^()]*\)\Z", "", told.splitlines()[0])
    placed = _PLACED.search(told)
    place = Place(int(placed[1]), int(placed[2])) if placed else tree.place(len(text))
    return Malformed(f"{what[:1].lower()}{what[1:]}", place)


class _Lost(Exception):
    """The scan met something that is no TOML: tomllib says what."""


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self.tree = Tree(text)
        self._at = 0
        self._last: dict[Path, int] = {}  # of each list of tables
        self.tree.value_at((), Place(1, 1))
        table: Path = ()
        try:
            while self._pass(_BETWEEN) < len(text):
                if self._next("["):
                    table = self._header()
                else:
                    self._pair(table)
        except _Lost:
            pass

    def _header(self) -> Path:
        start, is_list = self._at, self._next("[[")
        self._at += 2 if is_list else 1
        *above, (name, at) = self._key(())
        self._take("]]" if is_list else "]")
        outer = self._inside(tuple(part for part, _ in above))
        for end in range(1, len(outer) + 1):
            self._note(outer[:end], start)
        path = (*outer, name)
        self.tree.key_at(path, self.tree.place(at))
        self._note(path, start)
        if is_list:
            self._last[path] = self._last.get(path, -1) + 1
        path = self._inside((*(part for part, _ in above), name))
        self._note(path, start)
        return path

    def _pair(self, table: Path) -> None:
        for name, at in self._key(table):
            table = (*table, name)
            self.tree.key_at(table, self.tree.place(at))
            last = table
        self._take("=")
        for end in range(1, len(last)):
            self._note(last[:end], self._at)
        self._value(last)

    def _key(self, above: Path) -> list[tuple[str, int]]:
        parts: list[tuple[str, int]] = []
        while True:
            start = self._pass(_BLANK)
            found = _BARE.match(self._text, start) or _TEXT.match(self._text, start)
            if found is None:
                raise _Lost
            self._at = found.end()
            parts.append((_name(found[0]), start))
            self.tree.check((*above, *(part for part, _ in parts)), self.tree.place(start))
            if self._pass(_BLANK) >= len(self._text) or self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: Path) -> None:
        self._note(path, self._pass(_BLANK))
        if self._next("["):
            self._elements(path)
        elif self._next("{"):
            self._fields(path)
        else:
            found = _TEXT.match(self._text, self._at) or _PLAIN.match(self._text, self._at)
            if found is None:
                raise _Lost
            self._at = found.end()

    def _elements(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._pass(_BETWEEN) < len(self._text) and not self._next("]"):
            self._value((*path, number))
            number += 1
            self._pass(_BETWEEN)
            if not self._next("]"):
                self._take(",")
        self._take("]")

    def _fields(self, path: Path) -> None:
        self._at += 1
        while self._pass(_BLANK) < len(self._text) and not self._next("}"):
            self._pair(path)
            self._pass(_BLANK)
            if not self._next("}"):
                self._take(",")
        self._take("}")

    def _inside(self, names: Path) -> Path:
        """The path that a header means: of a list of tables, the last one."""
        path: Path = ()
        for name in names:
            path = (*path, name)
            if path in self._last:
                path = (*path, self._last[path])
        return path

    def _note(self, path: Path, at: int) -> None:
        self.tree.value_at(path, self.tree.place(at))

    def _pass(self, what: re.Pattern[str]) -> int:
        found = what.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _next(self, word: str) -> bool:
        return self._text.startswith(word, self._at)

    def _take(self, word: str) -> None:
        self._pass(_BLANK)
        if not self._next(word):
            raise _Lost
        self._at += len(word)


def _name(written: str) -> str:
    """A part of a key without its quotes."""
    if written[0] not in "\"'":
        return written
    try:
        return str(tomllib.loads(f"name = {written}")["name"])
    except tomllib.TOMLDecodeError as error:
        raise _Lost from error
