"""Claude Code: `claude -p` with a stream of JSON in both directions, so that it can be spoken to while it works.

At a terminal its events come from the file it keeps of the session, see `claude_session`.
"""

from __future__ import annotations

import glob
import json
import re
from typing import TYPE_CHECKING

from fleet.coders import claude_screen
from fleet.coders.base import PROTOCOL_FILE, SAME_CWD, STDIN, Coder, Command
from fleet.coders.claude_session import session_events
from fleet.coders.claude_stream import Dialect, events
from fleet.coders.refusals import refusal
from fleet.coders.said import count, table
from fleet.core.event import Event, Kind, Usage
from fleet.core.result_schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.coders.base import Order
    from fleet.coders.said import Said

ARGV = (
    *("claude", "-p", "--verbose", "--output-format=stream-json"),
    *("--input-format=stream-json", "--replay-user-messages"),
)
TERMINAL_ENV = {"DISABLE_AUTOUPDATER": "1"}  # a fleet must not change its program in the midst of its work
ENV = TERMINAL_ENV | {
    "CLAUDE_CODE_MAX_RETRIES": "2",  # of 10, which take three minutes even where nobody is logged in
}
#: It then offers the model a tool to hand in by, asks once more where that was not used, and ends well all the same.
BY_SCHEMA = "--json-schema"
USUAL_WINDOW, LONG_WINDOW = 200_000, 1_000_000
LONGEST_FOLDER = 200  # of a directory's name; beyond it claude goes on with a hash
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


