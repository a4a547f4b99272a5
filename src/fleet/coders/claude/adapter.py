"""Claude Code: `claude -p` with a JSON stream in both directions, which accepts messages during the work.

In a terminal its events come from the session's file, see `claude_session`.
"""

from __future__ import annotations

import glob
import json
import re
from typing import TYPE_CHECKING

from fleet.coders.base import BUSY, PROTOCOL_FILE, QUESTION, READY, SAME_CWD, STDIN, Coder, Command
from fleet.coders.claude.session import session_events
from fleet.coders.claude.stream import Dialect, events
from fleet.coders.refusals import refusal
from fleet.coders.said import count, table
from fleet.core.event import Event, Kind, Usage
from fleet.core.result_schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.coders.base import Order
    from fleet.coders.said import Said


#: Lines examined, counted from the end of the screen. A question can be long, an input seldom is.
LOOKED_AT = 60
LONGEST_LINE = 400
#: Maximum number of lines below the input.
MOST_BELOW = 6
KEY_END = 20  # characters of a key that claude remembers

_RULE = re.compile(r"\s*[─━]{10}[─━\s\w]*")
_INPUT = re.compile(r"[❯>](?:\s(.*))?")
_EMPTY = re.compile(r"|Try \"[^\"]*\"?…?|Press up to edit queued messages")
_AT_WORK = re.compile(r"\besc to interrupt\b")
#: An odd sign, one word about the activity and its duration: "✶ Gesticulating… (3s · ↓ 30 tokens)".
_SPINNER = re.compile(r"[^\w\s] \S.{0,80}… \(.{0,60}\d+s\b.*")
_KEYS = re.compile(r"\b(?:enter to (?:confirm|select|continue|submit)|esc to (?:cancel|exit|go back|reject))\b", re.I)
_CHOICE = re.compile(r"\s*❯ \d{1,2}\. .*")


def shown(screen: str) -> str:
    lines = [line[:LONGEST_LINE].rstrip() for line in screen.rstrip().split("\n")[-LOOKED_AT:]]
    if any(_KEYS.search(line) for line in lines[-3:]):  # regardless of the lines above: an agent can draw a box too
        return QUESTION
    box = _box(lines)
    if box is None:
        return QUESTION if any(_CHOICE.fullmatch(line) for line in lines[-15:]) else ""
    first, last = box
    typed = _INPUT.fullmatch(lines[first + 1])
    if last > first + 2 or not typed or not _EMPTY.fullmatch((typed[1] or "").strip()):
        return ""  # words not sent yet
    above = [line for line in lines[max(0, first - 8) : first] if line.strip()]
    at_work = any(_AT_WORK.search(line) for line in lines[last + 1 :]) or any(map(_SPINNER.fullmatch, above))
    return BUSY if at_work else READY


def _box(lines: list[str]) -> tuple[int, int] | None:
    """Return the line numbers of the two rules around the input.

    Return None if the screen does not end with an input.
    """
    rules = [number for number, line in enumerate(lines) if _RULE.fullmatch(line)]
    if len(rules) < 2 or len(lines) - 1 - rules[-1] > MOST_BELOW:
        return None
    first, last = rules[-2:]
    return (first, last) if last > first + 1 and _INPUT.fullmatch(lines[first + 1]) else None


