"""The file in which codex keeps a session: each line has a `type` and a `payload` with its own `type`.

session_meta   the first line: id, directory and source of the session
turn_context   the model of a turn
event_msg      task_started, item_completed (the user's words), token_count, task_complete, turn_aborted
response_item  input and output of the model: message, reasoning, tool calls and their results
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleet.coders.refusals import refusal
from fleet.coders.said import amount, count, decoded, instant, table, tables, text
from fleet.core.event import Event, Gauge, Kind, Limit, Usage

if TYPE_CHECKING:
    from fleet.coders.said import Said

NEARLY, USED_UP = 90.0, 100.0  # percent of an account's limit
LONGEST_WINDOW = 40  # length of a window's name
LONGEST_COMPLAINT = 2_000  # characters of a complaint that are examined

_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_BUSY = re.compile(
    r"high demand|at capacity|overloaded|waiting for network|connection failed|stream disconnected", re.I
)
_NO_KEY = "Missing environment variable"
_REFUSED_PATCH = re.compile(r"patch rejected: .{0,300}rejected by user approval settings", re.S)
_EXIT = re.compile(r"(?:exited with code|Exit code:) (\d{1,3})\b")
_NOT_DONE = re.compile(r"(?:aborted|rejected|denied) by (?:the )?user|failed for `|verification failed", re.I)


def begun(first_line: str) -> tuple[str, str] | None:
    """Return the session and the directory of a file that a terminal session started. Return None for other files."""
    said = decoded(first_line) or {}
    meta = table(said, "payload")
    if said.get("type") != "session_meta" or meta.get("source") != "cli":
        return None
    session, cwd = text(meta, "id"), text(meta, "cwd")
    return (session, cwd) if session and cwd else None


def session_events(line: str) -> list[Event]:
    said = decoded(line) or {}
    payload = table(said, "payload")
    match said.get("type"):
        case "session_meta":
            data = {"cwd": text(payload, "cwd")}
            return [Event(kind=Kind.SESSION_STARTED, session=text(payload, "id"), data=data)]
        case "response_item":
            return [*_item(payload), *transcript_events(line)]
        case "event_msg":
            return [*transcript_events(line), *_told(payload)]
    return transcript_events(line)


def transcript_events(line: str) -> list[Event]:
    """Return what the stream omits or reports only at its end."""
    said = decoded(line) or {}
    payload = table(said, "payload")
    match text(payload, "type") or text(said, "type"):
        case "turn_context":
            return [Event(kind=Kind.USAGE, data={"model": text(payload, "model")})] if text(payload, "model") else []
        case "task_started":
            window = count(payload, "model_context_window") or None
            return [Event(kind=Kind.USAGE, window=window)] if window else []
        case "token_usage_record":  # comes with the model's answer; token_count follows only after the tool call
            return _context(table(payload, "usage"), table(payload, "thread_token_usage"))
        case "token_count":
            info = table(payload, "info")
            found = _context(table(info, "last_token_usage"), table(info, "total_token_usage"))
            window = count(info, "model_context_window") or None
            return [*(event.replace(window=window) for event in found), *_account(table(payload, "rate_limits"))]
    if text(payload, "type").endswith("_call_output") and _REFUSED_PATCH.fullmatch(text(payload, "output")):
        return [Event(kind=Kind.DENIED, tool="apply_patch", tool_id=text(payload, "call_id"))]
    return []


def _told(payload: Said) -> list[Event]:
    match text(payload, "type"):
        case "item_completed":
            item = table(payload, "item")
            return _heard(_content(item)) if text(item, "type") == "UserMessage" else []
        case "user_message":  # from older versions
            return _heard(text(payload, "message"))
        case "task_complete":
            return _ended(payload)
        case "turn_aborted":
            return [Event(kind=Kind.RESULT, ok=False, text=f"it was {text(payload, 'reason') or 'interrupted'}")]
        case "error":
            message = text(payload, "message")
            return [refused(message) or Event(kind=Kind.ERROR, text=message)]
    return []


def _heard(words: str) -> list[Event]:
    return [Event(kind=Kind.DELIVERED, text=words)] if words else []


def _ended(payload: Said) -> list[Event]:
    message = text(table(payload, "error"), "message")
    if not message:
        return [Event(kind=Kind.RESULT, ok=True, text=text(payload, "last_agent_message"))]
    found = refused(message)
    return [*([found] if found else ()), Event(kind=Kind.RESULT, ok=False, text=message)]


def _item(payload: Said) -> list[Event]:
    kind, call = text(payload, "type"), text(payload, "call_id") or text(payload, "id")
    if kind == "message" and payload.get("role") == "assistant":
        return [Event(kind=Kind.TEXT, text=_content(payload))]
    if kind == "reasoning":
        thought = "\n".join(text(each, "text") for each in tables(payload, "summary"))
        return [Event(kind=Kind.THINKING, text=thought)] if thought else []
    if kind.endswith("_call_output"):
        output = text(payload, "output") or "\n".join(text(each, "text") for each in tables(payload, "output"))
        return [Event(kind=Kind.TOOL_RESULT, tool_id=call, text=output, ok=_went_well(output))]
    if kind.endswith("_call"):
        return [Event(kind=Kind.TOOL_USE, tool=text(payload, "name") or kind, tool_id=call, data=_given(payload))]
    return []


def _given(payload: Said) -> Said:
    """Return a tool's input, which is JSON in a string, plain text or an object."""
    told = text(payload, "arguments") or text(payload, "input")
    return decoded(told) or ({"input": told} if told else table(payload, "action"))


