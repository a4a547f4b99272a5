"""Errors of a workflow with their places in the file, all reported together."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.core.errors import BadInput, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: Enough to repair a file. Further faults are only counted.
MOST_FAULTS = 200

#: Words compared to suggest the intended one, because comparing thousands would take minutes.
MOST_WORDS = 300

#: The path of a value: names of keys, and list indexes from 0.
Path = tuple[str | int, ...]


class FilePosition(NamedTuple):
    """A position in a file. Line and column count from 1."""

    line: int
    column: int


NOWHERE = FilePosition(0, 0)


class Fault(NamedTuple):
    """An error in a workflow, with a hint on how to fix it."""

    file: str
    place: FilePosition  # NOWHERE if the data is not from a file
    path: str  # such as stages[2].depends_on
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
    """A workflow that cannot run as it is. Nothing was started."""

    def __init__(self, faults: Iterable[Fault], *, more: int = 0) -> None:
        self.faults = tuple(faults)
        rest = len(self.faults) - 1 + more
        also = f" (and {rest} more)" if rest else ""
        hint = self.faults[0].hint or "run `fleet workflow validate FILE` to list all that is wrong"
        super().__init__(f"{self.faults[0]}{also}", hint=hint)


class Document(NamedTuple):
    """Plain data, with the places of its values and keys."""

    file: str
    data: Any
    values: Mapping[Path, FilePosition]
    keys: Mapping[Path, FilePosition]
    doubles: tuple[Path, ...] = ()  # keys that occur twice
    text: str = ""


class Faults:
    """Collector of the faults of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: dict[Fault, None] = {}
        self._more = 0
        for twice in document.doubles:
            self.add(twice, f"key {twice[-1]!r} occurs twice", "keep one of them", at_key=True)

    def add(
        self, path: Path, message: str, hint: str | Callable[[], str] = "", *, at_key: bool = False, words: str = ""
    ) -> None:
        """Add a fault of the value at this path, of its key, or of certain words in it.

        A hint that is slow to compute can be passed as a function.
        """
        if len(self._found) >= MOST_FAULTS:
            self._more += 1
            return
        told = hint if isinstance(hint, str) else hint()
        self._found[Fault(self._document.file, self._place(path, at_key, words), shown(path), message, told)] = None

    def refuse(self) -> None:
        """Raise BadWorkflow if there are faults. They are sorted by their place in the file."""
        if self._found:
            raise BadWorkflow(sorted(self._found, key=lambda fault: fault.place), more=self._more)

    def __bool__(self) -> bool:
        return bool(self._found)

    def _place(self, path: Path, at_key: bool, words: str) -> FilePosition:
        """Return the place of a value, else of the nearest enclosing value that has one."""
        if at_key and path in self._document.keys:
            return self._document.keys[path]
        for end in range(len(path), -1, -1):
            if path[:end] in self._document.values:
                place = self._document.values[path[:end]]
                return self._found_in(place, words) if words and end == len(path) else place
        return NOWHERE

    def _found_in(self, start: FilePosition, words: str) -> FilePosition:
        """Return the place of `words` in a long text, if the file contains them literally.

        Else return the text's start.
        """
        after = bisect_right(self._starts, start)
        last = self._starts[after].line if after < len(self._starts) else len(self._lines)
        for line in range(start.line + 1, last + 1):
            column = self._lines[line - 1].find(words) if line <= len(self._lines) else -1
            if column >= 0 and (after >= len(self._starts) or FilePosition(line, column + 1) < self._starts[after]):
                return FilePosition(line, column + 1)
        return start

    @cached_property
    def _starts(self) -> list[FilePosition]:
        return sorted({*self._document.values.values(), *self._document.keys.values()})

    @cached_property
    def _lines(self) -> list[str]:
        return self._document.text.split("\n")


def shown(path: Path) -> str:
    """Return a path in readable form: stages[2].depends_on."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word that is most similar, else a list of known words."""
    words = list(known)[:MOST_WORDS]
    close = closest(word, words)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(sorted(words)[:20])}{' …' if len(words) > 20 else ''}."


def short(value: Any) -> str:
    """Return a value of the file, shortened for a message."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    text = "null" if value is None else text
    return text if len(text) <= 60 else f"{text[:57]}…"
