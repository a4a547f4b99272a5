"""Gemini in a terminal: the state of its screen, and the file in which it keeps a session.

    {"sessionId": …, "kind": "main"}             the first line
    {"id": …, "type": "user", "content": […]}    a user's message or a tool's result
    {"id": …, "type": "gemini", "content": …}    the model's words with its tokens; repeated with `toolCalls` when
                                                 the called tools are done

The file does not show the end of a turn; only the screen does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleet.coders.base import BUSY, QUESTION, READY
from fleet.coders.said import count, decoded, table, tables, text
from fleet.core.event import Event, Kind, Usage

if TYPE_CHECKING:
    from fleet.coders.said import Said

#: Lines examined, counted from the end of the screen.
LOOKED_AT = 60
LONGEST_LINE = 400
MOST_BELOW = 8  # lines below the input

_EMPTY = re.compile(r"\s[>*!]\s+Type your message\b.*")
_INPUT = re.compile(r"\s[>*!](?:\s.*)?")
_AT_WORK = re.compile(r".{0,200}\(esc to cancel(?:, \d+.*)?\).*")
_CHOICE = re.compile(r"[\s│]*● \d{1,2}\. .*")


def shown(screen: str) -> str:
    lines = [line[:LONGEST_LINE].rstrip() for line in screen.rstrip().split("\n")[-LOOKED_AT:]]
    inputs = [number for number, line in enumerate(lines) if _INPUT.fullmatch(line)]
    last = inputs[-1] if inputs and len(lines) - inputs[-1] <= MOST_BELOW else None
    if any(_CHOICE.fullmatch(line) for line in lines[-25 if last is None else last :]):
        return QUESTION
    if last is None or not _EMPTY.fullmatch(lines[last]):
        return ""
    return BUSY if any(_AT_WORK.fullmatch(line) for line in lines[max(0, last - 8) : last]) else READY


def session_events(line: str) -> list[Event]:
    said = decoded(line) or {}
    if said.get("kind") == "main" and text(said, "sessionId"):
        return [Event(kind=Kind.SESSION_STARTED, session=text(said, "sessionId"))]
    match said.get("type"):
        case "user":
            words = "\n".join(text(each, "text") for each in tables(said, "content") if "text" in each)
            return [Event(kind=Kind.DELIVERED, text=words)] if words else []
        case "gemini":
            return _answer(said)
        case "error":
            return [Event(kind=Kind.ERROR, text=text(said, "content"))]
    return []


def _answer(said: Said) -> list[Event]:
    calls = tables(said, "toolCalls")
    made = [event for call in calls for event in _call(call)]
    words = text(said, "content")
    if words and not calls:
        made.append(Event(kind=Kind.TEXT, text=words))
    tokens = table(said, "tokens")
    if not tokens:
        return made
    told, read = count(tokens, "input"), min(count(tokens, "cached"), count(tokens, "input"))
    usage = Usage(
        input=told - read,
        output=count(tokens, "output") + count(tokens, "thoughts"),
        cache_read=read,
        message=text(said, "id"),
        model=text(said, "model"),
    )
    return [*made, Event(kind=Kind.USAGE, usage=usage, context=count(tokens, "total") or None)]


def _call(call: Said) -> list[Event]:
    tool, tool_id, status = text(call, "name"), text(call, "id"), text(call, "status")
    used = Event(kind=Kind.TOOL_USE, tool=tool, tool_id=tool_id, data=table(call, "args"))
    given = [table(table(each, "functionResponse"), "response") for each in tables(call, "result")]
    output = "\n".join(text(each, "output") or text(each, "error") for each in given)
    result = Event(kind=Kind.TOOL_RESULT, tool=tool, tool_id=tool_id, text=output, ok=status == "success")
    return [used, result]
