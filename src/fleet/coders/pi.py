"""Pi's `pi --mode json`, as of 0.73: one JSON object with a `type` on each line.

    session               id, cwd: the beginning
    agent_start           the agent starts to work; repeated for each retry after an error
    message_end           a complete message: a user's, the model's with its usage and cost, or a tool's
    tool_execution_start  and _end: one tool call
    agent_end             messages: the last one has the outcome; a refused request is `stopReason: error`
    compaction_start      reason: `overflow` if the context is full

Pi has three problems. It repeats the whole message with every few characters, so an answer of 8 kB makes 18 MB of
output. It waits silently as long as a provider asks. It does not report the size of the context window. An extension
that fleet adds to the run solves all three. Without the extension the stream is the same, only longer.
"""

from __future__ import annotations

import glob
import re
from signal import SIGTERM
from typing import TYPE_CHECKING

from fleet.coders.base import RESUME, SAME_CWD, Coder, Command
from fleet.coders.refusals import complaint, refusal
from fleet.coders.said import amount, count, read_by_type, table, tables, text
from fleet.core.event import Event, Kind, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.coders.base import Order
    from fleet.coders.said import Said

ENV = {"PI_SKIP_VERSION_CHECK": "1"}
KEYS = ("*_API_KEY", "ANTHROPIC_OAUTH_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "HF_TOKEN")
ENDS = {"length": "the model's answer was truncated at its maximum length", "aborted": "it was interrupted"}

EXTENSION = "pi-extension.js"
#: The extension has three parts. It drops output meant only for display, except for a sign of life every few seconds.
#: It forbids retries within a request, which all providers' libraries leave to the response. It reports the size of the
#: context window.
EXTENSION_TEXT = """\
// Put here by fleet, for this run alone.
const SHOWN = /^\\{"type":"(message_start|message_update|turn_start|turn_end|tool_execution_update)"/;
const TOLD_TWICE = /^\\{"type":"message_end","message":\\{"role":"(user|toolResult)"/;
const ALIVE_MS = 5000;

export default function (pi) {
  const out = process.stdout;
  const write = out._write;
  let shown = 0;

  const kept = (line) => {
    if (SHOWN.test(line)) {
      if (Date.now() - shown < ALIVE_MS) return "";
      shown = Date.now();
      return '{"type":"fleet_alive"}\\n';
    }
    if (TOLD_TWICE.test(line)) return "";
    if (!line.startsWith('{"type":"agent_end"')) return line;
    const said = JSON.parse(line);
    return JSON.stringify({ ...said, messages: said.messages.slice(-1) }) + "\\n";
  };
  out._writev = null;
  out._write = (chunk, encoding, done) => {
    const line = kept(Buffer.isBuffer(chunk) ? chunk.toString() : chunk);
    return line ? write.call(out, Buffer.from(line), "buffer", done) : done();
  };

  const fetched = globalThis.fetch;
  globalThis.fetch = async (...asked) => {
    const answer = await fetched(...asked);
    if (answer.ok) return answer;
    const headers = new Headers(answer.headers);
    headers.set("x-should-retry", "false");
    return new Response(answer.body, { status: answer.status, statusText: answer.statusText, headers });
  };

  pi.on("session_start", (_, { model }) => {
    const line = JSON.stringify({ type: "fleet_model", model: model?.id, window: model?.contextWindow });
    Object.getPrototypeOf(out).write.call(out, line + "\\n");
  });
}
"""


class PiCoder(Coder):
    """Adapter for `pi`. It never asks for permission, whatever the order says."""

    name = "pi"
    program = "pi"
    project_files = (".pi/**",)
    stop_steps = (SIGTERM,)  # after SIGINT its tools keep running
    reads_env = (
        *KEYS,
        "PI_*",
        "AWS_*",
        "AZURE_OPENAI_*",
        "CLOUDFLARE_*",
        "GOOGLE_*",
        "GCLOUD_PROJECT",
        "*GITHUB_TOKEN",
    )
    tells_cost = True
    tells_context = True
    steering = RESUME
    resumes = SAME_CWD

    def command(self, order: Order) -> Command:
        argv, files = ["pi", "--print", "--mode", "json"], {}
        if order.folder:
            argv += ["--extension", f"{order.folder}/{EXTENSION}"]
            files[EXTENSION] = EXTENSION_TEXT
        if order.model:
            argv += ["--model", _no_option(order.model)]
        if order.session:
            argv += ["--session", _no_option(order.session)]
        return Command(argv=(*argv, *order.flags), env=dict(ENV), stdin=order.prompt, files=files)

    def effort(self, level: str) -> tuple[str, ...]:
        return ("--thinking", level)

    def parse(self, line: str) -> list[Event]:
        return read_by_type(line, _READERS)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Return the complaint on stderr. If pi does not start to work, only stderr has the reason."""
        return complaint(status, stderr)

    def config_env(self, folder: str) -> dict[str, str]:
        return {"PI_CODING_AGENT_DIR": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables of any provider's key, and the files that hold logins or custom providers."""
        names = tuple(name for name in sorted(env) if name.endswith("_API_KEY"))
        return (*names, *KEYS[1:], f"{_folder(env)}/auth.json", f"{_folder(env)}/models.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return the session's own file, in a folder named after the directory."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        return f"{glob.escape(_folder(env))}/sessions/*/*_{session}.jsonl"


def _no_option(value: str) -> str:
    """Return a value that does not look like an option, because pi takes option and value only as two words."""
    return f" {value}" if value.startswith(("-", "@")) else value


def _folder(env: Mapping[str, str]) -> str:
    return env.get("PI_CODING_AGENT_DIR") or f"{env.get('HOME', '')}/.pi/agent"


def _session(said: Said) -> list[Event]:
    return [Event(kind=Kind.SESSION_STARTED, session=text(said, "id"), data={"cwd": text(said, "cwd")})]


def _model(said: Said) -> list[Event]:
    data, window = {"model": text(said, "model")}, count(said, "window")
    return [Event(kind=Kind.SESSION_STARTED, data=data, window=window or None)]


def _to_work(said: Said) -> list[Event]:
    return [Event(kind=Kind.SESSION_STARTED)]


def _message(said: Said) -> list[Event]:
    message = table(said, "message")
    if message.get("role") != "assistant":
        return []
    found = []
    for block in tables(message, "content"):
        if words := text(block, "text"):
            found.append(Event(kind=Kind.TEXT, text=words))
        elif thought := text(block, "thinking"):
            found.append(Event(kind=Kind.THINKING, text=thought))
    return [*found, *_usage(message)]


def _usage(message: Said) -> list[Event]:
    told = table(message, "usage")
    fresh, read, written = (count(told, name) for name in ("input", "cacheRead", "cacheWrite"))
    output, context = count(told, "output"), fresh + read + written
    if not output and not context:
        return []  # of a refused request
    usage = Usage(input=fresh, output=output, cache_read=read, cache_write=written, message=text(message, "responseId"))
    return [Event(kind=Kind.USAGE, usage=usage, cost_added=amount(table(told, "cost"), "total"), context=context)]


def _tool_use(said: Said) -> list[Event]:
    tool, tool_id = text(said, "toolName"), text(said, "toolCallId")
    return [Event(kind=Kind.TOOL_USE, tool=tool, tool_id=tool_id, data=table(said, "args"))]


def _tool_result(said: Said) -> list[Event]:
    tool, tool_id = text(said, "toolName"), text(said, "toolCallId")
    words = _words(table(said, "result"))
    return [Event(kind=Kind.TOOL_RESULT, tool=tool, tool_id=tool_id, text=words, ok=said.get("isError") is False)]


def _end(said: Said) -> list[Event]:
    """Return the outcome of one attempt. If another attempt follows, its `agent_start` withdraws the outcome."""
    messages = tables(said, "messages")
    if not messages:
        return []
    last = messages[-1]
    reason, complaint = text(last, "stopReason"), text(last, "errorMessage")
    if last.get("role") == "assistant" and reason == "stop":
        return [Event(kind=Kind.RESULT, ok=True, text=_words(last))]
    if reason != "error":
        complaint = complaint or ENDS.get(reason, "it ended in the middle of its work")
        return [Event(kind=Kind.RESULT, ok=False, text=complaint)]
    status = re.match(r"(\d{3})\b", complaint)
    refused = refusal(complaint, status=int(status[1]) if status else 0)
    result = Event(kind=Kind.RESULT, ok=False, text=complaint)
    return [refused, result] if refused else [result]


def _compaction(said: Said) -> list[Event]:
    # Pi recognizes every provider's wording. Afterwards it either recovers or ends.
    full = said.get("reason") == "overflow"
    return [Event(kind=Kind.CONTEXT_FULL, text="the model's context is full")] if full else []


def _words(message: Said) -> str:
    return "\n".join(words for block in tables(message, "content") if (words := text(block, "text")))


_READERS: dict[str, Callable[[Said], list[Event]]] = {
    "session": _session,
    "fleet_model": _model,
    "agent_start": _to_work,
    "message_end": _message,
    "tool_execution_start": _tool_use,
    "tool_execution_end": _tool_result,
    "agent_end": _end,
    "compaction_start": _compaction,
}
