"""The tools of CLIs that run a command or write a file, and their arguments."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from model_server.scenario import Turn

Arguments = dict[str, Any]

#: The shell of each CLI, by the name of the tool.
SHELLS: dict[str, Callable[[str], Arguments]] = {
    "Bash": lambda command: {"command": command, "description": "scripted"},  # claude
    "exec_command": lambda command: {"cmd": command, "yield_time_ms": 30_000},  # codex
    "shell_command": lambda command: {"command": command},  # codex, for unknown models
    "bash": lambda command: {"command": command, "description": "scripted"},  # opencode, pi, copilot
    "run_shell_command": lambda command: {"command": command, "description": "scripted"},  # gemini, qwen
}

#: The tool that writes a whole file, by its name.
WRITERS: dict[str, Callable[[str, str], Arguments]] = {
    "Write": lambda path, content: {"file_path": path, "content": content},  # claude
    "apply_patch": lambda path, content: {"input": patch(path, content)},  # codex
    "write": lambda path, content: {"filePath": path, "path": path, "content": content},  # opencode; pi
    "write_file": lambda path, content: {"file_path": path, "content": content},  # gemini; qwen
    "create": lambda path, content: {"path": path, "file_text": content},  # copilot
}


class NotOffered(LookupError):
    """An error: a turn needs a tool or words that the request does not offer."""


def call_for(turn: Turn, offered: Mapping[str, str]) -> tuple[str, Arguments] | None:
    """Return the tool call of a turn in the form of the calling CLI, or None if the turn has none.

    Raises NotOffered.
    """
    if turn.shell:
        name = _first(SHELLS, offered, "a shell")
        return name, SHELLS[name](turn.shell)
    if turn.write:
        name = _first(WRITERS, offered, "a tool that writes files")
        return name, WRITERS[name](turn.write, turn.content)
    if turn.tool:
        return _first({turn.tool: None}, offered, turn.tool), dict(turn.arguments)
    return None


def with_heard(turn: Turn, text: str) -> Turn:
    """Return a turn whose call includes the arguments found in the text of the request. Raises NotOffered."""
    given = dict(turn.arguments)
    for name, pattern in turn.heard.items():
        found = list(dict.fromkeys(match[1] for match in re.finditer(pattern, text)))
        if not found:
            raise NotOffered(f"the turn wants {name} as {pattern}, and the request does not have it")
        given[name] = found if isinstance(given.get(name), list) else found[-1]
    return turn._replace(arguments=given)


def patch(path: str, content: str) -> str:
    """Return a new file in the form of codex's apply_patch."""
    lines = "".join(f"+{line}\n" for line in content.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"


def _first(known: Mapping[str, object], offered: Mapping[str, str], what: str) -> str:
    for name in known:
        if name in offered:
            return name
    raise NotOffered(f"the turn wants {what}, and the request offers only: {', '.join(offered) or 'nothing'}")
