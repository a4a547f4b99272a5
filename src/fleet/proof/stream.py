"""What an agent's stream showed, from its recorded events (E2). Limited in size and read once."""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.proof.scope.shell import OUTPUT, Simple, parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fleet.core.run import Run
    from fleet.proof.scope.shell import Word


#: Keys of a tool's input for the command to run.
COMMAND_KEYS = ("command", "cmd", "script", "argv", "code", "commands")
#: The content of this file is the agent's claim and no evidence. Of a tool's input only the text before the name
#: counts.
RESULT = "result.json"
#: Tools for the agent's own plan.
_PLANNING = frozenset(("todowrite", "todo_write", "write_todos", "update_plan", "updateplan", "think"))
#: Verbs of bd about an existing task. `create`, `dep` and similar verbs are the work of an agent that plans.
_VERBS = frozenset(
    (
        *("close", "done", "update", "show", "view", "list", "ready", "comment", "comments", "note", "tag", "label"),
        *("prime", "info", "where", "status", "stats", "count", "search", "version", "help", "assign", "priority"),
    )
)
#: Programs that change nothing and reveal nothing.
_IDLE = frozenset(
    ("echo", "printf", "true", "false", ":", "cd", "sleep", "exit", "export", "set", "date", "pwd", "wait")
)
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PATHS = ("file_path", "filePath", "path", "absolute_path", "filename")
_FOLDER = "FLEET_ARTIFACT_DIR"
DEEPEST = 4


def is_formality(tool: str, data: dict[str, Any], task_id: str) -> bool:
    """Return True if a tool call certainly only hands in, discusses the task or plans."""
    if tool.lower() in _PLANNING:
        return True
    commands = [found for key in COMMAND_KEYS if (found := data.get(key))]
    if commands:
        return all(_is_formal(command, task_id) for command in commands)
    return any(_is_result(str(data[key]), task_id) for key in _PATHS if data.get(key)) and "content" in data


def _is_formal(command: object, task_id: str) -> bool:
    if isinstance(command, str):
        return _is_idle(command, task_id, DEEPEST)
    if not isinstance(command, list):
        return False
    words = [str(each) for each in command]
    return _is_simple(words, task_id, DEEPEST)


def _is_idle(line: str, task_id: str, depth: int) -> bool:
    """Return True if each command of a shell line is a formality. An unclear line is not a formality."""
    if depth == 0:
        return False
    for each in parse(line):
        if not isinstance(each, Simple):
            continue
        nested = [piece.text for word in each.words for piece in word if piece.kind == OUTPUT]
        if not all(_is_idle(text, task_id, depth - 1) for text in nested):
            return False
        writes = [redirect.target for redirect in each.redirects if ">" in redirect.operator]
        if not all(_is_nowhere(target, task_id) for target in writes):
            return False
        words = [_as_text(word) for word in each.words]
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        writes_result = any(_is_result(_as_text(target), task_id) for target in writes)
        is_result = writes_result and words == ["cat"]
        if words and not is_result and not _is_simple(words, task_id, depth):
            return False
    return True


def _is_simple(words: list[str], task_id: str, depth: int) -> bool:
    """Return True if a command is a formality."""
    name, rest = posixpath.basename(words[0]) if words else "", words[1:]
    if name in _SHELLS:
        code = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if re.fullmatch(r"-[a-z]*c", word)), None)
        return code is not None and _is_idle(code, task_id, depth - 1)
    if name in ("fleet", "flt") and rest[:1] == ["bd"]:
        name, rest = "bd", rest[1:]
    if name == "bd":
        verb = next((word for word in rest if not word.startswith("-")), "help")
        return verb in _VERBS
    return name in _IDLE


def _is_nowhere(target: Word, task_id: str) -> bool:
    """Return True if a redirection to `target` changes no file other than the agent's result."""
    path = _as_text(target)
    return path in ("/dev/null", "/dev/stderr", "/dev/stdout") or path.isdigit() or _is_result(path, task_id)


def _is_result(path: str, task_id: str) -> bool:
    folder, name = posixpath.split(path)
    return name == RESULT and (_FOLDER in folder or folder.endswith(f"/{task_id}/artifacts"))


def _as_text(word: Word) -> str:
    return "".join(piece.text for piece in word)


#: The start of a line of events.jsonl, before the kind of its event.
_KIND = b'{"kind": "'
MOST_COMMANDS, LONGEST_COMMAND = 5_000, 4_000
MOST_MENTIONED = 8 << 20
#: Tools that use further tools which the stream may not show.
DELEGATES = ("task", "agent", "subagent", "delegate", "spawn", "dispatch", "mcp")
#: Events that are no answer. A result followed only by such events is the last word.
_AFTERTHOUGHTS = ("usage", "rate_limit", "session_ended", "error", "delivered", "denied")


class StreamEvidence(Record):
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


def stream_of(lines: Iterable[bytes], *, whole: bool = True, task_id: str = "") -> StreamEvidence:
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

    def stream(self, whole: bool) -> StreamEvidence:
        count = self._counts.get
        results = count("tool_result", 0)
        hangs = bool(results) and self._begun in self._open and not self._spoke
        return StreamEvidence(
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


def piece(run: Run, stream: StreamEvidence) -> dict[str, Any]:
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
