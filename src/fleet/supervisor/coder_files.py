"""Project files from which coders run commands without asking: find them, describe them, compare with trusted digests.

Each coder names its files (`Coder.project_files`). The files come with a repository, so anyone may have written them,
and agents can change them. Each file is known by its name and the hash of its bytes.
"""

# ruff: noqa: PTH111, PTH116, PTH118, PTH119, PTH120, PTH208
from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from fleet import coders
from fleet.core.errors import BadInput
from fleet.core.record import Record
from fleet.files import read_small
from fleet.git.repository import Repository
from fleet.proof.baseline import spawn_of
from fleet.settings.trusted import digest, list_known_digests
from fleet.supervisor.trust import trusted_digests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    from fleet.coders.base import Coder
    from fleet.core.run import Run
    from fleet.core.workspace import Workspace
    from fleet.home import Home
    from fleet.settings import Settings
    from fleet.store.base import Store

#: Files of programs without a coder in fleet, for custom coders that name no files.
OTHERS = (
    *(".kiro/**", ".cursor/**", ".amp/**", ".factory/**", ".augment/**", ".continue/**", ".goose/**", ".vibe/**"),
    *(".aider.conf.yml", ".crush.json", "crush.json", ".agents/**"),
)
#: Key in a run's record for the untrusted files that its agent left.
LEFT = "coder_files"
MOST_FILES = 2_000
LONGEST_FILE = 8 << 20
MOST_LINES, LONGEST_LINE = 30, 200
#: Folders that package managers and git fill.
PASSED_OVER = ("node_modules", ".git")
#: Instructions for a model run nothing, unless they name commands, hooks, servers or tools allowed without asking.
INSTRUCTIONS = (".md", ".mdc", ".mdx", ".txt")
ACTING = re.compile(r"^\s*[\"']?(hooks|mcp[-_]?servers?|permission[-_a-z]*|allowed[-_]tools)[\"']?\s*:|!`", re.I | re.M)
#: Variables that send keys elsewhere or make a program load code.
VARIABLES = re.compile(
    r"^\s*(export\s+)?(GEMINI|GOOGLE|QWEN|OPENAI|DASHSCOPE|ANTHROPIC|NODE_|LD_|DYLD_|PATH\b|BASH_ENV|PYTHON"
    r"|https?_proxy|all_proxy|SSL_CERT)",
    re.I | re.M,
)
#: Settings that run nothing and allow nothing to run.
HARMLESS = (
    *("$schema", "theme", "language", "attribution", "includeCoAuthoredBy", "cleanupPeriodDays", "spinnerTipsEnabled"),
    *("permissions.deny", "permissions.ask"),
)
_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.S)
_COMMAS = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


class CoderFile(Record):
    """A file from which a coder runs commands, or which allows commands to run."""

    folder: str  # a folder of the project or one above it
    name: str  # path below the folder
    sha256: str
    pattern: str  # the pattern that matched the file
    does: tuple[str, ...] = ()  # the settings that may run something, if the file can be read
    more: int = 0  # how many more such settings exist

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.name)

    @property
    def line(self) -> str:
        """Return the text whose digest is trusted."""
        return f"{self.name}: sha256 {self.sha256}"


def patterns_of(coder: Coder, settings: Settings) -> tuple[str, ...]:
    """Return globs of the files from which a coder runs commands. If it names none, return those of all coders."""
    own = settings.coders.get(coder.name)
    if own is not None and own.project_files is not None:
        return own.project_files
    return coder.project_files if coder.project_files is not None else every_pattern()


@lru_cache(maxsize=1)
def every_pattern() -> tuple[str, ...]:
    """Return globs of the files of all programs that fleet knows."""
    known = (coders.load(name).project_files or () for name in coders.CODERS)
    return tuple(dict.fromkeys((*(pattern for each in known for pattern in each), *OTHERS)))


def trusted_in(store: Store, workspace: Workspace | None) -> set[str]:
    """Return the digests in the database of what is trusted in a worktree's repository."""
    if workspace is None:
        return set()
    return set(trusted_digests(store, Repository(top=workspace.repo, common=workspace.common)))


def left_by(run: Run) -> set[str]:
    """Return the digests of the files that were untrusted at the end of a run."""
    left = spawn_of(run).get(LEFT)
    return set(left) if isinstance(left, list) else set()


def untrusted_files(home: Home, cwd: str, patterns: Collection[str], known: Collection[str] = ()) -> list[CoderFile]:
    """Return the files for a coder in `cwd` that the user has not trusted. Digests in `known` count as trusted."""
    found = files_for(cwd, patterns)
    trusted = list_known_digests(home) if found else frozenset()
    return [each for each in found if digest(each.line) not in trusted and digest(each.line) not in known]


