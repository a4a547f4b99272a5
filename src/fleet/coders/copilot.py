"""GitHub's `copilot`, as of 1.0.102: one JSON object with a `type` on each line, and what it is about in `data`.

    session.tools_updated    it is ready: model
    assistant.message        what the model said and thought; calls of tools follow as events of their own
    tool.execution_start     and _complete: one call of a tool; the latter tells how full the context is
    model.call_failure       a request was refused, and may be tried again
    session.error            it gives up: errorType, message, statusCode
    assistant.idle           aborted: whether it was interrupted; else it may only be waiting for a command of its own
    result                   sessionId, exitCode: the last line, and the only one that names the session

Tokens are told nowhere but in the file that it keeps of a session. Its tries cannot be cut short: after five it gives
up, which takes 20 seconds, or as long as a provider asks it to wait, if that is not too long for it.
"""

from __future__ import annotations

import glob
import re
from signal import SIGTERM
from typing import TYPE_CHECKING

from fleet.coders.base import RESUME, SAME_CWD, Coder, Command
from fleet.coders.refusals import complaint, refusal
from fleet.coders.said import count, decoded, read_by_type, table, text
from fleet.core.event import Event, Kind, Limit, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.coders.base import Order
    from fleet.coders.said import Said

ARGV = ("copilot", "--output-format=json", "--no-ask-user", "--no-auto-update")
#: Its words for why it gives up, in the words of `refusal`.
WORDS = {
    "rate_limit": "rate_limit",
    "quota": "billing_error",
    "authentication": "authentication_failed",
    "authorization": "authentication_failed",
}
#: Limits of a subscription among those that it calls rate limits.
OF_THE_PLAN = ("user_weekly_rate_limited", "user_global_rate_limited")
_TOKENS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


