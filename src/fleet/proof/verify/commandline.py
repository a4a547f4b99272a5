"""Files of the repository that a verify command names: scripts that judge, and files that its tools obey. Pure.

A program whose output the command pipes into another (`./hello | grep hi`) is judged and does not judge.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import NamedTuple

#: Words that precede the actual command.
_BEFORE = frozenset(("env", "exec", "time", "nice", "command", "sudo", "xvfb-run", "set", "!", "then", "do", "if"))
_RUN = frozenset(("uv", "poetry", "pipenv", "hatch", "pdm", "rye", "bundle", "npx", "pnpx", "bunx"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
_INTERPRETERS = re.compile(r"python[\d.]*|pypy[\d.]*|node|deno|bun|ruby|perl|php|lua|tsx|ts-node|Rscript|julia")
#: Files that a tool obeys, by the tool's name.
_OBEYED = {
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "gmake": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile", "*.rake"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "mvn": ("pom.xml", ".mvn/"),
    "gradle": ("build.gradle*", "settings.gradle*", "gradle.properties"),
    "gradlew": ("gradlew", "gradle/", "build.gradle*", "settings.gradle*", "gradle.properties"),
    "ant": ("build.xml",),
    "ctest": ("CMakeLists.txt", "*.cmake"),
    "cmake": ("CMakeLists.txt", "*.cmake"),
    "meson": ("meson.build",),
    "pre-commit": (".pre-commit-config.yaml",),
}
_JUDGES = re.compile(
    r"verif|check|test|spec|lint|valid|assert|accept|audit|smoke|(?:^|[_-])ci(?:[_.-]|$)", re.IGNORECASE
)
_SCRIPT_FOLDERS = frozenset(("tools", "scripts", "script", "ci", "bin", "hack", "build", ".github", ".ci"))
_READERS = frozenset(("tee", "cat", "tail", "head", "ts"))


class NamedFiles(NamedTuple):
    """The names in a command."""

    scripts: frozenset[str] = frozenset()  # paths in the repository of programs that judge
    obeyed: frozenset[str] = frozenset()  # globs of files that its tools obey
    modules: frozenset[str] = frozenset()  # modules of Python's `-m`
    folders: frozenset[str] = frozenset(("",))  # the folders where Python looks for modules first


def named_by(command: str) -> NamedFiles:
    """Return the names in a command line. Return empty names if the line cannot be parsed."""
    found: dict[str, set[str]] = {"scripts": set(), "obeyed": set(), "modules": set(), "folders": {""}}
    _read(command, found, depth=0)
    return NamedFiles(*(frozenset(found[name]) for name in NamedFiles._fields))


def programs_in(command: str) -> list[str]:
    """Return the programs that a command line starts, as written, including wrappers."""
    found: dict[str, None] = {}
    _add_commands(command, found, depth=0)
    return list(found)


def _add_commands(command: str, found: dict[str, None], depth: int) -> None:
    for words, _ in _split_commands(command):
        while words:
            name = words[0]
            if not re.fullmatch(r"\w+=.*", name, re.DOTALL) and not name.startswith("-"):
                found[name] = None
                if posixpath.basename(name) in _SHELLS and "-c" in words[1:-1] and depth < 3:
                    _add_commands(words[words.index("-c", 1) + 1], found, depth + 1)
            rest = _strip_prefix(words)
            words = rest if rest != words else []


def _read(command: str, found: dict[str, set[str]], depth: int) -> None:
    folder = ""
    for words, after in _split_commands(command):
        words = _strip_prefix(words)
        if not words:
            continue
        if words[0] in ("cd", "pushd") and len(words) > 1:
            folder = posixpath.normpath(posixpath.join(folder, words[1]))
            found["folders"].add("" if folder == "." else folder)
            continue
        _add_words(words, folder, found, depth, judges=after != "|")


def _add_words(words: list[str], folder: str, found: dict[str, set[str]], depth: int, *, judges: bool) -> None:
    name = posixpath.basename(words[0])
    found["obeyed"].update(_OBEYED.get(name, ()))
    if name in _SHELLS and "-c" in words[1:-1] and depth < 3:
        _read(words[words.index("-c", 1) + 1], found, depth + 1)
    elif name in _SHELLS or _INTERPRETERS.fullmatch(name):
        script = _find_script(words, found)
        if script and judges:
            _add_file(script, folder, found, surely=name in _SHELLS)
    if judges and "/" in words[0]:
        _add_file(words[0], folder, found, surely=False)


def _find_script(words: list[str], found: dict[str, set[str]]) -> str:
    """Return the file that an interpreter runs. A module is added to the modules instead."""
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            found["modules"].add(next(rest, "").partition(".")[0])
            return ""
        if word in ("-c", "-e", "--eval", "--test"):
            return ""
        if word in ("-W", "-X", "-r", "--require"):
            next(rest, "")
        elif not word.startswith("-") and word != "run":
            return word
    return ""


def _add_file(word: str, folder: str, found: dict[str, set[str]], *, surely: bool) -> None:
    path = posixpath.normpath(posixpath.join(folder, word))
    if path.startswith(("/", "..")):
        return
    above, name = posixpath.split(path)
    found["folders"].add(above)
    if surely or name.endswith((".sh", ".bash")) or _JUDGES.search(name) or {*above.split("/")} & _SCRIPT_FOLDERS:
        found["scripts"].add(path)


def _split_commands(command: str) -> list[tuple[list[str], str]]:
    """Return each simple command, with `|` if another program reads its output."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = command.split()
    found: list[tuple[list[str], str]] = []
    words: list[str] = []
    for at, token in enumerate(tokens):
        if token and not token.strip("();<>|&"):
            reader = tokens[at + 1] if at + 1 < len(tokens) else ""
            found.append((words, "|" if token in ("|", "|&") and reader not in _READERS else ""))
            words = []
        else:
            words.append(token)
    return [*found, (words, "")]


def _strip_prefix(words: list[str]) -> list[str]:
    while words:
        if re.fullmatch(r"\w+=.*", words[0], re.DOTALL) or words[0] in _BEFORE or words[0].startswith("-"):
            words = words[1:]
        elif words[0] == "timeout" and len(words) > 1:
            words = words[2:]
        elif words[0] in _RUN:
            words = words[2:] if words[1:2] in (["run"], ["exec"]) else words[1:]
        else:
            break
    return words
