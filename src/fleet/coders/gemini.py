"""Gemini CLI: `gemini --output-format=stream-json`. It retries silently; its exit code tells why it gave up."""

from __future__ import annotations

import glob
import json
import os
import re
import signal
from typing import TYPE_CHECKING

from fleet.coders.base import BUSY, QUESTION, READY, RESUME, SAME_CWD, Coder, Command
from fleet.coders.refusals import refusal
from fleet.coders.said import count, decoded, read_by_type, table, tables, text
from fleet.core.event import Event, Kind, Limit, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fleet.coders.base import Order
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


#: Otherwise it starts a second process for itself, and the first process forwards no signal.
ENV = {"GEMINI_CLI_NO_RELAUNCH": "true"}
DEFAULTS = "gemini-defaults.json"
#: Defaults below the user's own settings. gemini's own default of ten attempts takes five minutes. If gemini chooses
#: the model, it tries each of two models, and no setting limits how often.
SETTINGS = {"general": {"maxAttempts": 2}}
#: Tools that gemini silently omits if it may not use them without asking.
GUARDED = ("run_shell_command", "write_file", "replace", "web_fetch")
LONGEST = 2_000  # characters of a complaint that are examined
WINDOW = 1_048_576  # tokens

#: Meanings of gemini's own exit codes.
NO_LOGIN, NO_SESSION, NOT_TRUSTED = 41, 42, 55
EXITS = {
    NO_SESSION: "gemini does not know the session in this directory, or refused its options",
    44: "gemini could not start its sandbox",
    52: "gemini cannot read its settings",
    53: "gemini reached the most turns its settings allow (model.maxSessionTurns)",
    NOT_TRUSTED: "gemini does not trust this directory: trust it in gemini itself, or let fleet skip permissions",
}
_API_EXITS = {status & 0xFF: status for status in (400, 401, 402, 403, 404, 429, 500, 502, 503, 504, 529)}

_STATUS = re.compile(r"\b(?:code|status)\"?:? ?(\d{3})\b")
_QUOTA = re.compile(r"resource has been exhausted|RESOURCE_EXHAUSTED", re.I)
_PLAN = re.compile(r"exhausted your|daily quota|quota will reset", re.I)
_FULL = re.compile(r"input token count .{0,60}exceeds the maximum", re.I)
#: The last text on stderr, so the attempt has had no result yet. It is a refusal with a waiting time, or an error with
#: its stack trace.
_WAITING = re.compile(
    r"Attempt \d+ failed(?:(?!Attempt \d).)*Retrying "
    r"(?:after \d+ms\.{3}|with backoff\.{3}[^\n]*(?:\n[ \t{}\]][^\n]*)*)\Z",
    re.S,
)
_TRACE = "\n    at "
#: Messages of every start.
_CHATTER = re.compile(r"^(?:(?:Security )?Warning: |YOLO mode |Ripgrep is ).*$", re.M)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


