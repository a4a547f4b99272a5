"""What an agent's stream showed, from its recorded events (E2). Limited in size and read once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.engine.evidence.formalities import COMMAND_KEYS, RESULT, is_formality

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fleet.core.run import Run

#: The start of a line of events.jsonl, before the kind of its event.
_KIND = b'{"kind": "'
MOST_COMMANDS, LONGEST_COMMAND = 5_000, 4_000
MOST_MENTIONED = 8 << 20
#: Tools that use further tools which the stream may not show.
DELEGATES = ("task", "agent", "subagent", "delegate", "spawn", "dispatch", "mcp")
#: Events that are no answer. A result followed only by such events is the last word.
_AFTERTHOUGHTS = ("usage", "rate_limit", "session_ended", "error", "delivered", "denied")


class Stream(Record):
    """What the events of a run show."""

    events: int = 0
    uses: int = 0
    results: int = 0
    errors: int = 0  # error messages and failed tools
    last: str = ""  # the kind of the last event
    dangling: str = ""  # the last tool that began, if it never ended and no answer followed
    whole: bool = True  # True if all events are present
    told: bool = False  # True if the input of each tool is shown
    delegates: bool = False  # True if others did work for it that the stream may not show
    commands: tuple[str, ...] = ()
    mentioned: bytes = b""  # the input of every tool that was no formality, as text

    def mentions(self, words: str) -> bool:
        """Return True if the input of a tool contains a text."""
        quoted = json.dumps(words, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        return quoted in self.mentioned or words.encode("utf-8", "replace") in self.mentioned


def stream_of(lines: Iterable[bytes], *, whole: bool = True, task_id: str = "") -> Stream:
    """Return what these lines of events.jsonl show."""
    reading = _Reading(task_id)
    for line in lines:
        reading.take(line)
    return reading.stream(whole)


class _Reading:
    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._counts: dict[str, int] = {}
        self._failed = self._untold = self._size = 0
        self._last = ""
        self._open: dict[str, str] = {}  # tools that began and have not ended, by their id
        self._begun = ""  # the id of the tool that began last
        self._spoke = False  # an answer followed it
        self._delegates = False
        self._commands: list[str] = []
        self._mentioned: list[bytes] = []

    def take(self, line: bytes) -> None:
        if not line.startswith(_KIND):
            return
        kind = line[len(_KIND) : line.find(b'"', len(_KIND))].decode("ascii", "replace")[:40]
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._last = kind
        if kind == "tool_use":
            self._use(line)
        elif kind == "tool_result":
            self._result(line)
        elif kind not in _AFTERTHOUGHTS:
            self._spoke = True

    def stream(self, whole: bool) -> Stream:
        count = self._counts.get
        results = count("tool_result", 0)
        hangs = bool(results) and self._begun in self._open and not self._spoke
        return Stream(
            events=sum(self._counts.values()),
            uses=count("tool_use", 0),
            results=results,
            errors=count("error", 0) + self._failed,
            last=self._last,
            dangling=self._open[self._begun] if hangs else "",
            whole=whole and self._size < MOST_MENTIONED and len(self._commands) < MOST_COMMANDS,
            told=bool(count("tool_use")) and not self._untold,
            delegates=self._delegates,
            commands=tuple(self._commands),
            mentioned=b"\n".join(self._mentioned),
        )

    def _use(self, line: bytes) -> None:
        said = _read(line)
        tool, data = str(said.get("tool_name") or ""), said.get("data")
        self._begun, self._spoke = str(said.get("tool_id") or ""), False
        if self._begun:
            self._open[self._begun] = tool or "a tool"
        self._untold += not data
        self._delegates = self._delegates or any(word in tool.lower() for word in DELEGATES)
        is_formal = isinstance(data, dict) and is_formality(tool, data, self._task_id)
        if self._size < MOST_MENTIONED and not is_formal:
            self._size += len(line)
            self._mentioned.append(line.partition(RESULT.encode())[0])
        if isinstance(data, dict) and len(self._commands) < MOST_COMMANDS:
            self._commands += [text for key in COMMAND_KEYS if (text := _words(data.get(key)).partition(RESULT)[0])]

    def _result(self, line: bytes) -> None:
        said = _read(line)
        self._open.pop(str(said.get("tool_id") or ""), None)
        self._failed += said.get("ok") is False


def piece(run: Run, stream: Stream) -> dict[str, Any]:
    """Return the stream as a part of the receipt."""
    notes = run.notes
    return {
        "events": run.events,
        "tool_calls": run.tool_calls,
        "tool_results": stream.results,
        "denied": list(notes.get("denied", ())),
        "errors": stream.errors,
        "last": stream.last,
        "result_ok": notes.get("ok"),
        "said": str(notes.get("said") or notes.get("text") or "")[:500],
    }


def _words(value: object) -> str:
    if isinstance(value, str):
        return value[:LONGEST_COMMAND]
    if isinstance(value, list):
        return " ".join(str(each) for each in value[:100])[:LONGEST_COMMAND]
    return ""


def _read(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
