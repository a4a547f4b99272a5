"""Output of a described coder: paths into JSON objects, and signs that a line must have."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from fleet.coders.said import LARGEST, clean, decoded, instant
from fleet.config.described import PATHS, Place
from fleet.core.event import Event, Kind, Limit, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fleet.config.described import Output

#: The sign that is not a path: text that the line itself must contain.
CONTAINS = "contains"
#: Maximum number of values that one path finds in one line.
MOST = 1000
LONGEST_NAME = 200
LONGEST_REASON = 500
STDERR_TAIL = 16 * 1024
TOKENS = ("input", "output", "cache_read", "cache_write")


class Reader:
    """Parser for a described coder's output. It keeps no state."""

    def __init__(self, output: Output) -> None:
        self._output = output
        told = {name: getattr(output, name) for name in PATHS}
        places = {name: each if isinstance(each, Place) else Place(path=each) for name, each in told.items() if each}
        self._places = {name: (place.path.split("."), place.when) for name, place in places.items()}

    def events(self, line: str) -> list[Event]:
        """Return a line's events in order: tools, texts, usage, limits, the final result."""
        said = (decoded(line) or {}) if self._output.format == "jsonl" else {}
        ok = self._last_word(line, said)
        limit = self._limit(line, said)
        found = [Event(kind=Kind.TOOL_USE, tool=name[:LONGEST_NAME]) for name in self._all("tool", line, said, _text)]
        if ok is None and limit is None:
            found += [Event(kind=Kind.TEXT, text=text) for text in self._texts(line, said)]
            found += [Event(kind=Kind.ERROR, text=text) for text in self._all("error", line, said, _text)]
        found += self._usage(line, said)
        if limit is not None:
            found.append(limit)
        if ok is not None:
            found.append(Event(kind=Kind.RESULT, ok=ok, text=self._reason(line, said)))
        session = self._first("session", line, said, _session)
        if not session:
            return found
        return [found[0].replace(session=session), *found[1:]] if found else [_started(session)]

    def complaint(self, stderr: str) -> Event | None:
        """Return the last limit that stderr reports."""
        lines = stderr[-STDERR_TAIL:].splitlines()
        return next((event for line in reversed(lines) if (event := self._limit(line, {}))), None)

    def _last_word(self, line: str, said: Mapping[str, Any]) -> bool | None:
        if _has(self._output.failure, line, said):
            return False
        return True if _has(self._output.success, line, said) else None

    def _limit(self, line: str, said: Mapping[str, Any]) -> Event | None:
        output = self._output
        if _has(output.context_full, line, said):
            return Event(kind=Kind.CONTEXT_FULL, text=self._reason(line, said))
        kinds = ((output.auth, "auth"), (output.limit, output.limit_kind), (output.overload, "overload"))
        kind = next((kind for signs, kind in kinds if _has(signs, line, said)), "")
        if not kind:
            return None
        text = self._reason(line, said) or clean(line.strip())[:LONGEST_REASON]
        return Event(
            kind=Kind.LIMIT,
            text=text,
            limit=Limit(kind=kind, text=text, resets_at=self._first("resets_at", line, said, instant)),
        )

    def _reason(self, line: str, said: Mapping[str, Any]) -> str:
        """Return the text of a line that ends the run: its error, else its text, else a plain-text line itself."""
        told = self._first("error", line, said, _text) or self._first("text", line, said, _text)
        return told or ("" if said else clean(line.strip())[:LONGEST_REASON])

    def _texts(self, line: str, said: Mapping[str, Any]) -> list[str]:
        if self._output.format == "jsonl":
            return self._all("text", line, said, _text)
        return [clean(line)] if line.strip() else []

    def _usage(self, line: str, said: Mapping[str, Any]) -> list[Event]:
        counts = {name: self._first(f"{name}_tokens", line, said, _count) for name in TOKENS}
        told = {name: count for name, count in counts.items() if count is not None}
        cost = self._first("cost_usd", line, said, _amount)
        context, window = (self._first(name, line, said, _count) for name in ("context", "window"))
        if not told and cost is None and context is None and window is None:
            return []
        total = self._output.usage_total
        return [
            Event(
                kind=Kind.USAGE,
                usage=Usage(**told, total=total) if told else None,
                cost_usd=cost if total else None,
                cost_added=None if total else cost,
                context=context,
                window=window,
            )
        ]

    def _first(self, name: str, line: str, said: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
        return next(iter(self._all(name, line, said, read)), None)

    def _all(self, name: str, line: str, said: Mapping[str, Any], read: Callable[[Any], Any]) -> list[Any]:
        path, when = self._places.get(name, ((), {}))
        if not path or (when and not _has(when, line, said)):
            return []
        return [value for each in _at(said, path) if (value := read(each)) is not None]


def is_session(text: str) -> bool:
    """Return True if a text chosen by an agent can be passed to a program as an argument."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and not text.startswith("-")


def _started(session: str) -> Event:
    return Event(kind=Kind.SESSION_STARTED, session=session)


def _has(signs: Mapping[str, Any], line: str, said: Mapping[str, Any]) -> bool:
    """Return True if a line has all the signs. Return False if no signs are given."""
    return bool(signs) and all(_has_one(path, wanted, line, said) for path, wanted in signs.items())


def _has_one(path: str, wanted: Any, line: str, said: Mapping[str, Any]) -> bool:
    choices = wanted if isinstance(wanted, tuple) else (wanted,)
    if path == CONTAINS:
        return any(isinstance(text, str) and text in line for text in choices)
    return any(_same(value, choice) for value in _at(said, path.split(".")) for choice in choices)


def _same(value: Any, choice: Any) -> bool:
    # Python treats True as equal to 1.
    return isinstance(value, bool) is isinstance(choice, bool) and bool(value == choice)


def _at(said: Mapping[str, Any], path: list[str]) -> list[Any]:
    """Return the values at a path: names of objects, list indexes from 0, `*` for each element of a list."""
    found: list[Any] = [said]
    for part in path:
        found = list(islice((inner for value in found for inner in _inside(value, part)), MOST))
    return found


def _inside(value: Any, part: str) -> Iterator[Any]:
    if isinstance(value, dict) and part in value:
        yield value[part]
    elif isinstance(value, list) and part == "*":
        yield from value[:MOST]
    elif isinstance(value, list) and part.isdecimal() and len(part) < 6 and int(part) < len(value):
        yield value[int(part)]


def _text(value: Any) -> str | None:
    return clean(value) if isinstance(value, str) and value else None


def _session(value: Any) -> str | None:
    return value if isinstance(value, str) and is_session(value) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < LARGEST else None


def _amount(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST
    return float(value) if usable else None
