"""Run events as text: short lines from the end of events.jsonl."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

#: The most that is read at once. A single event is bounded.
MOST_BYTES = 8 * 1024 * 1024
LONGEST = 2_000
SIGNS = {"tool_use": "→", "tool_result": "←", "error": "!", "rate_limit": "!", "session_ended": "="}
#: Events without information for a person.
SILENT = ("usage", "thinking", "session_started")


def event_lines(path: str, count: int) -> list[str]:
    """Return the last `count` lines, or with 0 all lines within the read limit.

    Return [] if the file cannot be read.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(0, os.SEEK_END)
            start = max(0, file.tell() - MOST_BYTES)
            file.seek(start)
            data = file.read(MOST_BYTES)
    except OSError:
        return []
    if start:
        data = data[data.find(b"\n") + 1 :]
    return lines_in(data, count)


def lines_in(data: bytes, count: int) -> list[str]:
    """Return the last `count` lines of raw events, or with 0 all of them."""
    lines = [line for raw in data.splitlines() for line in _lines(raw)]
    return lines[-count:] if count else lines


def _lines(raw: bytes) -> list[str]:
    try:
        event = json.loads(raw)
        return _shown(event) if isinstance(event, dict) else []
    except (ValueError, RecursionError):
        return []


def _shown(event: dict[str, Any]) -> list[str]:
    kind = str(event.get("kind") or "")
    text = str(event.get("text") or "")
    if kind in SILENT or not (text or kind == "tool_use"):
        return []
    if kind == "tool_use":
        text = f"{event.get('tool_name') or 'a tool'} {_input(event.get('data'))}".rstrip()
    words = text[:LONGEST].splitlines() or [""]
    sign = SIGNS.get(kind, " ")
    return [f"{_time(event.get('ts'))} {sign} {words[0]}", *(f"{'':8} {sign} {line}" for line in words[1:])]


def _input(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    values = data.values() if len(data) == 1 else [f"{key}={value}" for key, value in data.items()]
    return " ".join(str(value) for value in values)[:300]


def _time(text: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(text)).astimezone():%H:%M:%S}"
    except ValueError:
        return f"{'':8}"
