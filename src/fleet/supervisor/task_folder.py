"""A task's folder: the documented files that fleet writes for its agents, and the files that agents leave there."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING

from fleet.core import clock
from fleet.core.errors import BadInput
from fleet.core.event import Kind
from fleet.core.redaction import Redactor
from fleet.home import Home
from fleet.supervisor import questions_file, task_json
from fleet.supervisor.agent_files import ROTATED, AgentFiles, ResultFile, read_result
from fleet.supervisor.run.output_reader import LINES_AT_ONCE, LineReader
from fleet.supervisor.task_json import Edits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.event import Event
    from fleet.core.run import Run
    from fleet.core.task import Task


TEXT_CAP = 16 * 1024
MOST_ITEMS, DEEPEST = 100, 8

# Names of event kinds in the file format, if they differ from the names in the code.
_KINDS = {Kind.TEXT: "assistant_text", Kind.LIMIT: "rate_limit", Kind.RESULT: "session_ended"}


def event_line(event: Event, at: datetime) -> dict[str, Any]:
    line: dict[str, Any] = {
        "kind": _KINDS.get(event.kind, event.kind),
        "ts": at.astimezone(UTC).isoformat(),
        "session_id": event.session or None,
        "tool_name": event.tool or None,
        "usage": None,
        "rate_info": None,
    }
    if event.usage is not None:
        line["usage"] = {
            "input_tokens": event.usage.input,
            "output_tokens": event.usage.output,
            "cache_creation_input_tokens": event.usage.cache_write,
            "cache_read_input_tokens": event.usage.cache_read,
        }
    if event.limit is not None:
        resets_at = event.limit.resets_at
        line["rate_info"] = {
            "usage_pct": None,
            "resets_at": resets_at.isoformat() if resets_at else None,
            "status": event.limit.kind,
        }
    more = ("text", "tool_id", "data", "cost_usd", "context", "window", "ok")
    return line | {name: value for name in more if (value := getattr(event, name)) not in ("", None, {})}


def bounded(value: Any, depth: int = 0) -> Any:
    """Return the value cut to a sensible length and with only values that every JSON reader accepts."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_CAP else value[:TEXT_CAP] + f"… ({len(value)} characters)"
    if isinstance(value, dict | list | tuple):
        if depth > DEEPEST:
            return "…"
        if isinstance(value, dict):
            return {str(key)[:256]: bounded(item, depth + 1) for key, item in list(value.items())[:MOST_ITEMS]}
        return [bounded(item, depth + 1) for item in value[:MOST_ITEMS]]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return "…"
    return value


MIB = 1024 * 1024
LOG_CAP = 20_000_000
READ_CAP = MIB
STDERR_TAIL = 2048
MOST_ARTIFACTS = 1_000

EVENTS, LOG, STDERR, TASK, QA, RESULT = (
    *("events.jsonl", "log.jsonl", "log.stderr", "task.json"),
    *("Q&A.md", "result.json"),
)
PROMPT = "prompt.txt"
#: Files that the shim keeps in the folder of a run.
RUN_FILES = (
    "lock",
    "control",
    "spec.json",
    "exit.json",
    "shim.error",
    "stdout",
    "stderr",
    "stdout.tail",
    "stderr.tail",
    "receipt.json",
    "run.json",
)
RECEIPT = "receipt.json"

# The time of a file is rounded to ticks and can be slightly before the clock.
_TICK = timedelta(milliseconds=50)
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN PRIVATE KEY-----\n", "-----END "


def home_of(home: Home, run: Run | None) -> Home:
    """Return the home whose folder holds the last run of a task, if it is on this host. Return `home` otherwise."""
    there = Home(run.home) if run is not None and run.home else home
    return there if run is not None and os.path.isdir(there.task(run.task_id)) else home  # noqa: PTH112


def folder_of(home: Home, run: Run, redactor: Redactor) -> TaskFolder:
    """Return the folder of a run's task, in any home on this host."""
    return TaskFolder(home_of(home, run), run.task_id, redactor=redactor)


