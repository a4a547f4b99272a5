"""GitHub's `copilot`, as of 1.0.102: one JSON object per line, with a `type` and its details in `data`.

    session.tools_updated    copilot is ready: model
    assistant.message        the model's words and thoughts; tool calls follow as separate events
    tool.execution_start     and _complete: one tool call; the latter reports how full the context is
    model.call_failure       a request was refused and may be retried
    session.error            copilot gives up: errorType, message, statusCode
    assistant.idle           aborted: whether it was interrupted; if not, it may be waiting for its own command
    result                   sessionId, exitCode: the last line, and the only one that names the session

Only the session's file reports tokens. fleet cannot limit its retries. copilot gives up after five, which takes 20
seconds. It waits longer if a provider asks for that, up to its own maximum.
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
#: Reasons for which copilot gives up, translated into the words that `refusal` knows.
WORDS = {
    "rate_limit": "rate_limit",
    "quota": "billing_error",
    "authentication": "authentication_failed",
    "authorization": "authentication_failed",
}
#: Subscription limits that copilot reports as rate limits.
OF_THE_PLAN = ("user_weekly_rate_limited", "user_global_rate_limited")
_TOKENS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


class CopilotCoder(Coder):
    """Adapter for `copilot`."""

    name = "copilot"
    program = "copilot"
    short_names = ("",)
    project_files = (
        *(".github/hooks/**", ".github/copilot/**", ".github/agents/**", ".github/extensions/**", ".copilot/**"),
        *(".mcp.json", ".github/mcp.json", ".vscode/mcp.json", ".github/lsp.json", ".claude/settings*.json"),
    )
    stop_steps = (SIGTERM,)  # also ends its tools, within 0.1 s; after SIGINT it may lose its last line
    result_needs_exit_0 = True  # its result reports success even after a signal
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
        elif order.fresh:  # it reports its session only in its last line
            argv.append(f"--session-id={order.fresh}")
        if order.permissions == "skip":
            argv.append("--allow-all")
        # The user's options come last because some options consume every following word.
        return Command(argv=(*argv, *order.flags), stdin=order.prompt, session=order.session or order.fresh)

    def effort(self, level: str) -> tuple[str, ...]:
        return (f"--reasoning-effort={level}",)

    def parse(self, line: str) -> list[Event]:
        return read_by_type(line, _READERS)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Return the complaint on stderr. If copilot does not start to work, only stderr has the reason."""
        return complaint(status, stderr)

    def config_env(self, folder: str) -> dict[str, str]:
        return {"COPILOT_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables of a token or a custom provider, and the file that the first start creates.

        The login itself may be in a keyring.
        """
        names = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL")
        return (*names, f"{_home(env)}/config.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return the session's event file. Each session has its own folder."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        return f"{glob.escape(_home(env))}/session-state/{session}/events.jsonl"

    def parse_transcript(self, line: str) -> list[Event]:
        """Return token counts: the context's size with each request, and the whole session's usage at its end."""
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
        return []  # a message to the agent, not from it
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
        return [result]  # a call that a user's rule forbids needs no question
    return [result, Event(kind=Kind.DENIED, tool=_denied(table(telemetry, "properties")))]


def _denied(properties: Said) -> str:
    """Return the tool of a refused call. copilot names the tool only when the call starts."""
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
    # The following result reports success even then.
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
    """Return the usage of all models and processes of the session. The reported input includes both caches."""
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
