"""Codex: `codex exec --json`, and the file it keeps of a session, which alone tells context and account limits.

The retries of its provider cannot be cut from outside: they are settings of that provider, the built-in one refuses
to be changed, and the name of another is only known to the user's own config. So each reconnection is told as the
limit behind it, and fleet sees it long before codex gives up.
"""

from __future__ import annotations

import glob
import re
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleet.coders.base import ANYWHERE, RESUME, Coder, Command
from fleet.coders.refusals import refusal
from fleet.coders.said import amount, count, decoded, instant, read_by_type, table, tables, text
from fleet.core.event import Event, Kind, Limit, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.coders.base import Order
    from fleet.coders.said import Said

OPTIONS = ("--json", "--skip-git-repo-check")  # a task may lie outside of any repository
SKIP = "--dangerously-bypass-approvals-and-sandbox"
NEARLY, USED_UP = 90.0, 100.0  # per cent of an account's limit
LONGEST = 2_000  # of a complaint that is looked at

_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_BUSY = re.compile(
    r"high demand|at capacity|overloaded|waiting for network|connection failed|stream disconnected", re.I
)
_NO_KEY = "Missing environment variable"
_REFUSED_PATCH = re.compile(r"patch rejected: .{0,300}rejected by user approval settings", re.S)


class CodexCoder(Coder):
    """Runs `codex exec`."""

    name = "codex"
    program = "codex"
    stop_steps = (signal.SIGINT, signal.SIGTERM)  # only the first makes it end the tool that runs
    tells_context = True
    steering = RESUME
    resumes = ANYWHERE
    #: Not all of CODEX_*: codex gives some to its tools, and fleet may be one of them.
    reads_env = (
        *("CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE"),
        *("OPENAI_*", "AZURE_OPENAI_*"),
    )

    def command(self, order: Order) -> Command:
        """The user's own options come first: one that takes many values ends where the next begins."""
        argv = ["codex", "exec", *order.flags, *OPTIONS]
        if order.permissions == "skip":
            argv.append(SKIP)
        if order.model:
            argv.append(f"--model={order.model}")
        if order.session:
            argv += ["resume", "--", order.session]
        else:
            argv.append("--")
        return Command(argv=(*argv, "-"), stdin=order.prompt)

    def parse(self, line: str) -> list[Event]:
        """The events of one line."""
        return read_by_type(line, _READERS)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Where codex does not come to a turn, it says why on stderr alone."""
        if "no rollout found" in stderr:
            return Event(kind=Kind.ERROR, text="codex does not know the session any more: start the task afresh")
        if "unexpected argument" in stderr:
            return Event(kind=Kind.ERROR, text=f"{stderr.strip()[-300:]} (check the coder's flags, or update codex)")
        return _refused(stderr[-LONGEST:]) if status else None

    def config_env(self, folder: str) -> dict[str, str]:
        """Login, settings and sessions; the folder must be there."""
        return {"CODEX_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """A key of its own name, or the file that `codex login` leaves: OPENAI_API_KEY alone is not looked at."""
        return ("CODEX_API_KEY", f"{_home(env)}/auth.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """One file for each session, below the day it began."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        return f"{glob.escape(_home(env))}/sessions/*/*/*/rollout-*-{session}.jsonl"

    def parse_transcript(self, line: str) -> list[Event]:
        """What the stream does not tell, or not before its end: context, tokens, account limits, a refused patch."""
        said = decoded(line) or {}
        payload = table(said, "payload")
        match text(payload, "type") or text(said, "type"):
            case "task_started":
                window = count(payload, "model_context_window") or None
                return [Event(kind=Kind.USAGE, window=window)] if window else []
            case "token_usage_record":  # with the model's answer; what follows comes only after the tool that it calls
                return _context(table(payload, "usage"), table(payload, "thread_token_usage"))
            case "token_count":
                info = table(payload, "info")
                found = _context(table(info, "last_token_usage"), table(info, "total_token_usage"))
                window = count(info, "model_context_window") or None
                return [*(event.replace(window=window) for event in found), *_account(table(payload, "rate_limits"))]
        if text(payload, "type").endswith("_call_output") and _REFUSED_PATCH.fullmatch(text(payload, "output")):
            return [Event(kind=Kind.DENIED, tool="apply_patch", tool_id=text(payload, "call_id"))]
        return []


def _home(env: Mapping[str, str]) -> str:
    return env.get("CODEX_HOME") or f"{env.get('HOME', '')}/.codex"


def _started(said: Said) -> list[Event]:
    return [Event(kind=Kind.SESSION_STARTED, session=text(said, "thread_id"))]


def _item_started(said: Said) -> list[Event]:
    item = table(said, "item")
    tool = _tool(item)
    return [Event(kind=Kind.TOOL_USE, tool=tool, tool_id=text(item, "id"), data=_input(item))] if tool else []


