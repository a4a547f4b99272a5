"""Gemini CLI: `gemini --output-format=stream-json`. It retries in silence, and says why it gave up in its exit code."""

from __future__ import annotations

import glob
import json
import os
import re
import signal
from typing import TYPE_CHECKING

from fleet.coders.base import RESUME, SAME_CWD, Coder, Command
from fleet.coders.gemini_terminal import session_events, shown
from fleet.coders.refusals import refusal
from fleet.coders.said import count, read_by_type, table, text
from fleet.core.event import Event, Kind, Limit, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fleet.coders.base import Order
    from fleet.coders.said import Said

#: Else it starts a second process for itself, and the first one passes no signal on.
ENV = {"GEMINI_CLI_NO_RELAUNCH": "true"}
DEFAULTS = "gemini-defaults.json"
#: Below the user's own settings. Ten attempts, as it has them by itself, take five minutes; where it chooses the model
#: itself, it tries each of two models, and no setting governs how often.
SETTINGS = {"general": {"maxAttempts": 2}}
#: What it leaves out, without a word, where it may not use it unasked.
GUARDED = ("run_shell_command", "write_file", "replace", "web_fetch")
LONGEST = 2_000  # of a complaint that is looked at
WINDOW = 1_048_576  # tokens

#: What its own exit codes mean.
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
#: The last it said, so that nothing has come of that attempt yet: a refusal with a time, or an error with its traces.
_WAITING = re.compile(
    r"Attempt \d+ failed(?:(?!Attempt \d).)*Retrying "
    r"(?:after \d+ms\.{3}|with backoff\.{3}[^\n]*(?:\n[ \t{}\]][^\n]*)*)\Z",
    re.S,
)
_TRACE = "\n    at "
#: What it says at every start.
_CHATTER = re.compile(r"^(?:(?:Security )?Warning: |YOLO mode |Ripgrep is ).*$", re.M)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


class GeminiCoder(Coder):
    """Runs `gemini`."""

    name = "gemini"
    program = "gemini"
    short_names = ("", "auto", "pro", "flash", "flash-lite")
    project_files = (".gemini/**", ".env")
    stop_steps = (signal.SIGTERM, signal.SIGTERM)  # it ignores an interruption
    steering = RESUME
    resumes = SAME_CWD
    tells_turns = False
    #: Not all of GEMINI_*: gemini and its editors give some to their tools, and fleet may be one of them.
    reads_env = (
        *("GOOGLE_*", "GEMINI_API_KEY*", "GEMINI_MODEL", "GEMINI_SYSTEM_MD", "GEMINI_SANDBOX*", "GEMINI_TELEMETRY_*"),
        *("GEMINI_CLI_HOME", "GEMINI_CLI_CUSTOM_HEADERS", "GEMINI_CLI_TRUST*", "GEMINI_CLI_SYSTEM_*"),
        "GEMINI_CLI_USE_COMPUTE_ADC",
    )

    def command(self, order: Order) -> Command:
        """The user's own options come first: one that takes many values ends where the next begins."""
        options, env = _options(order)
        argv, files = ["gemini", *order.flags, "--output-format=stream-json", *options], {}
        if order.folder and os.geteuid() == 0:
            # It takes defaults only from root's files; for anybody else's it warns and shows a way with sudo.
            env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] = f"{order.folder}/{DEFAULTS}"
            files[DEFAULTS] = json.dumps(SETTINGS)
        return Command(argv=tuple(argv), env=env, stdin=order.prompt, files=files)

    def terminal(self, order: Order) -> Command:
        """A new session has the id that it is given, so its file is known before it is there.

        The prompt is in a file: while gemini starts it can lose the first half of what is typed, and run the rest as
        commands of a shell.
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
        """By what stands in its input, or instead of it."""
        return shown(screen)

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """One file for each session, in a folder whose name it makes up for the directory."""
        if not re.fullmatch(r"[\w-]{8,}", session):
            return ""
        return f"{glob.escape(self.config_folder(env))}/.gemini/tmp/*/chats/session-*-{session[:8]}.jsonl"

    def parse_session(self, line: str) -> list[Event]:
        """The events of one line of that file; the end of a turn is not among them."""
        return session_events(line)

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        return self.trusted(cwd)

    def trusted(self, folder: str) -> dict[str, dict[str, Any]]:
        return {".gemini/trustedFolders.json": {folder: "TRUST_FOLDER"}}

    def config_folder(self, env: Mapping[str, str]) -> str:
        """It keeps all in `.gemini` in there."""
        return env.get("GEMINI_CLI_HOME") or env.get("HOME", "")

    def parse(self, line: str) -> list[Event]:
        return read_by_type(line, _READERS)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """By its exit code, or, where it was stopped while it waited to try again, by why the last attempt failed."""
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
        """Of all its own models; it tells none."""
        return WINDOW if not model or model.startswith("gemini-") else None

    def config_env(self, folder: str) -> dict[str, str]:
        """It keeps login, settings and sessions in `.gemini` in there."""
        return {"GEMINI_CLI_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """A key, a cloud's own login, or one of the files it leaves after a login with Google."""
        home = f"{env.get('GEMINI_CLI_HOME') or env.get('HOME', '')}/.gemini"
        names = ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC")
        return (*names, f"{home}/oauth_creds.json", f"{home}/gemini-credentials.json")


def _options(order: Order) -> tuple[list[str], dict[str, str]]:
    """The permissions, the model and the session, and the variables that go with them."""
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
    tool = tool_id.partition("__")[0]  # its ids begin with the tool's name, and nothing else tells it
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
    """Of this run alone, also in a session that was gone on with."""
    told, output = count(stats, "input_tokens"), count(stats, "output_tokens")
    read = min(count(stats, "cached"), told)
    # Thoughts are paid for as output, and are counted in the total alone.
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
