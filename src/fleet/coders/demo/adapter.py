"""The demo coder: a real program with a real stream that needs no account. Its features: see demo_agent.

Each line of its output is one JSON object with a `type`:

    init         session, model, cwd
    user         text: a message typed at its terminal, also the prompt
    text         text
    tool_use     id, tool, input
    tool_result  id, tool, ok, text
    usage        tokens: {input, output, cache_read, cache_write} and cost_usd, both for the whole session so far;
                 context: tokens in the context now, window: how many fit
    limit        kind: rate, plan, overload or auth; resets_at: RFC 3339 or seconds since 1970; text
    error        text
    result       ok, text: always the last line; in a terminal the last of a turn
    turn         parts: a list of the above, sent at once

In a terminal the same lines are in `session.jsonl` in the run's folder.
"""

from __future__ import annotations

import glob
import json
import math
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleet.coders.base import BUSY, QUESTION, READY, Coder, Command
from fleet.coders.said import LARGEST, clean
from fleet.core.event import Event, Kind, Limit, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fleet.coders.base import Order

DEEPEST = 32
SESSION_FILE = "session.jsonl"
LIMIT_KINDS = ("rate", "plan", "overload", "auth")


class DemoCoder(Coder):
    """Adapter for `fleet.coders.demo.agent`."""

    name = "demo"
    project_files = ()
    tells_cost = True
    tells_context = True

    def command(self, order: Order) -> Command:
        """Return the agent's program. It reads the prompt from stdin."""
        argv = [sys.executable, "-P", "-m", "fleet.coders.demo.agent"]
        if order.model:
            argv.append(f"--model={order.model}")
        if order.session:
            argv.append(f"--session={order.session}")
        return Command(argv=tuple(argv), stdin=order.prompt)

    def terminal(self, order: Order) -> Command:
        """Return the same agent on a screen. It reads no file and accepts typed text of any length."""
        text, _ = order.replace(folder="").typed()
        argv = [sys.executable, "-P", "-m", "fleet.coders.demo.terminal", f"--file={order.folder}/{SESSION_FILE}"]
        if order.model:
            argv.append(f"--model={order.model}")
        if order.session or order.fresh:
            argv.append(f"--session={order.session or order.fresh}")
        return Command(argv=tuple(argv), typed=text, session=order.session or order.fresh)

    def look(self, screen: str) -> str:
        last = screen.rstrip()[-1000:].rpartition("\n")[2].rstrip()
        if last == ">":
            return READY
        if last.endswith("(y/n)"):
            return QUESTION
        return BUSY if last.startswith(("·", "●", "  ")) else ""

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return a file in the run's own folder. Each run in a terminal has one."""
        number = env.get("FLEET_RUN_ID", "").rpartition("/")[2]
        if not env.get("FLEET_TASK_DIR") or not re.fullmatch(r"\d+", number):
            return ""
        return f"{glob.escape(env['FLEET_TASK_DIR'])}/runs/{number}/{SESSION_FILE}"

    def parse_session(self, line: str) -> list[Event]:
        return self.parse(line)

    def parse(self, line: str) -> list[Event]:
        """Return the events of one line. A line has none if any part of it is malformed."""
        try:
            said = json.loads(line, parse_constant=_refuse)
            parts = said["parts"] if said["type"] == "turn" else [said]
            return [event for part in parts if (event := _event(part)) is not None]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError, RecursionError):
            return []


def _event(said: dict[str, Any]) -> Event | None:
    read = _READERS.get(said["type"])
    return read(said) if read else None


def _init(said: dict[str, Any]) -> Event:
    data: dict[str, Any] = {key: _text(said, key) for key in ("model", "cwd") if key in said}
    return Event(kind=Kind.SESSION_STARTED, session=_text(said, "session"), data=data)


def _said(said: dict[str, Any]) -> Event:
    return Event(kind=Kind.TEXT, text=_text(said, "text"))


def _heard(said: dict[str, Any]) -> Event:
    return Event(kind=Kind.DELIVERED, text=_text(said, "text"))


def _tool_use(said: dict[str, Any]) -> Event:
    data = _plain(said.get("input", {}), 0)
    if not isinstance(data, dict):
        raise ValueError("a tool's input is an object")
    return Event(kind=Kind.TOOL_USE, tool=_text(said, "tool"), tool_id=_text(said, "id"), data=data)


def _tool_result(said: dict[str, Any]) -> Event:
    tool, tool_id = _text(said, "tool"), _text(said, "id")
    return Event(kind=Kind.TOOL_RESULT, tool=tool, tool_id=tool_id, text=_text(said, "text"), ok=_flag(said, "ok"))


def _usage(said: dict[str, Any]) -> Event:
    tokens = said["tokens"]
    counts = [_count(tokens, name) or 0 for name in ("input", "output", "cache_read", "cache_write")]
    cost = said.get("cost_usd")
    return Event(
        kind=Kind.USAGE,
        usage=Usage(input=counts[0], output=counts[1], cache_read=counts[2], cache_write=counts[3], total=True),
        cost_usd=None if cost is None else _number(cost),
        context=_count(said, "context"),
        window=_count(said, "window"),
    )


def _limit(said: dict[str, Any]) -> Event:
    kind, text = said.get("kind", "rate"), _text(said, "text")
    if kind not in LIMIT_KINDS:
        raise ValueError("no kind of limit")
    when = said.get("resets_at")
    limit = Limit(kind=kind, resets_at=None if when is None else _instant(when), text=text)
    return Event(kind=Kind.LIMIT, text=text, limit=limit)


def _error(said: dict[str, Any]) -> Event:
    return Event(kind=Kind.ERROR, text=_text(said, "text"))


def _result(said: dict[str, Any]) -> Event:
    return Event(kind=Kind.RESULT, text=_text(said, "text"), ok=_flag(said, "ok"))


_READERS: dict[str, Callable[[dict[str, Any]], Event]] = {
    "init": _init,
    "user": _heard,
    "text": _said,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "usage": _usage,
    "limit": _limit,
    "error": _error,
    "result": _result,
}


def _text(said: dict[str, Any], key: str) -> str:
    text = said.get(key, "")
    if not isinstance(text, str):
        raise ValueError(f"{key} is text")
    return clean(text)


def _flag(said: dict[str, Any], key: str) -> bool:
    if not isinstance(said[key], bool):
        raise ValueError(f"{key} is true or false")
    return bool(said[key])


def _count(said: dict[str, Any], key: str) -> int | None:
    value = said.get(key)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < LARGEST:
        raise ValueError(f"{key} is a count")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        raise ValueError("not an amount")
    return float(value)


def _instant(value: object) -> datetime:
    if isinstance(value, str):
        found = datetime.fromisoformat(value)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    return datetime.fromtimestamp(_number(value), UTC)


def _plain(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("too deep")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, int | float) and not (math.isfinite(value) and abs(value) < LARGEST):
        raise ValueError("too large")
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
