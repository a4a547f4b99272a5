"""The file in which claude keeps a session: the messages of its stream, and further lines between them.

    user        a user's message or a tool's result; `isMeta` if the program itself wrote it
    attachment  queued_command: a message sent while claude worked, once it has reached the model
    assistant   as in the stream, but with the whole usage, and a stop_reason that marks the end of a turn

An interrupted turn ends with a user's line in brackets. The file has neither the cost nor the size of the context
window.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleet.coders.claude.stream import SYNTHETIC, read, string, words
from fleet.coders.said import decoded, table
from fleet.core.event import Event, Kind

if TYPE_CHECKING:
    from fleet.coders.claude.stream import Dialect
    from fleet.coders.said import Said

INTERRUPTED = "[Request interrupted by user"
#: Stop reasons of a model that waits for a tool or for permission to continue.
_GOES_ON = ("", "tool_use", "pause_turn")
#: The file stores a slash command in this expanded form.
_COMMAND = re.compile(r"<command-name>(/[^<]{1,200})</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*)</command-args>", re.S)
_OWN_WORDS = ("<local-command-", "<bash-", "<command-", "<task-notification>", "<system-reminder>")


def session_events(line: str, dialect: Dialect) -> list[Event]:
    said = decoded(line) or {}
    match said.get("type"):
        case "user":
            return _user(said, dialect)
        case "assistant":
            return _assistant(said, dialect)
        case "attachment":
            return _attached(table(said, "attachment"))
    return []


def _user(said: Said, dialect: Dialect) -> list[Event]:
    results = read(said, dialect)
    content = table(said, "message").get("content")
    if results or said.get("isMeta") is True or said.get("isSidechain") is True or said.get("isCompactSummary") is True:
        return results
    text = words(content)
    if text.startswith(INTERRUPTED):
        return [Event(kind=Kind.RESULT, ok=False, text="it was interrupted")]
    text = _typed(text)
    if not text:
        return []
    session, data = string(said, "sessionId"), {"cwd": string(said, "cwd")}
    began = Event(kind=Kind.SESSION_STARTED, session=session, data=data)
    return [began, Event(kind=Kind.DELIVERED, text=text)]


def _typed(text: str) -> str:
    """Return the text that the user typed. Empty if the program inserted the words."""
    command = _COMMAND.search(text[:2_000]) if text.startswith("<command-") else None
    if command:
        given = _ARGUMENTS.search(text)
        return f"{command[1]} {given[1] if given else ''}".strip()
    return "" if text.startswith(_OWN_WORDS) else text


def _assistant(said: Said, dialect: Dialect) -> list[Event]:
    beside = said.get("isSidechain") is True  # a sub-agent, which has its own context and turns
    made = read(said | {"parent_tool_use_id": "beside"} if beside else said, dialect)
    message = table(said, "message")
    text = words(message.get("content"))
    if message.get("model") == SYNTHETIC:
        return [*made, Event(kind=Kind.RESULT, ok=False, text=text)] if made else []
    if beside or string(message, "stop_reason") in _GOES_ON:
        return made
    return [*made, Event(kind=Kind.RESULT, ok=True, text=text)]


def _attached(told: Said) -> list[Event]:
    if told.get("type") != "queued_command" or told.get("commandMode") != "prompt":
        return []
    text = words(told.get("prompt"))
    return [Event(kind=Kind.DELIVERED, text=text)] if text else []