def answers(cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the account's files as they are after all questions before the first work have been answered."""
    known: dict[str, Any] = {"hasCompletedOnboarding": True} | trust(cwd)
    key = env.get("ANTHROPIC_API_KEY", "")
    if key:
        known["customApiKeyResponses"] = {"approved": [key[-KEY_END:]]}
    return {".claude.json": known, "settings.json": {"skipDangerousModePermissionPrompt": True}}


def trust(folder: str) -> dict[str, Any]:
    """Return the setting that makes claude trust a directory and all below it."""
    return {"projects": {folder: {"hasTrustDialogAccepted": True}}}


ARGV = (
    *("claude", "-p", "--verbose", "--output-format=stream-json"),
    *("--input-format=stream-json", "--replay-user-messages"),
)
TERMINAL_ENV = {"DISABLE_AUTOUPDATER": "1"}  # the program must not change during a fleet's work
ENV = TERMINAL_ENV | {
    "CLAUDE_CODE_MAX_RETRIES": "2",  # default 10, which take three minutes even without a login
}
#: Offers the model a tool for its result and asks once more if the model did not use it. The run succeeds either way.
BY_SCHEMA = "--json-schema"
#: Passes settings for one run. These keep claude from asking again what the user accepted in `fleet init`.
SETTINGS, SKIPS_WARNING = "--settings", {"skipDangerousModePermissionPrompt": True}
USUAL_WINDOW, LONG_WINDOW = 200_000, 1_000_000
LONGEST_FOLDER = 200  # length of a directory's name; claude replaces the rest of a longer one by a hash
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


class ClaudeCoder(Coder, Dialect):
    """Adapter for `claude`."""

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
    #: Not all of CLAUDE_*: claude passes some of them to its tools, and fleet may be such a tool.
    reads_env = (
        *("ANTHROPIC_*", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_*"),
        *("AWS_PROFILE", "AWS_REGION", "CLOUD_ML_REGION"),
        *("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"),
    )

    def command(self, order: Order) -> Command:
        """Return the command that takes the prompt as the first line of its input.

        The prompt is plain text. Messages are lists of blocks, so the two differ when claude replays them.
        """
        options, env = _options(order)
        if order.budget_usd is not None:
            options.append(f"--max-budget-usd={order.budget_usd:.4f}")
        if order.wants_result and not any(flag.startswith(BY_SCHEMA) for flag in order.flags):
            options.append(f"{BY_SCHEMA}={json.dumps(SCHEMA)}")
        # The user's options come last because some options consume every following word.
        argv = (*ARGV, *options, *order.flags)
        return Command(argv=argv, env=ENV | env, stdin=_line(order.prompt), keep_stdin=True)

    def effort(self, level: str) -> tuple[str, ...]:
        return (f"--effort={level}",)

    def terminal(self, order: Order) -> Command:
        """Return the terminal's command. fleet chooses a new session's id, so its file is known before it exists."""
        options, env = _options(order)
        if order.permissions == "skip" and not any(flag.startswith(SETTINGS) for flag in order.flags):
            options.append(f"{SETTINGS}={json.dumps(SKIPS_WARNING)}")
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
        """Recognize the state by the box around the input, or by the keys that answer a question."""
        return shown(screen)

    def parse(self, line: str) -> list[Event]:
        return events(line, self)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Explain the complaint on stderr. If claude refuses to start, only stderr has the reason."""
        complaint = stderr.strip()
        if "root/sudo" in complaint:
            text = "claude does not skip permissions as root: set IS_SANDBOX=1, or run fleet as another user"
            return Event(kind=Kind.ERROR, text=text)
        if "unknown option" in complaint:
            return Event(kind=Kind.ERROR, text=f"{complaint[-300:]} (check the coder's flags, or update claude)")
        return refusal(complaint) if status else None

    def window(self, model: str) -> int:
        """Return the long window if the model's name contains [1m], else the usual one."""
        return LONG_WINDOW if "[1m]" in model else USUAL_WINDOW

    def config_env(self, folder: str) -> dict[str, str]:
        return {"CLAUDE_CONFIG_DIR": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables of a key, a token or a cloud login, and the file that /login creates."""
        names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
        clouds = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
        return (*names, *clouds, f"{_config(env)}/.credentials.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return the session's own file, in a folder named after the directory."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        folder = re.sub("[^a-zA-Z0-9]", "-", cwd)
        if len(folder) > LONGEST_FOLDER:
            folder = folder[:LONGEST_FOLDER] + "*"
        return f"{glob.escape(_config(env))}/projects/{folder}/{session}.jsonl"

    def parse_session(self, line: str) -> list[Event]:
        return session_events(line, self)

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Answer onboarding, trust in the directory, approval of the API key and approval to skip permissions."""
        return answers(cwd, env)

    def trusted(self, folder: str) -> dict[str, dict[str, Any]]:
        return {".claude.json": trust(folder)}

    def config_folder(self, env: Mapping[str, str]) -> str:
        """Return CLAUDE_CONFIG_DIR, which then holds all files. Without it `.claude.json` is in the home directory."""
        return env.get("CLAUDE_CONFIG_DIR") or env.get("HOME", "")

    def message(self, text: str) -> str:
        """Return a user's message. claude replays it when it has reached the model."""
        return _line([{"type": "text", "text": text}])

    def interruption(self) -> str:
        """Return the request that stops the tool and ends the turn with an error.

        The next message continues the session.
        """
        request = {"type": "control_request", "request_id": "fleet", "request": {"subtype": "interrupt"}}
        return json.dumps(request) + "\n"

    def tokens(self, told: Said) -> tuple[int, int, int, int]:
        """Return one message's tokens.

        Its output count is the value at the message's start; only a result has the final one.
        """
        fresh, output = count(told, "input_tokens"), count(told, "output_tokens")
        return fresh, output, count(told, "cache_read_input_tokens"), count(told, "cache_creation_input_tokens")

    def total(self, said: Said) -> Usage | None:
        """Return the tokens of all models and turns. `usage` covers one turn and omits sub-agents.

        Versions up to 2.1.197 count this process alone. Later versions add to the count of a resumed session.
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
    """Return the options for model, session and permissions, and the variables that go with them."""
    options, env = [], {}
    if order.model:
        options.append(f"--model={order.model}")
    if order.session:
        options.append(f"--resume={order.session}")
    if order.permissions == "skip":
        options.append("--dangerously-skip-permissions")
        env["IS_SANDBOX"] = "1"  # claude refuses to skip permissions for root without it
    return options, env


def _line(content: str | list[dict[str, str]]) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


def _config(env: Mapping[str, str]) -> str:
    return env.get("CLAUDE_CONFIG_DIR") or f"{env.get('HOME', '')}/.claude"