class ClaudeCoder(Coder, Dialect):
    """Runs `claude`."""

    name = "claude"
    program = "claude"
    project_files = (
        *(".claude/settings*.json", ".mcp.json", ".lsp.json", ".claude/hooks/**", ".claude/plugins/**"),
        *(".claude/agents/**/*.md", ".claude/commands/**/*.md", ".claude/skills/**/*.md"),
    )
    tells_cost = True
    session_tells_cost = False
    short_names = ("", "default", "best", "sonnet", "opus", "haiku", "opusplan", "sonnet[1m]", "opus[1m]")
    tells_context = True
    steering = STDIN
    resumes = SAME_CWD
    #: Not all of CLAUDE_*: claude gives some to its tools, and fleet may be one of them.
    reads_env = (
        *("ANTHROPIC_*", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_*"),
        *("AWS_PROFILE", "AWS_REGION", "CLOUD_ML_REGION"),
        *("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"),
    )

    def command(self, order: Order) -> Command:
        """The prompt is the first line of its input: a plain text, which messages are not, when it is said again."""
        options, env = _options(order)
        if order.budget_usd is not None:
            options.append(f"--max-budget-usd={order.budget_usd:.4f}")
        if order.wants_result and not any(flag.startswith(BY_SCHEMA) for flag in order.flags):
            options.append(f"{BY_SCHEMA}={json.dumps(SCHEMA)}")
        # The user's own come last: some options take every word that follows.
        argv = (*ARGV, *options, *order.flags)
        return Command(argv=argv, env=ENV | env, stdin=_line(order.prompt), keep_stdin=True)

    def effort(self, level: str) -> tuple[str, ...]:
        return (f"--effort={level}",)

    def terminal(self, order: Order) -> Command:
        """A new session has the id that it is given, so its file is known before it is there."""
        options, env = _options(order)
        apart = bool(order.protocol and order.folder)
        text, files = order.typed(with_protocol=not apart)
        if apart:
            options.append(f"--append-system-prompt-file={order.folder}/{PROTOCOL_FILE}")
            files[PROTOCOL_FILE] = order.protocol
        if order.fresh and not order.session:
            options.append(f"--session-id={order.fresh}")
        argv = ("claude", *options, *order.flags)
        env = TERMINAL_ENV | env
        return Command(argv=argv, env=env, files=files, typed=text, session=order.session or order.fresh)

    def look(self, screen: str) -> str:
        """By the box around its input, or the keys that answer a question."""
        return claude_screen.shown(screen)

    def parse(self, line: str) -> list[Event]:
        return events(line, self)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Where claude refuses to start it says so on stderr alone."""
        complaint = stderr.strip()
        if "root/sudo" in complaint:
            text = "claude does not skip permissions as root: set IS_SANDBOX=1, or run fleet as another user"
            return Event(kind=Kind.ERROR, text=text)
        if "unknown option" in complaint:
            return Event(kind=Kind.ERROR, text=f"{complaint[-300:]} (check the coder's flags, or update claude)")
        return refusal(complaint) if status else None

    def window(self, model: str) -> int:
        """A model's name ends in [1m] where it has the long one."""
        return LONG_WINDOW if "[1m]" in model else USUAL_WINDOW

    def config_env(self, folder: str) -> dict[str, str]:
        return {"CLAUDE_CONFIG_DIR": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """A key, a token, a cloud's own login, or the file that /login leaves."""
        names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
        clouds = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
        return (*names, *clouds, f"{_config(env)}/.credentials.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """One file for each session, in a folder named after the directory."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        folder = re.sub("[^a-zA-Z0-9]", "-", cwd)
        if len(folder) > LONGEST_FOLDER:
            folder = folder[:LONGEST_FOLDER] + "*"
        return f"{glob.escape(_config(env))}/projects/{folder}/{session}.jsonl"

    def parse_session(self, line: str) -> list[Event]:
        return session_events(line, self)

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Its onboarding, trust in the directory, leave to use the key, and leave to skip permissions."""
        return claude_screen.answers(cwd, env)

    def trusted(self, folder: str) -> dict[str, dict[str, Any]]:
        return {".claude.json": claude_screen.trust(folder)}

    def config_folder(self, env: Mapping[str, str]) -> str:
        """With a folder of one's own all is in there; else this one file lies beside it."""
        return env.get("CLAUDE_CONFIG_DIR") or env.get("HOME", "")

    def message(self, text: str) -> str:
        """A user's message; claude says it again when it has reached the model."""
        return _line([{"type": "text", "text": text}])

    def interruption(self) -> str:
        """It stops its tool and ends the turn with an error; the session goes on with the next message."""
        request = {"type": "control_request", "request_id": "fleet", "request": {"subtype": "interrupt"}}
        return json.dumps(request) + "\n"

    def tokens(self, told: Said) -> tuple[int, int, int, int]:
        """The output is what it was when the message began: only a result knows it."""
        fresh, output = count(told, "input_tokens"), count(told, "output_tokens")
        return fresh, output, count(told, "cache_read_input_tokens"), count(told, "cache_creation_input_tokens")

    def total(self, said: Said) -> Usage | None:
        """Of all models and turns: `usage` is of one turn, and leaves out what sub-agents used.

        Up to 2.1.197 it is of this process alone; later versions go on counting where a resumed session stood.
        """
        models = [told for told in table(said, "modelUsage").values() if type(told) is dict]
        if not models:
            return None
        fresh, output, read, written = (sum(count(told, name) for told in models) for name in _COUNTS)
        told = self.tokens(table(said, "usage"))
        turn = sum(told) - told[1]
        return Usage(
            input=fresh, output=output, cache_read=read, cache_write=written, total=True, either=True, turn=turn
        )


def _options(order: Order) -> tuple[list[str], dict[str, str]]:
    """The model, the session and the permissions, and the variables that go with them."""
    options, env = [], {}
    if order.model:
        options.append(f"--model={order.model}")
    if order.session:
        options.append(f"--resume={order.session}")
    if order.permissions == "skip":
        options.append("--dangerously-skip-permissions")
        env["IS_SANDBOX"] = "1"  # else it refuses to skip them for root
    return options, env


def _line(content: str | list[dict[str, str]]) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


def _config(env: Mapping[str, str]) -> str:
    return env.get("CLAUDE_CONFIG_DIR") or f"{env.get('HOME', '')}/.claude"
