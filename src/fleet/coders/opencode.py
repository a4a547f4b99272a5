"""OpenCode: `opencode run --format json`. Its stream has no final result: a step that stops is the last one.

opencode retries a refused request five times and waits as long as the provider asks. No option changes that, and its
stream is silent meanwhile. So fleet lets its complaints through to stderr: one line per refusal, with the session's id.
"""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from fleet.coders.base import RESUME, SAME_CWD, Coder, Command
from fleet.coders.refusals import refusal
from fleet.coders.said import amount, count, decoded, table, text
from fleet.core.event import Event, Kind, Limit, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.coders.base import Order
    from fleet.coders.said import Said

ENV = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",  # the program must not change during a fleet's work
    "OPENCODE_PRINT_LOGS": "1",
    "OPENCODE_LOG_LEVEL": "ERROR",
}
#: Folders of login and sessions, settings and last choices. Accounts may share downloads.
FOLDERS = {"XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state"}
LONGEST = 2_000  # characters of a complaint that are examined

_REJECTED = re.compile(r"The user (?:rejected permission|has specified a rule which prevents)")
_RATE = re.compile(r"rate limit|too many requests|resource (?:has been )?exhausted", re.I)
_BUSY = re.compile(
    r"overloaded|internal (?:server )?error|server had an error|bad gateway|gateway time-?out|service unavailable"
    r"|high demand",
    re.I,
)
#: Errors of opencode's own database. Several processes that start at once disturb each other, above all with a new
#: database.
_DATABASE = re.compile(r"database is locked|Failed query:\s+CREATE ")
_STREAM_ERROR = 'message="stream error"'
_SESSION = re.compile(r" session\.id=(\w+)")


