"""Tool calls that only hand in, discuss the task or plan. They are no work: a run with nothing else did nothing."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from fleet.engine.scope.shell import OUTPUT, Simple, parse

if TYPE_CHECKING:
    from typing import Any

    from fleet.engine.scope.shell import Word

#: Keys of a tool's input for the command to run.
COMMAND_KEYS = ("command", "cmd", "script", "argv", "code", "commands")
#: The content of this file is the agent's claim and no evidence. Of a tool's input only the text before the name
#: counts.
RESULT = "result.json"
#: Tools for the agent's own plan.
_PLANNING = frozenset(("todowrite", "todo_write", "write_todos", "update_plan", "updateplan", "think"))
#: Verbs of bd about an existing task. `create`, `dep` and similar verbs are the work of an agent that plans.
_VERBS = frozenset(
    (
        *("close", "done", "update", "show", "view", "list", "ready", "comment", "comments", "note", "tag", "label"),
        *("prime", "info", "where", "status", "stats", "count", "search", "version", "help", "assign", "priority"),
    )
)
#: Programs that change nothing and reveal nothing.
_IDLE = frozenset(
    ("echo", "printf", "true", "false", ":", "cd", "sleep", "exit", "export", "set", "date", "pwd", "wait")
)
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PATHS = ("file_path", "filePath", "path", "absolute_path", "filename")
_FOLDER = "FLEET_ARTIFACT_DIR"
DEEPEST = 4


def is_formality(tool: str, data: dict[str, Any], task_id: str) -> bool:
    """Return True if a tool call certainly only hands in, discusses the task or plans."""
    if tool.lower() in _PLANNING:
        return True
    commands = [found for key in COMMAND_KEYS if (found := data.get(key))]
    if commands:
        return all(_is_formal(command, task_id) for command in commands)
    return any(_is_result(str(data[key]), task_id) for key in _PATHS if data.get(key)) and "content" in data


def _is_formal(command: object, task_id: str) -> bool:
    if isinstance(command, str):
        return _is_idle(command, task_id, DEEPEST)
    if not isinstance(command, list):
        return False
    words = [str(each) for each in command]
    return _is_simple(words, task_id, DEEPEST)


def _is_idle(line: str, task_id: str, depth: int) -> bool:
    """Return True if each command of a shell line is a formality. An unclear line is not a formality."""
    if depth == 0:
        return False
    for each in parse(line):
        if not isinstance(each, Simple):
            continue
        nested = [piece.text for word in each.words for piece in word if piece.kind == OUTPUT]
        if not all(_is_idle(text, task_id, depth - 1) for text in nested):
            return False
        writes = [redirect.target for redirect in each.redirects if ">" in redirect.operator]
        if not all(_is_nowhere(target, task_id) for target in writes):
            return False
        words = [_text(word) for word in each.words]
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        writes_result = any(_is_result(_text(target), task_id) for target in writes)
        is_result = writes_result and words == ["cat"]
        if words and not is_result and not _is_simple(words, task_id, depth):
            return False
    return True


def _is_simple(words: list[str], task_id: str, depth: int) -> bool:
    """Return True if a command is a formality."""
    name, rest = posixpath.basename(words[0]) if words else "", words[1:]
    if name in _SHELLS:
        code = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if re.fullmatch(r"-[a-z]*c", word)), None)
        return code is not None and _is_idle(code, task_id, depth - 1)
    if name in ("fleet", "flt") and rest[:1] == ["bd"]:
        name, rest = "bd", rest[1:]
    if name == "bd":
        verb = next((word for word in rest if not word.startswith("-")), "help")
        return verb in _VERBS
    return name in _IDLE


def _is_nowhere(target: Word, task_id: str) -> bool:
    """Return True if a redirection to `target` changes no file other than the agent's result."""
    path = _text(target)
    return path in ("/dev/null", "/dev/stderr", "/dev/stdout") or path.isdigit() or _is_result(path, task_id)


def _is_result(path: str, task_id: str) -> bool:
    folder, name = posixpath.split(path)
    return name == RESULT and (_FOLDER in folder or folder.endswith(f"/{task_id}/artifacts"))


def _text(word: Word) -> str:
    return "".join(piece.text for piece in word)
