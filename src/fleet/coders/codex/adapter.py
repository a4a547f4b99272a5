"""Codex: `codex exec --json`, and the session's file, which alone reports context and account limits.

In a terminal all events come from that file, see `codex_session`.

fleet cannot limit the provider's retries. They are settings of the provider: the built-in provider rejects changes, and
only the user's config names any other. So each reconnection is reported as the limit that caused it. fleet sees the
limit long before codex gives up.
"""

from __future__ import annotations

import glob
import json
import os
import re
import signal
from typing import TYPE_CHECKING

from fleet.coders.base import ANYWHERE, BUSY, LONGEST_ARGUMENT, QUESTION, READY, RESUME, Coder, Command
from fleet.coders.codex.session import LONGEST_COMPLAINT, begun, refused, session_events, transcript_events, usage
from fleet.coders.said import decoded, read_by_type, table, tables, text
from fleet.core.event import Event, Kind
from fleet.core.result_schema import HANDED_IN, SCHEMA, looks_handed_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fleet.coders.base import Order
    from fleet.coders.said import Said

OPTIONS = ("--json", "--skip-git-repo-check")  # a task may be outside of any repository
SKIP = "--dangerously-bypass-approvals-and-sandbox"
#: A login shell would reset PATH on most systems, and the agent's tools would not find `bd`. User options can override
#: it.
BY_SCHEMA, SCHEMA_FILE = "--output-schema", "result_schema.json"
PLAIN_SHELL = ("-c", "allow_login_shell=false")
#: Lines examined, counted from the end of the screen.
LOOKED_AT = 60
LONGEST_LINE = 400
MOST_BELOW = 5  # lines below the input
#: Models for which codex offers a newer one at every start, until its config records the notice.
MIGRATIONS = {"gpt-5.5": "gpt-6-sol"}
_EMPTY = "Ask Codex to do anything"
_HINT = "? for shortcuts"  # only while nothing is typed
_KEYS = re.compile(
    r"\s*(?:press )?(?:enter|esc|y|ctrl\+c)\b.{0,80}\b(?:confirm|select|back|cancel|quit|continue|submit|exit)\b.*",
    re.I,
)
_AT_WORK = re.compile(r"\s*[•◦] .{0,200}\besc to interrupt\b.*")