class OpencodeCoder(Coder):
    """Adapter for `opencode run`."""

    name = "opencode"
    program = "opencode"
    project_files = ("opencode.json", "opencode.jsonc", ".opencode.json", ".opencode.jsonc", ".opencode/**")
    # A busy opencode ignores the first signal. The second one, of any kind, ends it.
    stop_steps = (signal.SIGINT, signal.SIGTERM, signal.SIGTERM)
    tells_cost = True
    tells_context = True
    steering = RESUME
    resumes = SAME_CWD  # from elsewhere the session continues, but prints nothing and never ends
    result_needs_exit_0 = True  # no final result: the end of a step that needs no further one must do

    #: The usual keys. opencode knows those of many more providers; users may pass them by name.
    reads_env = (
        *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
        *("OPENROUTER_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY"),
        *("AWS_PROFILE", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK", "AZURE_*"),
        *("OPENCODE_API_KEY", "OPENCODE_AUTH_CONTENT", "OPENCODE_CONFIG*", "OPENCODE_PERMISSION"),
        *("OPENCODE_DISABLE_*", "OPENCODE_EXPERIMENTAL*", "OPENCODE_MODELS_*"),
    )

    def command(self, order: Order) -> Command:
        """Return the command, user options first: an option that takes many values ends at the next option."""
        argv = ["opencode", "run", *order.flags, "--format=json"]
        if order.permissions == "skip":
            argv.append("--auto")  # tools that the user forbids by name stay forbidden
        if order.model:
            argv.append(f"--model={order.model}")
        if order.session:
            argv.append(f"--session={order.session}")
        return Command(argv=tuple(argv), env=dict(ENV), stdin=order.prompt)

    def parse(self, line: str) -> list[Event]:
        said = decoded(line)
        read = _READERS.get(text(said, "type")) if said else None
        return read(said, text(said, "sessionID")) if read and said else []

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Return the last complaint of a process stopped while it waited, or the reason why it did not start."""
        last = stderr.strip().rpartition("\n")[2]
        if _STREAM_ERROR in last:
            words = last.partition(' error.error="')[2].removesuffix('"') or last[-300:]
            session = _SESSION.search(last)
            found = _refused(words, 0) or Event(kind=Kind.ERROR, text=words)
            return found.replace(session=session[1] if session else "")
        if status and _DATABASE.search(stderr[-LONGEST:]):
            words = "opencode could not use its own database: another opencode held it"
            return Event(kind=Kind.LIMIT, text=words, limit=Limit(kind="overload", text=words))
        if "Session not found" in stderr:
            return Event(
                kind=Kind.ERROR, text="opencode no longer knows the session: restart the task with a new session"
            )
        return None

    def config_env(self, folder: str) -> dict[str, str]:
        """Return the XDG folders, because opencode has no setting for its folder."""
        return {name: f"{folder}/{below}" for name, below in FOLDERS.items()}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return nothing: some models need no login, and a key may be in the config or any provider's variable."""
        return ()


def _step_start(said: Said, session: str) -> list[Event]:
    return [Event(kind=Kind.SESSION_STARTED, session=session)]


def _text(said: Said, session: str) -> list[Event]:
    part = table(said, "part")
    if part.get("synthetic") is True:
        # opencode's own words to the model after compaction: the preceding stop was not the end.
        return [Event(kind=Kind.SESSION_STARTED, session=session)]
    return [Event(kind=Kind.TEXT, text=text(part, "text"), session=session)]


def _reasoning(said: Said, session: str) -> list[Event]:
    return [Event(kind=Kind.THINKING, text=text(table(said, "part"), "text"), session=session)]


def _tool_use(said: Said, session: str) -> list[Event]:
    """Return a call's beginning and end together: opencode reports a call when it has finished."""
    part = table(said, "part")
    state = table(part, "state")
    tool, tool_id, error = text(part, "tool"), text(part, "callID"), text(state, "error")
    ok = state.get("status") == "completed" and table(state, "metadata").get("exit") in (None, 0)
    told = [
        Event(kind=Kind.TOOL_USE, tool=tool, tool_id=tool_id, data=table(state, "input"), session=session),
        Event(kind=Kind.TOOL_RESULT, tool=tool, tool_id=tool_id, text=text(state, "output") or error, ok=ok),
    ]
    if _REJECTED.match(error):
        told.append(Event(kind=Kind.DENIED, tool=tool, tool_id=tool_id))
    return told


def _step_finish(said: Said, session: str) -> list[Event]:
    part = table(said, "part")
    tokens = table(part, "tokens")
    cache = table(tokens, "cache")
    fresh, read, written = count(tokens, "input"), count(cache, "read"), count(cache, "write")
    output = count(tokens, "output") + count(tokens, "reasoning")
    used = Event(
        kind=Kind.USAGE,
        usage=Usage(input=fresh, output=output, cache_read=read, cache_write=written),
        cost_added=amount(part, "cost"),
        context=fresh + read + written or None,
        session=session,
    )
    return [used, *_stopped(text(part, "reason"))]


def _stopped(reason: str) -> list[Event]:
    match reason:
        case "stop":
            return [Event(kind=Kind.RESULT, ok=True)]
        case "tool-calls":
            return []
    return [Event(kind=Kind.ERROR, text=f"the model's answer broke off: {reason or 'unknown reason'}")]


def _error(said: Said, session: str) -> list[Event]:
    error = table(said, "error")
    data, name = table(error, "data"), text(error, "name") or text(error, "_tag")
    message = text(data, "message") or name or "no details"
    last = Event(kind=Kind.RESULT, ok=False, text=message, session=session)
    if name == "ContextOverflowError":
        return [Event(kind=Kind.CONTEXT_FULL, text=message, session=session), last]
    if name == "ProviderAuthError":
        return [*_limit(message, 401), last]
    return [*_limit(message, count(data, "statusCode")), last]


def _limit(message: str, status: int) -> list[Event]:
    found = _refused(message, status)
    return [found] if found else []


def _refused(message: str, status: int) -> Event | None:
    """Return a limit. A complaint on stderr has no status, so its words determine one."""
    words = message[:LONGEST]
    return refusal(message, status=status or (429 if _RATE.search(words) else 503 if _BUSY.search(words) else 0))


_READERS: dict[str, Callable[[Said, str], list[Event]]] = {
    "step_start": _step_start,
    "text": _text,
    "reasoning": _reasoning,
    "tool_use": _tool_use,
    "step_finish": _step_finish,
    "error": _error,
}