def files_for(cwd: str, patterns: Collection[str]) -> list[CoderFile]:
    """Return the files that matter to a coder that works in `cwd`: those in the folder and in all folders above it.

    The user's home folder is left out: it is no project. Coders differ in how far up they look, so the search does not
    stop at the top of the repository.
    """
    found: dict[str, CoderFile] = {}
    own, folder = os.path.realpath(os.path.expanduser("~")), os.path.realpath(cwd)
    while True:
        if folder != own:
            for pattern in patterns:
                for name in _names(folder, pattern):
                    path = os.path.join(folder, name)
                    if path not in found and (file := _looked_at(folder, name, pattern)):
                        found[path] = file
        folder, before = os.path.dirname(folder), folder
        if folder == before:
            return list(found.values())


def _names(folder: str, pattern: str) -> Iterator[str]:
    """Yield the files in a folder that match a pattern: a path, a path ending in a glob, or `base/**[/glob]`."""
    base, deep, last = pattern.partition("/**")
    if deep:
        yield from _below(folder, base, last.lstrip("/") or "*")
    elif "*" in pattern:
        parent, _, last = pattern.rpartition("/")
        yield from (os.path.join(parent, name) for name in _listed(folder, parent) if fnmatchcase(name, last))
    elif os.path.lexists(os.path.join(folder, pattern)):
        yield pattern


def _below(folder: str, base: str, last: str) -> Iterator[str]:
    """Yield the files below a folder. If the folder has too many files, yield the folder itself last.

    Links to folders are followed, as programs do. Each folder is visited once.
    """
    todo, seen, count = [base], set(), 0
    while todo:
        place = todo.pop()
        try:
            found = os.stat(os.path.join(folder, place))
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in seen:
            continue
        seen.add((found.st_dev, found.st_ino))
        for name in _listed(folder, place):
            path = os.path.join(place, name)
            if os.path.isdir(os.path.join(folder, path)):  # noqa: PTH112
                todo += [path] if name not in PASSED_OVER else []
                continue
            if not fnmatchcase(name, last):
                continue
            count += 1
            if count > MOST_FILES:
                yield base
                return
            yield path


def _listed(folder: str, place: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(folder, place)))
    except OSError:
        return []


def _looked_at(folder: str, name: str, pattern: str) -> CoderFile | None:
    """Return the file, or None if nothing in it runs anything.

    Return a folder only if it has too many files to be trusted.
    """
    path = os.path.join(folder, name)
    if os.path.isdir(path):  # noqa: PTH112
        never, why = os.urandom(32).hex(), f"more than {MOST_FILES} files"
        return CoderFile(folder=folder, name=name, sha256=never, pattern=pattern, does=(why,))
    try:
        data = read_small(path, LONGEST_FILE)
    except (BadInput, OSError) as error:  # identify the file by its inode data, because it cannot be read
        return CoderFile(folder=folder, name=name, sha256=_of_place(path), pattern=pattern, does=(str(error),))
    text = data.decode("utf-8", "replace")
    lines = _lines(name, text)
    if lines is None:
        is_idle = name.endswith(INSTRUCTIONS) and not ACTING.search(text)
        is_idle = is_idle or (os.path.basename(name) == ".env" and not VARIABLES.search(text))
        lines = []
        if is_idle or not text.strip():
            return None
    elif not lines:
        return None
    sha256 = hashlib.sha256(data).hexdigest()
    does, more = tuple(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES)
    return CoderFile(folder=folder, name=name, sha256=sha256, pattern=pattern, does=does, more=more)


def _of_place(path: str) -> str:
    try:
        found = os.lstat(path)
    except OSError:
        return digest("gone")
    return digest(repr((found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_ctime_ns)))


def _lines(name: str, text: str) -> list[str] | None:
    """Return the settings in a file that may run something, one per line. Return None if the file holds no settings."""
    try:
        if name.endswith((".json", ".jsonc")):
            told = _json(text)
        elif name.endswith(".toml"):
            told = tomllib.loads(text)
        else:
            return None
    except (ValueError, RecursionError):
        return None
    return [f"{key} = {value}"[:LONGEST_LINE] for key, value in _leaves(told, "") if not _is_harmless(key)]


def _json(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError:  # comments and trailing commas, which some programs allow
        return json.loads(_COMMAS.sub(lambda found: found[1] or "", _COMMENTS.sub(lambda found: found[1] or "", text)))


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for inner in value:
            yield from _leaves(inner, key)
    elif isinstance(value, list):
        yield from ([(key, " ".join(map(str, value)))] if value else [])
    else:
        yield key, str(value)


def _is_harmless(key: str) -> bool:
    return any(key == known or key.startswith(f"{known}.") for known in HARMLESS)


def told(files: Iterable[CoderFile]) -> str:
    """Return the names of files for use in a sentence."""
    names = list(dict.fromkeys(each.name for each in files))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
