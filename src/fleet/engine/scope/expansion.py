"""Expand the words of a command as a shell would, as far as possible without running anything.

A mark in the text stands for an unknown part, another for a part that can be any name.
"""

# ruff: noqa: PTH118, PTH119, PTH120
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.record import Record
from fleet.engine.scope.shell import OUTPUT, TEXT, VARIABLE, Simple, parse

if TYPE_CHECKING:
    from fleet.engine.scope.bounds import Bounds
    from fleet.engine.scope.shell import Word

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


class State(Record):
    """The state of a shell at one point of a command line."""

    cwd: str | None  # None if unknown
    before: str | None = None  # the directory before this one
    variables: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed
    links: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed; links that were created, with their targets
    unsure: bool = False  # a branch of the line that may not run changed the directory
    made: tuple[str, ...] = ()  # repositories that were created

    def with_value(self, name: str, value: str) -> State:
        """Return the state after an assignment."""
        return self.replace(variables={**self.variables, name: value[:LONGEST_VALUE]})

    def gone_to(self, cwd: str | None) -> State:
        """Return the state after a change of directory."""
        return self.replace(cwd=cwd, before=self.cwd)


class Where(NamedTuple):
    """The target of a path: exactly this path, or a path somewhere below."""

    path: str
    exact: bool
    every: bool = False  # everything in it, by `*`


def expand(word: Word, state: State, bounds: Bounds, depth: int = 0) -> list[str]:
    """Return the expansion of a word: one text, or several if the word has braces."""
    parts = []
    for place, piece in enumerate(word):
        if piece.kind == TEXT:
            plain = piece.text
            if not place and plain.startswith("~"):
                plain = _from_home(plain, bounds)
            parts.append(plain.translate(_UNQUOTED))
        elif piece.kind == VARIABLE:
            parts.append(value_of(piece.text, state, bounds))
        elif piece.kind == OUTPUT:
            parts.append(_output(piece.text, state, bounds, depth))
        else:
            parts.append(piece.text)
    return [each.translate(_PLAIN) for each in _without_braces("".join(parts)[:LONGEST_VALUE])]


def value_of(name: str, state: State, bounds: Bounds) -> str:
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


def resolve(text: str, state: State) -> Where | None:
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
    return Where(_through(found, state.links), exact, every) if len(found) <= LONGEST_VALUE else None


def _through(path: str, links: dict[str, str]) -> str:
    for link, target in links.items():
        if path == link or path.startswith(link + "/"):
            return target + path[len(link) :]
    return path


def _from_home(text: str, bounds: Bounds) -> str:
    user, slash, rest = text[1:].partition("/")
    if not user:
        return (bounds.home or VAGUE) + slash + rest
    return text if not user.isidentifier() else VAGUE + slash + rest


def _without_braces(text: str) -> list[str]:
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


def _output(text: str, state: State, bounds: Bounds, depth: int) -> str:
    """Return the output of a command, for the few commands that only print paths."""
    commands = [each for each in parse(text) if isinstance(each, Simple)] if depth < DEEPEST else []
    if len(commands) != 1 or not commands[0].words:
        return VAGUE
    words = [made for word in commands[0].words for made in expand(word, state, bounds, depth + 1)]
    if words == ["cat"] and (document := "".join(each.text for each in commands[0].redirects)):
        return document
    return _printed(os.path.basename(words[0]), words[1:], state, bounds)


def _printed(program: str, words: list[str], state: State, bounds: Bounds) -> str:
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
            return _told_by_git(words, state, bounds)
    return VAGUE


def _told_by_git(words: list[str], state: State, bounds: Bounds) -> str:
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