class GeminiCoder(Coder):
    """Adapter for `gemini`."""

    name = "gemini"
    program = "gemini"
    short_names = ("", "auto", "pro", "flash", "flash-lite")
    project_files = (".gemini/**", ".env")
    stop_steps = (signal.SIGTERM, signal.SIGTERM)  # it ignores SIGINT
    steering = RESUME
    resumes = SAME_CWD
    #: Not all of GEMINI_*: gemini and its editors pass some to their tools, and fleet may be such a tool.
    reads_env = (
        *("GOOGLE_*", "GEMINI_API_KEY*", "GEMINI_MODEL", "GEMINI_SYSTEM_MD", "GEMINI_SANDBOX*", "GEMINI_TELEMETRY_*"),
        *("GEMINI_CLI_HOME", "GEMINI_CLI_CUSTOM_HEADERS", "GEMINI_CLI_TRUST*", "GEMINI_CLI_SYSTEM_*"),
        "GEMINI_CLI_USE_COMPUTE_ADC",
    )

    def command(self, order: Order) -> Command:
        """Return the command, user options first: an option that takes many values ends at the next option."""
        options, env = _options(order)
        argv, files = ["gemini", *order.flags, "--output-format=stream-json", *options], {}
        if order.folder and os.geteuid() == 0:
            # gemini accepts defaults only from root's files. For other owners it warns and suggests sudo.
            env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] = f"{order.folder}/{DEFAULTS}"
            files[DEFAULTS] = json.dumps(SETTINGS)
        return Command(argv=tuple(argv), env=env, stdin=order.prompt, files=files)

    def terminal(self, order: Order) -> Command:
        """Return the terminal's command. fleet chooses a new session's id, so its file is known before it exists.

        The prompt is in a file. During its start gemini can lose the first half of typed text and run the rest as shell
        commands.
        """
        options, env = _options(order)
        text, files = order.filed()
        if order.fresh and not order.session:
            options.append(f"--session-id={order.fresh}")
        if text:
            options.append(f"--prompt-interactive={text}")
        argv = ("gemini", *order.flags, *options)
        return Command(argv=argv, env=env, files=files, session=order.session or order.fresh)

    def look(self, screen: str) -> str:
        """Recognize the state by the content of the input, or by the choice in its place."""
        return shown(screen)

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return the session's own file. gemini invents the name of the directory's folder."""
        if not re.fullmatch(r"[\w-]{8,}", session):
            return ""
        return f"{glob.escape(self.config_folder(env))}/.gemini/tmp/*/chats/session-*-{session[:8]}.jsonl"

    def parse_session(self, line: str) -> list[Event]:
        """Return the events of one line of that file. The end of a turn is not among them."""
        return session_events(line)

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        return self.trusted(cwd)

    def trusted(self, folder: str) -> dict[str, dict[str, Any]]:
        return {".gemini/trustedFolders.json": {folder: "TRUST_FOLDER"}}

    def config_folder(self, env: Mapping[str, str]) -> str:
        """Return the folder that contains `.gemini` with all of its files."""
        return env.get("GEMINI_CLI_HOME") or env.get("HOME", "")

    def parse(self, line: str) -> list[Event]:
        return read_by_type(line, _READERS)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Explain the exit by its code.

        If gemini was stopped while it waited to retry, explain the last failed attempt.
        """
        complaint = _CHATTER.sub("", _COLOUR.sub("", stderr[-4 * LONGEST :])).strip()
        if status == NO_LOGIN:
            words = f"gemini has no login: {complaint[-300:]}"
            return Event(kind=Kind.LIMIT, text=words, limit=Limit(kind="auth", text=words))
        if status in EXITS:
            return Event(kind=Kind.ERROR, text=f"{EXITS[status]}: {complaint[-300:]}")
        waiting = _WAITING.search(complaint)
        if waiting:
            words = waiting[0].partition(_TRACE)[0]
            return _refused(words, 0) or Event(kind=Kind.ERROR, text=words)
        return _refused(complaint[-300:], _API_EXITS[status]) if status in _API_EXITS else None

    def window(self, model: str) -> int | None:
        """Return the window shared by all Gemini models, because gemini reports none. Return None for other models."""
        return WINDOW if not model or model.startswith("gemini-") else None

    def config_env(self, folder: str) -> dict[str, str]:
        """Return the variable of the folder in which `.gemini` holds login, settings and sessions."""
        return {"GEMINI_CLI_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables of a key or a cloud login, and the files that a login with Google creates."""
        home = f"{env.get('GEMINI_CLI_HOME') or env.get('HOME', '')}/.gemini"
        names = ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC")
        return (*names, f"{home}/oauth_creds.json", f"{home}/gemini-credentials.json")


def _options(order: Order) -> tuple[list[str], dict[str, str]]:
    """Return the options for permissions, model and session, and the variables that go with them."""
    options, env = [], dict(ENV)
    if order.permissions == "skip":
        options.append("--approval-mode=yolo")
        env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    if order.model:
        options.append(f"--model={order.model}")
    if order.session:
        options.append(f"--resume={order.session}")
    return options, env


def _init(said: Said) -> list[Event]:
    data = {"model": text(said, "model")}
    return [Event(kind=Kind.SESSION_STARTED, session=text(said, "session_id"), data=data)]


def _message(said: Said) -> list[Event]:
    if said.get("role") != "assistant":
        return []
    return [Event(kind=Kind.TEXT, text=text(said, "content"), delta=said.get("delta") is True)]


def _tool_use(said: Said) -> list[Event]:
    name, tool_id = text(said, "tool_name"), text(said, "tool_id")
    return [Event(kind=Kind.TOOL_USE, tool=name, tool_id=tool_id, data=table(said, "parameters"))]


def _tool_result(said: Said) -> list[Event]:
    error, tool_id = table(said, "error"), text(said, "tool_id")
    tool = tool_id.partition("__")[0]  # its ids begin with the tool's name, and no other field has it
    output = text(said, "output") or text(error, "message")
    ok = said.get("status") == "success"
    result = Event(kind=Kind.TOOL_RESULT, tool=tool, tool_id=tool_id, text=output, ok=ok)
    left_out = error.get("type") == "tool_not_registered" and tool in GUARDED
    denied = not ok and (left_out or error.get("type") == "policy_violation")
    return [result, Event(kind=Kind.DENIED, tool=tool, tool_id=tool_id)] if denied else [result]


def _error(said: Said) -> list[Event]:
    return [Event(kind=Kind.ERROR, text=text(said, "message"))]


def _result(said: Said) -> list[Event]:
    usage = _usage(table(said, "stats"))
    if said.get("status") == "success":
        return [Event(kind=Kind.RESULT, ok=True, usage=usage)]
    error = table(said, "error")
    message = text(error, "message") or text(error, "type") or "no details"
    found = _refused(message, 0)
    return [*([found] if found else ()), Event(kind=Kind.RESULT, ok=False, text=message, usage=usage)]


def _usage(stats: Said) -> Usage:
    """Return the usage of this run alone, also in a resumed session."""
    told, output = count(stats, "input_tokens"), count(stats, "output_tokens")
    read = min(count(stats, "cached"), told)
    # Thoughts are billed as output, but only the total includes them.
    return Usage(input=told - read, output=max(output, count(stats, "total_tokens") - told), cache_read=read)


def _refused(message: str, status: int) -> Event | None:
    looked_at = message[:LONGEST]
    if _FULL.search(looked_at):
        return Event(kind=Kind.CONTEXT_FULL, text=message)
    if _PLAN.search(looked_at):
        return Event(kind=Kind.LIMIT, text=message, limit=Limit(kind="plan", text=message))
    told = _STATUS.search(looked_at)
    found = 429 if _QUOTA.search(looked_at) else int(told[1]) if told else status
    return refusal(message, status=found)


_READERS: dict[str, Callable[[Said], list[Event]]] = {
    "init": _init,
    "message": _message,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "error": _error,
    "result": _result,
}
