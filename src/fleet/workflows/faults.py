"""What is wrong with a workflow, each with its place in the file, all of it in one go."""

from __future__ import annotations

from bisect import bisect_right
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: Enough to mend a file by; how many more there are is said.
MOST_FAULTS = 200

#: To find the one that was meant among; a file of thousands of stages is not worth minutes.
MOST_WORDS = 300

#: The way to a value: names of keys, and numbers of elements from 0.
Path = tuple[str | int, ...]


class Place(NamedTuple):
    """Where something stands in a file, both counted from 1."""

    line: int
    column: int


NOWHERE = Place(0, 0)


class Fault(NamedTuple):
    """One thing that is wrong, and what to do."""

    file: str
    place: Place  # NOWHERE in data that was never a file
    path: str  # stages[2].depends_on
    message: str
    hint: str = ""

    @property
    def where(self) -> str:
        if self.place != NOWHERE:
            return f"{self.file}:{self.place.line}:{self.place.column}"
        return ": ".join(part for part in (self.file, self.path) if part)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def view(self) -> dict[str, Any]:
        place = {"line": self.place.line, "column": self.place.column} if self.place != NOWHERE else {}
        return {"file": self.file, **place, "path": self.path, "message": self.message, "hint": self.hint}


class BadWorkflow(BadInput):
    """A workflow that cannot be run as it is. Nothing was started."""

    def __init__(self, faults: Iterable[Fault], *, more: int = 0) -> None:
        self.faults = tuple(faults)
        rest = len(self.faults) - 1 + more
        also = f" (and {rest} more)" if rest else ""
        hint = self.faults[0].hint or "`fleet workflow validate FILE` lists all that is wrong."
        super().__init__(f"{self.faults[0]}{also}", hint=hint)


class Document(NamedTuple):
    """Plain data, and where each of its values and keys stands."""

    file: str
    data: Any
    values: Mapping[Path, Place]
    keys: Mapping[Path, Place]
    doubles: tuple[Path, ...] = ()  # keys that are there twice
    text: str = ""


class Faults:
    """Collects what is wrong with one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: dict[Fault, None] = {}
        self._more = 0
        for twice in document.doubles:
            self.add(twice, f"key {twice[-1]!r} is there twice", "keep one of them.", at_key=True)

    def add(
        self, path: Path, message: str, hint: str | Callable[[], str] = "", *, at_key: bool = False, words: str = ""
    ) -> None:
        """Note a fault of the value at this path, of its key, or of these words in it. A hint that takes time is a
        function."""
        if len(self._found) >= MOST_FAULTS:
            self._more += 1
            return
        told = hint if isinstance(hint, str) else hint()
        self._found[Fault(self._document.file, self._place(path, at_key, words), shown(path), message, told)] = None

    def refuse(self) -> None:
        """Raise BadWorkflow if anything was noted, in the order of the file."""
        if self._found:
            raise BadWorkflow(sorted(self._found, key=lambda fault: fault.place), more=self._more)

    def __bool__(self) -> bool:
        return bool(self._found)

    def _place(self, path: Path, at_key: bool, words: str) -> Place:
        """Where it is, or the nearest thing around it that has a place."""
        if at_key and path in self._document.keys:
            return self._document.keys[path]
        for end in range(len(path), -1, -1):
            if path[:end] in self._document.values:
                place = self._document.values[path[:end]]
                return self._found_in(place, words) if words and end == len(path) else place
        return NOWHERE

    def _found_in(self, start: Place, words: str) -> Place:
        """The line on which words of a long text stand, if the file has them as they are; else where it begins."""
        after = bisect_right(self._starts, start)
        last = self._starts[after].line if after < len(self._starts) else len(self._lines)
        for line in range(start.line + 1, last + 1):
            column = self._lines[line - 1].find(words) if line <= len(self._lines) else -1
            if column >= 0 and (after >= len(self._starts) or Place(line, column + 1) < self._starts[after]):
                return Place(line, column + 1)
        return start

    @cached_property
    def _starts(self) -> list[Place]:
        return sorted({*self._document.values.values(), *self._document.keys.values()})

    @cached_property
    def _lines(self) -> list[str]:
        return self._document.text.split("\n")


def shown(path: Path) -> str:
    """A path as people write it: stages[2].depends_on."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word which is most like this one."""
    words = list(known)[:MOST_WORDS]
    close = get_close_matches(word, words, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(sorted(words)[:20])}{' …' if len(words) > 20 else ''}."


def short(value: Any) -> str:
    """A value of the file in a message."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    text = "null" if value is None else text
    return text if len(text) <= 60 else f"{text[:57]}…"
