"""Unwrap commands that run other commands or pass paths to them."""

from __future__ import annotations

import re

#: Arguments of a wrapper before the command: its options with a value, and the number of its own operands.
_WRAPPERS: dict[str, tuple[tuple[str, ...], int]] = {
    "sudo": (("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group", "--chdir"), 0),
    "doas": (("-u", "-C"), 0),
    "env": (("-u", "--unset", "-C", "--chdir", "-S"), 0),
    "nohup": ((), 0),
    "nice": (("-n", "--adjustment"), 0),
    "ionice": (("-c", "-n", "-p"), 0),
    "time": (("-f", "-o"), 0),
    "timeout": (("-s", "-k", "--signal", "--kill-after"), 1),
    "stdbuf": (("-i", "-o", "-e"), 0),
    "setsid": ((), 0),
    "command": ((), 0),
    "builtin": ((), 0),
    "exec": (("-a",), 0),
    "chronic": ((), 0),
    "unbuffer": ((), 0),
    "busybox": ((), 0),
    "caffeinate": ((), 0),
    "flock": (("-w", "-E"), 1),
    "xargs": (("-n", "-P", "-I", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs", "--replace"), 0),
    "parallel": (("-j", "--jobs", "-I"), 0),
}
#: `uv run X`, `poetry run X` …
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "pdm": "run", "hatch": "run", "bundle": "exec", "rye": "run"}
_SETTING = re.compile(r"[A-Za-z_]\w*=")
MOST = 12


def unwrapped(words: list[str], piped: list[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the wrapped command, the variables that wrappers set, and the paths that wrappers append."""
    env: dict[str, str] = {}
    more: list[str] = []
    for _ in range(MOST):
        name = words[0].rpartition("/")[2] if words else ""
        if name in _RUNNERS and _RUNNERS[name] in words[1:2]:
            words = words[2:]
            continue
        if name not in _WRAPPERS or (name == "command" and words[1:2] in (["-v"], ["-V"])):
            break
        words, replaced = _behind(words, env)
        if name in ("xargs", "parallel"):
            if replaced or name == "parallel":
                mark = replaced or "{}"
                words = [word.replace(mark, piped[0]) if piped else word for word in words]
            more = piped if not replaced else []
    return words, env, more


def _behind(words: list[str], env: dict[str, str]) -> tuple[list[str], str]:
    """Return the words after one wrapper, and the mark that stands for its input."""
    valued, own = _WRAPPERS[words[0].rpartition("/")[2]]
    rest, mark = words[1:], ""
    while rest and (rest[0].startswith("-") or (own and not rest[0].startswith("-")) or _SETTING.match(rest[0])):
        word = rest.pop(0)
        if not word.startswith("-") and _SETTING.match(word):
            name, _, value = word.partition("=")
            env[name] = value
        elif not word.startswith("-"):
            own -= 1
        elif word == "--":
            break
        elif word in valued and rest:
            value = rest.pop(0)
            mark = value if word in ("-I", "--replace") else mark
        elif word.startswith("-I"):
            mark = word[2:] or "{}"
        elif word == "-i":
            mark = "{}"
    return rest, mark


def searched(program: str, words: list[str]) -> list[str]:
    """Return the paths that contain the names that a program prints."""
    if program in ("find", "fd"):
        rest = [word for word in words if word not in ("-L", "-H", "-P")]
        roots = rest[: next((n for n, word in enumerate(rest) if word[:1] in ("-", "(", "!")), len(rest))]
        return roots or ["."]
    operands = [word for word in words if not word.startswith("-")]
    if program in ("ls", "echo", "printf", "realpath", "readlink", "dirname"):
        return operands
    if program in ("grep", "egrep", "rg", "ag"):
        return operands[1:]
    return []


def fed(program: str, words: list[str], document: str, before: str) -> str:
    """Return the output of a program that prints its arguments or its input."""
    if program in ("echo", "printf"):
        return " ".join(word for word in words if word not in ("-n", "-e", "-en", "%s", "%s\\n"))
    return document or before if program in ("cat", "tee") else ""
