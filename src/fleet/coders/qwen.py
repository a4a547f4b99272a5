"""Qwen Code: claude's stream from a fork of gemini, with some differences."""

from __future__ import annotations

import glob
import json
import re
from typing import TYPE_CHECKING

from fleet.coders.base import RESUME, SAME_CWD, Coder, Command
from fleet.coders.claude.stream import Dialect, events
from fleet.coders.refusals import refusal
from fleet.coders.said import count, table
from fleet.core.event import Event, Kind, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.coders.base import Order
    from fleet.coders.said import Said

ARGV = ("qwen", "--output-format=stream-json")
ENV = {
    "QWEN_CODE_NO_RELAUNCH": "true",  # otherwise a second process outlives the first one when the first is signalled
    "QWEN_CODE_UNATTENDED_RETRY": "",  # otherwise it would wait for hours
}
DEFAULTS = "qwen-defaults.json"
#: Defaults below the user's own settings. Without them each of its seven attempts makes four requests.
SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "model": {"generationConfig": {"maxRetries": 0}},
    "security": {"auth": {"selectedType": "openai"}},  # a key in the environment alone would not select it
}
CANCELLED = 130


class QwenCoder(Coder, Dialect):
    """Adapter for `qwen`.

    fleet does not use its schema option (`--json-schema`): qwen fails finished work if the model only says that it is
    done. qwen also reads messages on stdin, but answers them only after the task. An interruption on stdin ends the
    session's turn for good. So fleet interrupts qwen by a signal and resumes the session.
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
        """Return the complaint on stderr. If qwen refuses to start, only stderr has the reason.

        Return None after an interruption.
        """
        complaint = stderr.strip()
        if not status or status == CANCELLED:
            return None
        return refusal(complaint[-1000:]) or Event(kind=Kind.ERROR, text=complaint[-300:])

    def window(self, model: str) -> int | None:
        return None

    def config_env(self, folder: str) -> dict[str, str]:
        return {"QWEN_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables of a key, and the files that its own login or the choice of a provider creates."""
        home = _home(env)
        return ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", f"{home}/oauth_creds.json", f"{home}/settings.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return the session's own file, in a folder named after the directory."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        return f"{glob.escape(_home(env))}/projects/{re.sub('[^a-zA-Z0-9]', '-', cwd)}/chats/{session}.jsonl"

    def tokens(self, told: Said) -> tuple[int, int, int, int]:
        """Return tokens counted the way OpenAI does: the reported input includes the cached part."""
        read = count(told, "cache_read_input_tokens")
        return max(count(told, "input_tokens") - read, 0), count(told, "output_tokens"), read, 0

    def total(self, said: Said) -> Usage | None:
        """Return the tokens of the whole session, including earlier processes."""
        fresh, output, read, written = self.tokens(table(said, "usage"))
        return Usage(input=fresh, output=output, cache_read=read, cache_write=written, total=True, session=True)


def _home(env: Mapping[str, str]) -> str:
    return env.get("QWEN_HOME") or f"{env.get('HOME', '')}/.qwen"