class CopilotCoder(Coder):
    """Runs `copilot`."""

    name = "copilot"
    program = "copilot"
    short_names = ("",)
    project_files = (
        *(".github/hooks/**", ".github/copilot/**", ".github/agents/**", ".github/extensions/**", ".copilot/**"),
        *(".mcp.json", ".github/mcp.json", ".vscode/mcp.json", ".github/lsp.json", ".claude/settings*.json"),
    )
    stop_steps = (SIGTERM,)  # ends its tools too, within a tenth of a second; after SIGINT it may lose its last line
    result_needs_exit_0 = True  # its result speaks of success even after a signal
    reads_env = ("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST")
    tells_context = True
    steering = RESUME
    resumes = SAME_CWD  # from elsewhere it would work in the session's old directory

    def command(self, order: Order) -> Command:
        argv = [*ARGV]
        if order.model:
            argv.append(f"--model={order.model}")
        if order.session:
            argv.append(f"--resume={order.session}")
        elif order.fresh:  # it tells its session only with its last word
            argv.append(f"--session-id={order.fresh}")
        if order.permissions == "skip":
            argv.append("--allow-all")
        # The user's own come last: some options take every word that follows.
        return Command(argv=(*argv, *order.flags), stdin=order.prompt, session=order.session or order.fresh)

    def effort(self, level: str) -> tuple[str, ...]:
        return (f"--reasoning-effort={level}",)

    def parse(self, line: str) -> list[Event]:
        return read_by_type(line, _READERS)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Where it does not begin to work it says so on stderr alone."""
        return complaint(status, stderr)

    def config_env(self, folder: str) -> dict[str, str]:
        return {"COPILOT_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """A token, a provider of one's own, or the file that its first start leaves: a login may be in a keyring."""
        names = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL")
        return (*names, f"{_home(env)}/config.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """One folder for each session."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        return f"{glob.escape(_home(env))}/session-state/{session}/events.jsonl"

    def parse_transcript(self, line: str) -> list[Event]:
        """Tokens: how full the context is with each request, and at an end what the whole session has used."""
        said = decoded(line)
        if said is None:
            return []
        match said.get("type"):
            case "session.usage_record":
                return _request(table(table(said, "data"), "usage"))
            case "session.shutdown":
                return _total(table(said, "data"))
        return []


def _home(env: Mapping[str, str]) -> str:
    return env.get("COPILOT_HOME") or f"{env.get('HOME', '')}/.copilot"


def _ready(said: Said) -> list[Event]:
    return [Event(kind=Kind.SESSION_STARTED, data={"model": text(table(said, "data"), "model")})]


def _message(said: Said) -> list[Event]:
    if _of_sub_agent(said):
        return []  # said to the agent, not by it
    data = table(said, "data")
    thought, words = text(data, "reasoningText"), text(data, "content")
    found = [Event(kind=Kind.THINKING, text=thought)] if thought else []
    return [*found, Event(kind=Kind.TEXT, text=words)] if words else found


def _tool_use(said: Said) -> list[Event]:
    data = table(said, "data")
    tool, tool_id = text(data, "toolName"), text(data, "toolCallId")
    return [Event(kind=Kind.TOOL_USE, tool=tool, tool_id=tool_id, data=table(data, "arguments"))]


def _tool_result(said: Said) -> list[Event]:
    data = table(said, "data")
    telemetry, error = table(data, "toolTelemetry"), table(data, "error")
    metrics = {} if _of_sub_agent(said) else table(telemetry, "metrics")
    result = Event(
        kind=Kind.TOOL_RESULT,
        tool_id=text(data, "toolCallId"),
        text=text(table(data, "result"), "content") or text(error, "message"),
        ok=data.get("success") is True,
        context=count(metrics, "context_current_tokens") or None,
        window=count(metrics, "context_token_limit") or None,
    )
    if error.get("code") != "denied" or "following rules" in text(error, "message"):
        return [result]  # what a user's own rule forbids needs no question
    return [result, Event(kind=Kind.DENIED, tool=_denied(table(telemetry, "properties")))]


def _denied(properties: Said) -> str:
    """The tool of a refused call, which is named only when it begins."""
    return "shell" if "shell_error_category" in properties else text(properties, "command") or "a tool"


def _refused(said: Said) -> list[Event]:
    data = table(said, "data")
    complaint, status = text(data, "errorMessage"), count(data, "statusCode")
    words = text(decoded(complaint) or {}, "message") or complaint or f"HTTP status {status}"
    return [refusal(words, status=status) or Event(kind=Kind.ERROR, text=words)]


def _gave_up(said: Said) -> list[Event]:
    data = table(said, "data")
    words, why = text(data, "message"), text(data, "errorType")
    if why == "context_limit" or "rejected the prompt as too long" in words:
        return [Event(kind=Kind.CONTEXT_FULL, text=words)]
    if text(data, "errorCode") in OF_THE_PLAN:
        return [Event(kind=Kind.LIMIT, text=words, limit=Limit(kind="plan", text=words))]
    refused = refusal(words, status=count(data, "statusCode"), word=WORDS.get(why, ""))
    return [refused or Event(kind=Kind.ERROR, text=words)]


def _idle(said: Said) -> list[Event]:
    # The result that follows says that all went well even then.
    aborted = table(said, "data").get("aborted") is True
    return [Event(kind=Kind.RESULT, ok=False, text="it was interrupted")] if aborted else []


def _result(said: Said) -> list[Event]:
    code = said.get("exitCode")
    if type(code) is not int:
        return []
    return [Event(kind=Kind.RESULT, ok=code == 0, session=text(said, "sessionId"))]


def _of_sub_agent(said: Said) -> bool:
    return bool(said.get("agentId") or table(said, "data").get("parentToolCallId"))


def _request(told: Said) -> list[Event]:
    context, window = count(told, "inputTokens"), count(told, "maxPromptTokens")
    if not context or told.get("parentToolCallId"):
        return []
    return [Event(kind=Kind.USAGE, context=context, window=window or None)]


def _total(data: Said) -> list[Event]:
    """Of all models and processes of the session; the input has both caches' parts in it."""
    models = [table(told, "usage") for told in table(data, "modelMetrics").values() if type(told) is dict]
    if not models:
        return []
    tokens, output, read, written = (sum(count(told, name) for told in models) for name in _TOKENS)
    fresh = max(tokens - read - written, 0)
    usage = Usage(input=fresh, output=output, cache_read=read, cache_write=written, total=True)
    return [Event(kind=Kind.USAGE, usage=usage)]


_READERS: dict[str, Callable[[Said], list[Event]]] = {
    "session.tools_updated": _ready,
    "assistant.message": _message,
    "tool.execution_start": _tool_use,
    "tool.execution_complete": _tool_result,
    "model.call_failure": _refused,
    "session.error": _gave_up,
    "assistant.idle": _idle,
    "result": _result,
}