class CodexCoder(Coder):
    """Adapter for `codex exec`."""

    name = "codex"
    program = "codex"
    short_names = ("",)
    project_files = (".codex/**",)
    stop_steps = (signal.SIGINT, signal.SIGTERM)  # only SIGINT makes it end the running tool
    tells_context = True
    steering = RESUME
    resumes = ANYWHERE
    trusts_by_option = True
    #: Not all of CODEX_*: codex passes some of them to its tools, and fleet may be such a tool.
    reads_env = (
        *("CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE"),
        *("OPENAI_*", "AZURE_OPENAI_*"),
    )

    def command(self, order: Order) -> Command:
        """Return the command, user options first: an option that takes many values ends at the next option."""
        argv = ["codex", "exec", *PLAIN_SHELL, *order.flags, *OPTIONS]
        if order.permissions == "skip":
            argv.append(SKIP)
        if order.model:
            argv.append(f"--model={order.model}")
        files = {}
        if order.wants_result and order.folder and not any(flag.startswith(BY_SCHEMA) for flag in order.flags):
            argv.append(f"{BY_SCHEMA}={order.folder}/{SCHEMA_FILE}")
            files[SCHEMA_FILE] = json.dumps(SCHEMA)
        if order.session:
            argv += ["resume", "--", order.session]
        else:
            argv.append("--")
        return Command(argv=(*argv, "-"), stdin=order.prompt, files=files)

    def effort(self, level: str) -> tuple[str, ...]:
        return ("-c", f"model_reasoning_effort={_toml(level)}")

    def terminal(self, order: Order) -> Command:
        """Return the command without codex's daemon, which would outlive the agent.

        A new session's id is in the first line of its new file.
        """
        argv = ["codex", *PLAIN_SHELL, *_trusting(order.trusted), *order.flags, "--no-daemon"]
        if order.permissions == "skip":
            argv.append(SKIP)
        if order.model:
            argv.append(f"--model={order.model}")
        protocol = f"developer_instructions={_toml(order.protocol)}"
        apart = bool(order.protocol) and len(protocol.encode("utf-8", "replace")) <= LONGEST_ARGUMENT
        if apart:
            argv += ["-c", protocol]
        if order.session:
            argv += ["resume", "--", order.session]
        text, files = order.typed(with_protocol=not apart)
        # codex treats "/" at the start as its own command and completes a name at the end. It drops the spaces.
        return Command(argv=tuple(argv), files=files, typed=f" {text} " if text else "", session=order.session)

    def look(self, screen: str) -> str:
        return shown(screen)

    def parse(self, line: str) -> list[Event]:
        return read_by_type(line, _READERS)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Explain the complaint on stderr. If codex does not reach a turn, only stderr has the reason."""
        if "no rollout found" in stderr:
            return Event(kind=Kind.ERROR, text="codex no longer knows the session: restart the task with a new session")
        if "unexpected argument" in stderr:
            return Event(kind=Kind.ERROR, text=f"{stderr.strip()[-300:]} (check the coder's flags, or update codex)")
        return refused(stderr[-LONGEST_COMPLAINT:]) if status else None

    def config_env(self, folder: str) -> dict[str, str]:
        """Return the variable for login, settings and sessions. The folder must exist."""
        return {"CODEX_HOME": folder}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return codex's own key variable and the file of `codex login`. codex ignores OPENAI_API_KEY alone."""
        return ("CODEX_API_KEY", f"{_home(env)}/auth.json")

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return the session's own file, below the day of its start."""
        if not re.fullmatch(r"[\w-]+", session):
            return ""
        return f"{glob.escape(_home(env))}/sessions/*/*/*/rollout-*-{session}.jsonl"

    def parse_transcript(self, line: str) -> list[Event]:
        """Return what the stream omits or reports only at its end: context, tokens, account limits, a refused patch."""
        return transcript_events(line)

    def recent_sessions(self, cwd: str, env: Mapping[str, str]) -> str:
        """Return all sessions: codex chooses their ids itself, and only the file's content has the directory."""
        return f"{glob.escape(_home(env))}/sessions/*/*/*/rollout-*.jsonl"

    def session_of(self, first_line: str) -> tuple[str, str] | None:
        """Return sessions of a terminal only, because an agent may start others in its directory."""
        return begun(first_line)

    def parse_session(self, line: str) -> list[Event]:
        return session_events(line)

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Answer offers of another model, which would block the work, and trust in the directory.

        codex asks about a worktree and would then trust the whole repository. An entry for the worktree alone is
        enough.
        """
        notice = {"hide_rate_limit_model_nudge": True, "model_migrations": MIGRATIONS}
        return {"config.toml": {"notice": notice, "projects": {cwd: {"trust_level": "trusted"}}}}


def _trusting(folder: str) -> tuple[str, ...]:
    """Return the options that make codex trust a directory in this run. codex ignores an entry for a parent."""
    if not folder:
        return ()
    return ("-c", f'projects={{{_toml(os.path.realpath(folder))}={{trust_level="trusted"}}}}')


def _toml(text: str) -> str:
    """Return a TOML string: a JSON string, except for one character."""
    return json.dumps(text.replace("\0", ""), ensure_ascii=False).replace("\x7f", "\\u007f")


def _home(env: Mapping[str, str]) -> str:
    return env.get("CODEX_HOME") or f"{env.get('HOME', '')}/.codex"


def _started(said: Said) -> list[Event]:
    return [Event(kind=Kind.SESSION_STARTED, session=text(said, "thread_id"))]


def _item_started(said: Said) -> list[Event]:
    item = table(said, "item")
    tool = _tool(item)
    return [Event(kind=Kind.TOOL_USE, tool=tool, tool_id=text(item, "id"), data=_input(item))] if tool else []


def _item_completed(said: Said) -> list[Event]:
    item = table(said, "item")
    match text(item, "type"):
        case "agent_message":
            return [_said(text(item, "text"))]
        case "reasoning":
            return [Event(kind=Kind.THINKING, text=text(item, "text"))]
        case "error":  # a warning: other lines report the error that ends a turn
            return [Event(kind=Kind.ERROR, text=text(item, "message"))]
    return _tool_result(item) if _tool(item) else []


def _said(words: str) -> Event:
    """Return an agent's message. If codex follows a schema, the last message is JSON and its summary is the text."""
    told = decoded(words) if words.startswith("{") else None
    if told is None or not looks_handed_in(told):
        return Event(kind=Kind.TEXT, text=words)
    return Event(kind=Kind.TEXT, text=text(told, "summary"), data={HANDED_IN: told})


