"""Expand the words of a command as a shell would, as far as possible without running anything.

A mark in the text stands for an unknown part, another for a part that can be any name.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.record import Record
from fleet.proof.scope.shell import OUTPUT, TEXT, VARIABLE, Simple, parse

if TYPE_CHECKING:
    from fleet.proof.scope.bounds import WriteBounds
    from fleet.proof.scope.shell import Word


# ruff: noqa: PTH118, PTH119, PTH120


#: Marks in a text: a variable without a known value, a value that was set but is unknown, and any name.
UNKNOWN, VAGUE, ANY = "\0", "\1", "\2"
_OPEN, _COMMA, _CLOSE = "\3", "\4", "\5"
_UNQUOTED = str.maketrans({"*": ANY, "?": ANY, "[": ANY, "{": _OPEN, ",": _COMMA, "}": _CLOSE})
_PLAIN = str.maketrans({_OPEN: "{", _COMMA: ",", _CLOSE: "}"})
_MARKS = re.compile(f"[{UNKNOWN}{VAGUE}{ANY}]")
_BRACES = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_DEFAULT = re.compile(r"(\w+):?[-=](.*)", re.DOTALL)
#: Maximum number of names from one word, and maximum depth of commands within commands.
MOST_NAMES, DEEPEST = 32, 3
#: Longer than any path.
LONGEST_VALUE = 4096


class ShellState(Record):
    """The state of a shell at one point of a command line."""

    cwd: str | None  # None if unknown
    before: str | None = None  # the directory before this one
    variables: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed
    links: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed; links that were created, with their targets
    unsure: bool = False  # a branch of the line that may not run changed the directory
    made: tuple[str, ...] = ()  # repositories that were created

    def with_value(self, name: str, value: str) -> ShellState:
        """Return the state after an assignment."""
        return self.replace(variables={**self.variables, name: value[:LONGEST_VALUE]})

    def gone_to(self, cwd: str | None) -> ShellState:
        """Return the state after a change of directory."""
        return self.replace(cwd=cwd, before=self.cwd)


class Where(NamedTuple):
    """The target of a path: exactly this path, or a path somewhere below."""

    path: str
    exact: bool
    every: bool = False  # everything in it, by `*`


def expand(word: Word, state: ShellState, bounds: WriteBounds, depth: int = 0) -> list[str]:
    """Return the expansion of a word: one text, or several if the word has braces."""
    parts = []
    for place, piece in enumerate(word):
        if piece.kind == TEXT:
            plain = piece.text
            if not place and plain.startswith("~"):
                plain = _expand_home(plain, bounds)
            parts.append(plain.translate(_UNQUOTED))
        elif piece.kind == VARIABLE:
            parts.append(value_of(piece.text, state, bounds))
        elif piece.kind == OUTPUT:
            parts.append(_predict_output(piece.text, state, bounds, depth))
        else:
            parts.append(piece.text)
    return [each.translate(_PLAIN) for each in _expand_braces("".join(parts)[:LONGEST_VALUE])]


def value_of(name: str, state: ShellState, bounds: WriteBounds) -> str:
    """Return the value of a variable as far as known, also for `${NAME:-other}`."""
    if name in state.variables:
        return state.variables[name]
    if name == "PWD":
        return state.cwd or VAGUE
    if name == "OLDPWD":
        return state.before or VAGUE
    if name in bounds.variables:
        return bounds.variables[name]
    if name == "TMPDIR":
        return "/tmp"
    if match := _DEFAULT.fullmatch(name):
        known = value_of(match[1], state, bounds)
        return match[2] if known == UNKNOWN else known
    if not name[:1].isalpha() and name[:1] != "_":
        return VAGUE  # arguments of a script, a length, a number
    return UNKNOWN if name.isidentifier() else VAGUE


def resolve(text: str, state: ShellState) -> Where | None:
    """Return the target of a path. Return None if it is unknown."""
    if not text or text[0] in (UNKNOWN, VAGUE) or (not text.startswith("/") and state.cwd is None):
        return None
    path = [] if text.startswith("/") else [part for part in (state.cwd or "").split("/") if part]
    exact, every = True, False
    for part in text.split("/"):
        if not exact:
            if part == "..":
                return None
        elif _MARKS.search(part):
            exact, every = False, part == ANY
        elif part == "..":
            path = path[:-1]
        elif part not in ("", "."):
            path.append(part)
    found = "/" + "/".join(path)
    return Where(_follow_links(found, state.links), exact, every) if len(found) <= LONGEST_VALUE else None


def _follow_links(path: str, links: dict[str, str]) -> str:
    for link, target in links.items():
        if path == link or path.startswith(link + "/"):
            return target + path[len(link) :]
    return path


def _expand_home(text: str, bounds: WriteBounds) -> str:
    user, slash, rest = text[1:].partition("/")
    if not user:
        return (bounds.home or VAGUE) + slash + rest
    return text if not user.isidentifier() else VAGUE + slash + rest


def _expand_braces(text: str) -> list[str]:
    """Expand braces: `a{b,c}` becomes two words. At most MOST_NAMES words are expanded."""
    done: list[str] = []
    waiting = [text]
    while waiting and len(done) + len(waiting) <= MOST_NAMES:
        one = waiting.pop()
        match = next((found for found in _BRACES.finditer(one) if _COMMA in found[1]), None)
        if match is None:
            done.append(one)
        else:
            waiting += [one[: match.start()] + each + one[match.end() :] for each in match[1].split(_COMMA)]
    return [*done, *waiting]


def _predict_output(text: str, state: ShellState, bounds: WriteBounds, depth: int) -> str:
    """Return the output of a command, for the few commands that only print paths."""
    commands = [each for each in parse(text) if isinstance(each, Simple)] if depth < DEEPEST else []
    if len(commands) != 1 or not commands[0].words:
        return VAGUE
    words = [made for word in commands[0].words for made in expand(word, state, bounds, depth + 1)]
    if words == ["cat"] and (document := "".join(each.text for each in commands[0].redirects)):
        return document
    return _predict_print(os.path.basename(words[0]), words[1:], state, bounds)


def _predict_print(program: str, words: list[str], state: ShellState, bounds: WriteBounds) -> str:
    operands = [word for word in words if not word.startswith("-")]
    match program:
        case "pwd":
            return state.cwd or VAGUE
        case "echo" | "printf":
            return " ".join(operands[1:] if "%" in "".join(operands[:1]) else operands)
        case "realpath" | "readlink" | "dirname" if operands:
            found = resolve(operands[-1], state)
            path = found.path if found and found.exact else VAGUE
            return os.path.dirname(path) if program == "dirname" and path != VAGUE else path
        case "mktemp":
            named = next((word for word in operands if "/" in word), "")
            return named or f"{bounds.variables.get('TMPDIR', '/tmp')}/{VAGUE}"
        case "git":
            return _predict_git_output(words, state, bounds)
    return VAGUE


def _predict_git_output(words: list[str], state: ShellState, bounds: WriteBounds) -> str:
    if words[:1] != ["rev-parse"]:
        return VAGUE
    inside = state.cwd is not None and (state.cwd + "/").startswith(bounds.workspace + "/")
    if "--git-common-dir" in words:
        return bounds.common or VAGUE
    if "--git-path" in words:
        return os.path.join(bounds.common, words[-1]) if bounds.common else VAGUE
    if "--show-toplevel" in words and inside:
        return bounds.workspace
    if {"--git-dir", "--absolute-git-dir"}.intersection(words) and inside:
        return bounds.admin or bounds.common or VAGUE
    return VAGUE


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
        words, replaced = _strip_wrapper(words, env)
        if name in ("xargs", "parallel"):
            if replaced or name == "parallel":
                mark = replaced or "{}"
                words = [word.replace(mark, piped[0]) if piped else word for word in words]
            more = piped if not replaced else []
    return words, env, more


def _strip_wrapper(words: list[str], env: dict[str, str]) -> tuple[list[str], str]:
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