def _went_well(output: str) -> bool:
    head = output[:LONGEST_COMPLAINT]
    code = _EXIT.search(head)
    return code[1] == "0" if code else not _NOT_DONE.search(head)


def _content(said: Said) -> str:
    return "\n".join(text(each, "text") for each in tables(said, "content") if "text" in each)


def usage(told: Said) -> Usage:
    """Return the usage of the whole thread. The reported input includes the cached tokens."""
    read, written = count(told, "cached_input_tokens"), count(told, "cache_write_input_tokens")
    return Usage(
        input=max(count(told, "input_tokens") - read - written, 0),
        output=count(told, "output_tokens"),
        cache_read=read,
        cache_write=written,
        total=True,
        session=True,
    )


def refused(message: str) -> Event | None:
    status = _STATUS.search(message[:LONGEST_COMPLAINT])
    found = refusal(message, status=int(status[1]) if status else 0)
    if found is None and _BUSY.search(message[:LONGEST_COMPLAINT]):
        return Event(kind=Kind.LIMIT, text=message, limit=Limit(kind="overload", text=message))
    if found is None and message.startswith(_NO_KEY):
        return Event(kind=Kind.LIMIT, text=message, limit=Limit(kind="auth", text=message))
    return found


def _context(last: Said, total: Said) -> list[Event]:
    context = count(last, "total_tokens") or count(last, "input_tokens")
    return [Event(kind=Kind.USAGE, context=context, usage=usage(total) if total else None)] if context else []


def _account(limits: Said) -> list[Event]:
    """Return the used-up limit that blocks the account longest. If none is used up, return the one nearest to it.

    Limits below 90% yield only gauges.
    """
    told = [table(limits, name) for name in ("primary", "secondary")]
    near = [each for each in told if (amount(each, "used_percent") or 0.0) >= NEARLY]
    gauges = tuple(gauge for each in told if (gauge := _gauge(each, text(limits, "limit_id"))))
    if not near:
        return [Event(kind=Kind.USAGE, gauges=gauges)] if gauges else []
    worst = max(near, key=_severity)
    used, resets_at = amount(worst, "used_percent") or 0.0, instant(worst.get("resets_at"))
    words = f"the limit of {count(worst, 'window_minutes')} minutes is used to {used:.0f}%"
    limit = Limit(kind="plan" if used >= USED_UP else "warning", resets_at=resets_at, text=words)
    return [Event(kind=Kind.LIMIT, text=words, limit=limit, gauges=gauges)]


def _gauge(told: Said, meter: str) -> Gauge | None:
    """Return a window named by its length. Its place in the list means nothing.

    codex sometimes reports the length a minute short.
    """
    minutes, used, resets_at = (
        count(told, "window_minutes"),
        amount(told, "used_percent"),
        instant(told.get("resets_at")),
    )
    if not minutes or (used is None and resets_at is None):
        return None
    hours = round(minutes / 60)
    length = f"{minutes}m" if hours < 1 else f"{hours // 24}d" if hours % 24 == 0 else f"{hours}h"
    name = length if meter in ("", "codex") else f"{length} {meter}"
    return Gauge(window=name[:LONGEST_WINDOW], used_pct=used, resets_at=resets_at)


def _severity(told: Said) -> tuple[bool, datetime, float]:
    used = amount(told, "used_percent") or 0.0
    return used >= USED_UP, instant(told.get("resets_at")) or datetime.min.replace(tzinfo=UTC), used