def _item_completed(said: Said) -> list[Event]:
    item = table(said, "item")
    match text(item, "type"):
        case "agent_message":
            return [Event(kind=Kind.TEXT, text=text(item, "text"))]
        case "reasoning":
            return [Event(kind=Kind.THINKING, text=text(item, "text"))]
        case "error":  # a warning: what ends a turn is told otherwise
            return [Event(kind=Kind.ERROR, text=text(item, "message"))]
    return _tool_result(item) if _tool(item) else []


def _tool_result(item: Said) -> list[Event]:
    tool, tool_id = _tool(item), text(item, "id")
    status, code = text(item, "status"), item.get("exit_code")
    output = text(item, "aggregated_output") or text(table(item, "error"), "message")
    # A search has no status; a command that ran and ended badly has one, and a code.
    result = Event(
        kind=Kind.TOOL_RESULT, tool=tool, tool_id=tool_id, text=output, ok=status in ("completed", "") and not code
    )
    return [result, Event(kind=Kind.DENIED, tool=tool, tool_id=tool_id)] if status == "declined" else [result]


def _tool(item: Said) -> str:
    """The tool an item is a call of; empty where it is none."""
    kind = text(item, "type")
    if kind == "mcp_tool_call":
        return f"mcp__{text(item, 'server')}__{text(item, 'tool')}"
    return kind if kind in ("command_execution", "file_change", "web_search", "collab_tool_call") else ""


def _input(item: Said) -> Said:
    if text(item, "type") == "mcp_tool_call":
        return table(item, "arguments")
    given = {name: value for name in ("command", "query", "prompt") if (value := text(item, name))}
    changes = [{"path": text(each, "path"), "kind": text(each, "kind")} for each in tables(item, "changes")]
    return given | ({"changes": changes} if changes else {})


def _complaint(said: Said) -> list[Event]:
    """Not the end: codex tries again, and a turn that fails says so itself."""
    message = text(said, "message")
    return [_refused(message) or Event(kind=Kind.ERROR, text=message)]


def _completed(said: Said) -> list[Event]:
    return [Event(kind=Kind.RESULT, ok=True, usage=_usage(table(said, "usage")))]


def _usage(told: Said) -> Usage:
    """What is told as input has the caches in it, and all of it is of the whole thread."""
    read, written = count(told, "cached_input_tokens"), count(told, "cache_write_input_tokens")
    return Usage(
        input=max(count(told, "input_tokens") - read - written, 0),
        output=count(told, "output_tokens"),
        cache_read=read,
        cache_write=written,
        total=True,
        session=True,
    )


def _failed(said: Said) -> list[Event]:
    message = text(table(said, "error"), "message")
    found = _refused(message)
    return [*([found] if found else ()), Event(kind=Kind.RESULT, ok=False, text=message or "the turn failed")]


def _refused(message: str) -> Event | None:
    status = _STATUS.search(message[:LONGEST])
    found = refusal(message, status=int(status[1]) if status else 0)
    if found is None and _BUSY.search(message[:LONGEST]):
        return Event(kind=Kind.LIMIT, text=message, limit=Limit(kind="overload", text=message))
    if found is None and message.startswith(_NO_KEY):
        return Event(kind=Kind.LIMIT, text=message, limit=Limit(kind="auth", text=message))
    return found


def _context(last: Said, total: Said) -> list[Event]:
    context = count(last, "total_tokens") or count(last, "input_tokens")
    return [Event(kind=Kind.USAGE, context=context, usage=_usage(total) if total else None)] if context else []


def _account(limits: Said) -> list[Event]:
    """The limit that keeps the account waiting longest, where one is used up; else the one nearest to it."""
    told = [table(limits, name) for name in ("primary", "secondary")]
    near = [each for each in told if (amount(each, "used_percent") or 0.0) >= NEARLY]
    if not near:
        return []
    worst = max(near, key=_severity)
    used, resets_at = amount(worst, "used_percent") or 0.0, instant(worst.get("resets_at"))
    words = f"the limit of {count(worst, 'window_minutes')} minutes is used to {used:.0f}%"
    limit = Limit(kind="plan" if used >= USED_UP else "warning", resets_at=resets_at, text=words)
    return [Event(kind=Kind.LIMIT, text=words, limit=limit)]


def _severity(told: Said) -> tuple[bool, datetime, float]:
    used = amount(told, "used_percent") or 0.0
    return used >= USED_UP, instant(told.get("resets_at")) or datetime.min.replace(tzinfo=UTC), used


_READERS: dict[str, Callable[[Said], list[Event]]] = {
    "thread.started": _started,
    "item.started": _item_started,
    "item.completed": _item_completed,
    "error": _complaint,
    "turn.completed": _completed,
    "turn.failed": _failed,
}
