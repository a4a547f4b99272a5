"""Qwen Code: claude's stream, from a program that was gemini's, with habits of its own."""

from __future__ import annotations

import glob
import json
import re
from typing import TYPE_CHECKING

from fleet.coders.base import RESUME, SAME_CWD, Coder, Command
from fleet.coders.claude_stream import Dialect, events
from fleet.coders.refusals import refusal
from fleet.coders.said import count, table
from fleet.core.event import Event, Kind, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.coders.base import Order
    from fleet.coders.said import Said

ARGV = ("qwen", "--output-format=stream-json")
ENV = {
    "QWEN_CODE_NO_RELAUNCH": "true",  # else a second process outlives the first when that one is signalled
    "QWEN_CODE_UNATTENDED_RETRY": "",  # it would wait for hours by itself
}
DEFAULTS = "qwen-defaults.json"
#: Below the user's own settings. Without it each of its seven attempts is four requests.
SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "model": {"generationConfig": {"maxRetries": 0}},
    "security": {"auth": {"selectedType": "openai"}},  # what a key in the environment alone would not select
}
CANCELLED = 130


class QwenCoder(Coder, Dialect):
    """Runs `qwen`.

    It is not held to a schema (`--json-schema`): it fails all that was done where a model only says that it is done.
    It reads messages on stdin too, but answers them only when its task is done, and an interruption there ends its
    session's turn for good: so it is interrupted by a signal, and goes on in its session.
    """

    name = "qwen"
    program = "qwen"
    short_names = ("",)
    project_files = (".qwen/**", ".mcp.json", ".env")
    tells_context = True
    steering = RESUME
    resumes = SAME_CWD
    reads_env = ("OPENAI_*", "DASHSCOPE_*", "QWEN_*")

    def command(self, order: Order) -> Command:
        argv = [*ARGV]
        if order.model:
            argv.append(f"--model={order.model}")
        if order.session:
            argv.append(f"--resume={order.session}")
        if order.permissions == "skip":
            argv.append("--approval-mode=yolo")
        env, files = dict(ENV), {}
        if order.folder:
            env["QWEN_CODE_SYSTEM_DEFAULTS_PATH"] = f"{order.folder}/{DEFAULTS}"
            files[DEFAULTS] = json.dumps(SETTINGS)
        return Command(argv=(*argv, *order.flags), env=env, stdin=order.prompt, files=files)

    def parse(self, line: str) -> list[Event]:
        return events(line, self)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Where it refuses to start, or was interrupted, it says so on stderr alone."""
        complaint = stderr.strip()
        if not status or status == CANCELLED:
            return None
        return refusal(complaint[-1000:]) or Event(kind=Kind.ERROR, text=complaint[-300:])

    def window(self, model: str) -> int | None:
        return None

    def config_env(self, folder: str) -> dict[str, str]:
        return {"QWEN_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """A key, or a file that its own login or a choice of a provider leaves."""
        home = _home(env)
        return ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", f"{home}/oauth_creds.json", f"{home}/settings.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """One file for each session, in a folder named after the directory."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        return f"{glob.escape(_home(env))}/projects/{re.sub('[^a-zA-Z0-9]', '-', cwd)}/chats/{session}.jsonl"

    def tokens(self, told: Said) -> tuple[int, int, int, int]:
        """As OpenAI counts: the input has the cached part in it."""
        read = count(told, "cache_read_input_tokens")
        return max(count(told, "input_tokens") - read, 0), count(told, "output_tokens"), read, 0

    def total(self, said: Said) -> Usage | None:
        """Of the whole session, also of earlier processes."""
        fresh, output, read, written = self.tokens(table(said, "usage"))
        return Usage(input=fresh, output=output, cache_read=read, cache_write=written, total=True, session=True)


def _home(env: Mapping[str, str]) -> str:
    return env.get("QWEN_HOME") or f"{env.get('HOME', '')}/.qwen"