class TaskFolder:
    """`tasks/<id>` of a home. Writing may raise OSError. Content that agents left there never breaks a reader."""

    def __init__(self, home: Home, task_id: str, *, redactor: Redactor | None = None, now: Clock = clock.now) -> None:
        self.task_id = task_id
        self.home = home
        self.path = home.task(task_id)
        self._tasks = home.tasks
        self._own = AgentFiles(home.tasks, task_id)
        self._artifacts = AgentFiles(home.tasks, task_id, "artifacts")
        self._redactor = redactor or Redactor()
        self._now = now
        self._stderr = ""
        self._in_key = False

    @property
    def artifacts(self) -> str:
        """Return the folder where an agent keeps its artifacts."""
        return os.path.join(self.path, "artifacts")  # noqa: PTH118

    def run_folder(self, number: int) -> str:
        return self.home.run(self.task_id, number)

    def make(self, run: int | None = None) -> None:
        """Create the missing folders, private to this user, including those of `run` if given."""
        self._artifacts.make()
        AgentFiles(self._tasks, self.task_id, "runs", *([] if run is None else [str(run)])).make()

    def make_work(self) -> str:
        """Create and return the working directory of a task that names none."""
        AgentFiles(self._tasks, self.task_id, "work").make()
        return os.path.join(self.path, "work")  # noqa: PTH118

    def write_run_file(self, run: int, name: str, text: str) -> None:
        """Write a file that a coder needs into a run's folder. Raises ValueError for names of fleet's own files."""
        if "/" in name or name in RUN_FILES:
            raise ValueError(f"{name!r} cannot be the name of a coder's file")
        AgentFiles(self._tasks, self.task_id, "runs", str(run)).write(name, text.encode("utf-8", "replace"))

    def write_task_json(self, task: Task, coder: str, model: str, *, depends_on: Sequence[str] = ()) -> None:
        """Write a readable copy of the task, and its prompt as a file. Edits that were not taken are put aside."""
        edits = self.read_task_json()
        if edits.fields or edits.problem:
            aside = self._own.put_aside(TASK)
            reason = edits.problem or "it changed while an agent of the task could write to it"
            self.note("task_json_put_aside", level="warning", reason=reason, file=aside)
        copy = {
            "id": task.id,
            "title": task.title,
            "description": task.description,
            "status": task.status,
            "cwd": task.cwd,
            "coder": coder,
            "model": model,
            "priority": task.priority,
            "depends_on": list(depends_on),
        }
        self._write_json(self._redactor.redact(copy))
        self._own.write(PROMPT, str(self._redactor.redact(task.description or task.title)).encode("utf-8", "replace"))

    def write_taken_task_json(self, task: Task) -> None:
        """Mark the edits in `task.json` as taken into the task. The rest of the file stays unchanged."""
        told = json.loads((self._own.read(TASK, READ_CAP) or b"{}").decode("utf-8"))
        taken = {name: getattr(task, name) or told.get(name) or "" for name in task_json.EDITABLE}
        self._write_json(told | self._redactor.redact(taken))

    def read_task_json(self) -> Edits:
        """Return what was changed in `task.json` since fleet wrote it."""
        try:
            data = self._own.read(TASK, READ_CAP + 1)
            if data is not None and len(data) > READ_CAP:
                raise ValueError("it is larger than 1 MiB")
            return Edits({} if data is None else task_json.parse_edits(data))
        except (OSError, ValueError, BadInput) as error:
            return Edits({}, (error.strerror if isinstance(error, OSError) else "") or str(error))

    def _write_json(self, copy: dict[str, Any]) -> None:
        text = json.dumps(task_json.with_marks(copy), indent=2, ensure_ascii=False) + "\n"
        self._own.write(TASK, text.encode("utf-8", "replace"))

    def clean(self, text: str) -> str:
        """Return a text without the secrets of this task's runs."""
        return self._redactor.text(text)

    def cleaned(self, value: Any) -> Any:
        """Return plain data without the secrets of this task's runs, at any depth."""
        return self._redactor.redact(value)

    def write_receipt(self, run: int, told: dict[str, Any]) -> None:
        """Write a receipt into the folder of its run."""
        text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        AgentFiles(self._tasks, self.task_id, "runs", str(run)).write(RECEIPT, text.encode("utf-8", "replace"))

    def append_events(
        self, events: Iterable[Event], at: datetime, redactor: Redactor | None = None, *, run: int | None = None
    ) -> None:
        """Append events to events.jsonl, with the number of their run.

        Writing many at once cuts the cost for a busy agent to a third.
        """
        redact = (redactor or self._redactor).redact
        data = bytearray()
        for event in events:
            data += _json_line(redact(event_line(event, at)) | ({"run": run} if run else {}))
            if len(data) > MIB:
                self._own.append_log(EVENTS, bytes(data), LOG_CAP)
                data.clear()
        if data:
            self._own.append_log(EVENTS, bytes(data), LOG_CAP)

    def events_since(self, offset: int, since: datetime) -> tuple[Iterator[bytes], bool]:
        """Return the lines of events.jsonl from an offset on, and True if no line since `since` is missing.

        The file is rotated at a size limit. If that happened since `since`, return all lines of both files and False.
        """
        try:
            earlier = self._own.changed_at(EVENTS + ROTATED)
            self._own.changed_at(EVENTS)
        except OSError as error:
            self.warn("file_not_read", error, file=EVENTS)
            return iter(()), False
        most = LOG_CAP + MIB
        if earlier is not None and earlier >= (since - _TICK).timestamp():
            return chain(self._own.lines(EVENTS + ROTATED, most), self._own.lines(EVENTS, most)), False
        return self._own.lines(EVENTS, most, offset=offset), True

    def events_part(self, offset: int, most: int) -> tuple[bytes, int]:
        """Return whole lines of events.jsonl from an offset on, at most `most` bytes, and the offset of the next part.

        A negative offset counts from the end. A file that was rotated meanwhile is read from its beginning.
        """
        data, size = self._own.part(EVENTS, offset, most)
        if offset > size:
            data, size, offset = *self._own.part(EVENTS, 0, most), 0
        start = max(0, size + offset) if offset < 0 else offset
        cut = data.find(b"\n") + 1 if offset < 0 and start else 0
        whole = data[cut : data.rfind(b"\n") + 1]
        return whole, start + cut + len(whole)

    def has_artifacts(self, since: datetime) -> bool:
        """Return True if an agent left an artifact since `since`, other than its result and its questions."""
        try:
            with os.scandir(self.artifacts) as entries:
                found = [entry for entry in islice(entries, MOST_ARTIFACTS) if entry.name not in (RESULT, QA)]
                after = (since - _TICK).timestamp()
                return any(entry.stat(follow_symlinks=False).st_mtime >= after and _has_more(entry) for entry in found)
        except OSError:
            return False

    def log(self, event: str, *, level: str = "info", **fields: Any) -> None:
        """Append a line to the task's own log."""
        head = {"ts": self._now().isoformat(), "level": level, "event": event, "task_id": self.task_id}
        self._own.append_log(LOG, _json_line(self._redactor.redact({**head, **fields})), LOG_CAP)

    def append_stderr(self, text: str, redactor: Redactor | None = None) -> None:
        """Append whole lines of an agent's stderr."""
        # A key of several lines may come in several parts. The rest of the key is redacted as if it began here.
        whole = (_KEY_BEGINS if self._in_key else "") + text
        clean = (redactor or self._redactor).text(whole)
        begin = whole.rfind("-----BEGIN ")
        self._in_key = "PRIVATE KEY" in whole[begin:] and _KEY_ENDS not in whole[begin:] if begin >= 0 else False
        clean = clean.removeprefix(_KEY_BEGINS)
        self._own.append_log(STDERR, clean.encode("utf-8", "replace"), LOG_CAP)
        self._stderr = (self._stderr + clean)[-STDERR_TAIL:]

    def take_stderr(self, path: str) -> None:
        """Append what an ended agent wrote to the file `path`. Of a long file only the end is kept."""
        reader = LineReader(path, 0)
        if reader.behind > MIB:
            reader = LineReader(path, reader.behind - MIB)
            reader.read(lines=1)  # skip a partial line, which may hold the end of a secret
            self.append_stderr("[…]\n")
        lines = reader.rest(f"{path}.tail")
        while some := "".join(f"{line.text}\n" for line in islice(lines, LINES_AT_ONCE)):
            self.append_stderr(some)

    def complaint(self, run: int) -> str:
        """Return the end of what a live agent wrote to stderr since its last output on stdout. Return "" if nothing."""
        out, err = (os.path.join(self.run_folder(run), name) for name in ("stdout", "stderr"))  # noqa: PTH118
        try:
            with open(err, "rb") as file:  # noqa: PTH123
                found = os.fstat(file.fileno())
                if os.path.exists(out) and os.stat(out).st_mtime_ns >= found.st_mtime_ns:  # noqa: PTH110, PTH116
                    return ""  # the agent has printed output since the complaint
                file.seek(max(0, found.st_size - STDERR_TAIL))
                return file.read(STDERR_TAIL).decode("utf-8", "replace")
        except OSError:
            return ""

    def stderr_tail(self) -> str:
        """Return the end of the stderr that this object has appended."""
        return self._stderr

    def result_json(self, *, since: datetime | None = None) -> ResultFile | None:
        """Return the result file of the agent since `since`. Return None if no usable file exists."""
        return self.result_left(since=since)[0]

    def result_left(self, *, since: datetime | None = None) -> tuple[ResultFile | None, str]:
        """Return the result file as `result_json` does, and what is wrong with a file that is not used.

        A file of a wrong shape is logged and not used.
        """
        try:
            found = self._artifacts.read_with_time(RESULT, READ_CAP + 1)
            if found is None or (since is not None and found[1] < (since - _TICK).timestamp()):
                return None, ""
            if len(found[0]) > READ_CAP:
                raise ValueError("larger than 1 MiB")
            return read_result(found[0]), ""
        except (OSError, ValueError) as error:
            self.warn("result_json_not_used", error)
            return None, f"its {RESULT} is ignored: {error}"

    def questions(self) -> list[questions_file.QuestionBlock]:
        """Return every block of Q&A.md, answered or not."""
        return questions_file.blocks(self._questions_text())

    def open_questions(self, before: int = 0) -> tuple[list[str], list[str]]:
        """Return the open questions that a run with `before` earlier blocks added, and those that it found."""
        return questions_file.split_open(self._questions_text(), before)

    def questions_stamp(self) -> tuple[int, int, int] | None:
        """Return a value that differs whenever Q&A.md has changed. Return None if the file does not exist."""
        with contextlib.suppress(OSError):
            found = os.lstat(os.path.join(self.artifacts, QA))  # noqa: PTH118
            return found.st_ino, found.st_size, found.st_ctime_ns
        return None

    def _questions_text(self) -> str:
        return _text(self._read(self._artifacts, QA) or b"")

    def append_answer(self, question: str, answer: str, at: datetime) -> bool:
        """Write an answer below its question. Return True if the answer counts: only the first answer does."""
        question, answer = _storable(question), _storable(answer)
        before = self._artifacts.read(QA, READ_CAP + 1) or b""
        if len(before) > READ_CAP:  # too long to read completely: append the answer
            block, _ = questions_file.with_answer("", question, answer, at)
            self._artifacts.append(QA, b"\n" + block.encode())
            return True
        text, is_new = questions_file.with_answer(_text(before), question, answer, at)
        self._rewrite_questions(before, text)
        return is_new

    def withdraw_question(self, question: str, at: datetime) -> None:
        """Note below an unanswered question that it was withdrawn. The question stays unanswered."""
        before = self._artifacts.read(QA, READ_CAP + 1) or b""
        if len(before) <= READ_CAP:
            self._rewrite_questions(before, questions_file.with_withdrawal(_text(before), _storable(question), at))

    def _rewrite_questions(self, before: bytes, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        if data == before:
            return
        if data.startswith(before):
            self._artifacts.append(QA, data[len(before) :])  # append, so that an open editor sees the file grow
        else:
            self._artifacts.write(QA, data)

    def _read(self, files: AgentFiles, name: str) -> bytes | None:
        try:
            return files.read(name, READ_CAP)
        except OSError as error:
            self.warn("file_not_read", error, file=name)
            return None

    def warn(self, event: str, error: Exception, **fields: str) -> None:
        """Add a warning to the task's own log, if the log can be written."""
        self.note(event, level="warning", reason=str(error), **fields)

    def note(self, event: str, **fields: str) -> None:
        """Add a line to the task's own log, if the log can be written."""
        with contextlib.suppress(OSError):  # reading must not fail because the disk is full
            self.log(event, **fields)


def _json_line(line: dict[str, Any]) -> bytes:
    return (json.dumps(bounded(line), ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace")


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _text(data: bytes) -> str:
    # Every byte survives unchanged, because users and agents edit this file.
    return data.decode("utf-8", "surrogateescape")


def _has_more(entry: os.DirEntry[str]) -> bool:
    """Return True if a file is not empty or a folder has an entry."""
    if entry.is_dir(follow_symlinks=False):
        return bool(os.listdir(entry.path))  # noqa: PTH208
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size > 0