def _tool_result(item: Said) -> list[Event]:
    tool, tool_id = _tool(item), text(item, "id")
    status, code = text(item, "status"), item.get("exit_code")
    output = text(item, "aggregated_output") or text(table(item, "error"), "message")
    # A search has no status. A command that ran and failed has one, and an exit code.
    result = Event(
        kind=Kind.TOOL_RESULT, tool=tool, tool_id=tool_id, text=output, ok=status in ("completed", "") and not code
    )
    return [result, Event(kind=Kind.DENIED, tool=tool, tool_id=tool_id)] if status == "declined" else [result]


def _tool(item: Said) -> str:
    """Return the name of the tool that an item calls. Empty if the item is not a call."""
    kind = text(item, "type")
    if kind == "mcp_tool_call":
        return f"mcp__{text(item, 'server')}__{text(item, 'tool')}"
    return kind if kind in ("command_execution", "file_change", "web_search", "collab_tool_call") else ""


def _input(item: Said) -> Said:
    if text(item, "type") == "mcp_tool_call":
        return table(item, "arguments")
    given = {name: value for name in ("command", "query", "prompt") if (value := text(item, name))}
    changes = [{"path": text(each, "path"), "kind": text(each, "kind")} for each in tables(item, "changes")]
    return given | ({"changes": changes} if changes else {})


def _complaint(said: Said) -> list[Event]:
    """Return an error that does not end the turn: codex retries, and a failed turn has its own line."""
    message = text(said, "message")
    return [refused(message) or Event(kind=Kind.ERROR, text=message)]


def _completed(said: Said) -> list[Event]:
    return [Event(kind=Kind.RESULT, ok=True, usage=usage(table(said, "usage")))]


def _failed(said: Said) -> list[Event]:
    message = text(table(said, "error"), "message")
    found = refused(message)
    return [*([found] if found else ()), Event(kind=Kind.RESULT, ok=False, text=message or "the turn failed")]


_READERS: dict[str, Callable[[Said], list[Event]]] = {
    "thread.started": _started,
    "item.started": _item_started,
    "item.completed": _item_completed,
    "error": _complaint,
    "turn.completed": _completed,
    "turn.failed": _failed,
}


def shown(screen: str) -> str:
    lines = [line[:LONGEST_LINE].rstrip() for line in screen.rstrip().split("\n")[-LOOKED_AT:]]
    if any(_KEYS.fullmatch(line) for line in lines[-2:]):
        return QUESTION
    inputs = [number for number, line in enumerate(lines) if line == "›" or line.startswith("› ")]
    if not inputs or len(lines) - inputs[-1] > MOST_BELOW:
        return ""
    typed, below = lines[inputs[-1]][1:].strip(), lines[inputs[-1] + 1 :]
    if typed not in ("", _EMPTY) and not any(_HINT in line for line in below):
        return ""  # words not sent yet
    if any(_AT_WORK.fullmatch(line) for line in lines[max(0, inputs[-1] - 20) : inputs[-1]]):
        return BUSY
    # After its start codex shows model and directory below the input.
    return READY if any(line.strip() and _HINT not in line for line in below) else ""
