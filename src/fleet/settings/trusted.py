"""Trust in project files: settings that need the user's trust, and the record of it in the home.

A project file comes with the repository, so anyone may have written it. Only `load` needs to check trust.
"""

# ruff: noqa: PTH116, PTH120
import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fleet.core.errors import BadInput
from fleet.core.ids import sha256
from fleet.files import read_small, write_all
from fleet.home import Home, common_of
from fleet.settings.check import format_path
from fleet.settings.keys import Path
from fleet.settings.text import toml_value

COMMANDS: tuple[Path, ...] = (("setup", "commands"), ("setup", "teardown"), ("verify", "command"), ("verify", "setup"))
#: Settings that make a program run another one, pass secrets to it, or widen its access.
LEVERS: tuple[Path, ...] = (
    *(("agent", "env"), ("agent", "pass_env"), ("agent", "claude_flags")),
    *(("project", "worktree_root"), ("tmux", "socket"), ("verify", "network"), ("verify", "use")),
)
CODER_LEVERS = ("program", "flags", "env")
#: Settings that judge work or limit its cost. A project file may be stricter than the user without trust.
FINDINGS: tuple[Path, ...] = tuple(
    ("findings", name) for name in ("unverified", "no_changes", "out_of_scope", "failed_verify", "fabricated")
)
GUARDS: tuple[Path, ...] = (("verify", "protect"), ("verify", "tests"), ("verify", "runners"), ("scope", "protect"))
BUDGETS: tuple[Path, ...] = (("watchdog", "max_tokens"), ("watchdog", "max_cost_usd"))
RULES: tuple[Path, ...] = (*FINDINGS, *GUARDS, *BUDGETS, ("scope", "allow"), ("scope", "live"))
#: Replaces the project in an entry whose digest covers a whole file.
ANYWHERE = "file"
CODER: Path = ("coder",)
#: Words in options that make coders ask less often, in any spelling.
RAISING = re.compile(
    r"dangerously|bypass|yolo|full[-_]?(auto|access)|(allow|trust)[-_]?all|allow(ed)?[-_]?tools?\b|auto[-_]?approve"
    r"|auto[-_]?edit|accept[-_]?edits|dont[-_]?ask|skip[-_]?permissions|approval[-_]?policy|sandbox[-_]?(mode|perm)"
    r"|--settings|\bnever\b|(^|\s)-y(\s|$)",
    re.IGNORECASE,
)
MOST_TRUSTED = 1 << 24


class Demand(NamedTuple):
    """A setting of a project file that takes effect only after the user trusts it."""

    path: Path
    line: str


def needs_trust(path: Path, value: Any, usual: Any) -> bool:
    """Return True if a project's value for a setting requires the user's trust.

    `usual` is the value without the project file.
    """
    if path in RULES:
        return _weakens(path, value, usual)
    if path == CODER:  # an import string makes fleet itself import the named module
        return isinstance(value, str) and ":" in value
    is_lever = path in (*COMMANDS, *LEVERS) or (path[0] == "coders" and path[-1] in CODER_LEVERS)
    return is_lever and bool(value)


def _weakens(path: Path, value: Any, usual: Any) -> bool:
    """Return True if work would be judged less strictly, or could cost more."""
    if path in FINDINGS:
        return bool(value == "close" != usual)
    if path in BUDGETS:
        return usual is not None and (value is None or value > usual)
    if path == ("scope", "live"):
        return bool(value == "flag" != usual)
    if path == ("scope", "allow"):
        return bool(usual) and not (value and set(value) <= set(usual))
    return not set(usual) <= set(value)


def list_demands(values: Mapping[Path, Any], usual: Callable[[Path], Any]) -> list[Demand]:
    """Return the demands in the values of a project file: one per command and one per other setting.

    `usual` returns the value of a setting without the file.
    """
    return [Demand(path, line) for path in _sort_paths(values, usual) for line in _format_demand(path, values[path])]


def raises_permissions(path: Path, value: Any) -> bool:
    """Return True if these options may let a coder's program run tools without asking."""
    if path != ("agent", "claude_flags") and (path[0] != "coders" or path[-1] != "flags"):
        return False
    return RAISING.search(value if isinstance(value, str) else " ".join(value)) is not None


def explain_unsafe(project: str, path: str) -> str:
    """Return why another user could have written a project file or a folder up to the project's.

    Empty if none could.
    """
    places = (path, os.path.realpath(path), os.path.dirname(os.path.realpath(path)), os.path.dirname(path), project)
    for place in dict.fromkeys(places):
        try:
            found = os.stat(place)
        except OSError as error:
            return f"{place} cannot be read: {error.strerror}"
        if found.st_uid not in _list_own_ids():
            return f"{place} belongs to another user (uid {found.st_uid})"
        if found.st_mode & stat.S_IWOTH and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
            return f"{place} is writable by every user (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def _list_own_ids() -> tuple[int, ...]:
    """Return the users whose files are trusted like our own. As in git, that includes the caller of sudo."""
    user, caller = os.geteuid(), os.environ.get("SUDO_UID", "")
    return (0, user, int(caller)) if user == 0 and caller.isdecimal() else (0, user)


def digest(line: str) -> str:
    """Return the digest that identifies a demand."""
    return sha256(line.encode())


def place_of(folder: str) -> str:
    """Return the path that identifies a project on this machine: its shared git directory, else its folder."""
    return os.path.realpath(common_of(folder) or folder)


def read_trusted_digests(home: Home, folder: str) -> frozenset[str]:
    """Return the digests that the user trusts for the project in a folder, according to the home's record."""
    mark = digest(os.fsencode(place_of(folder)).hex())
    return frozenset(known for where, known in _entries(home) if where == mark)


def record_trusted(home: Home, folder: str, digests: Iterable[str]) -> bool:
    """Record in the home that the project in a folder may do these things. Return True if any of them is new."""
    known = read_trusted_digests(home, folder)
    new = [each for each in dict.fromkeys(digests) if each not in known]
    mark = digest(os.fsencode(place_of(folder)).hex())
    _append(home, [f"{mark} {each}" for each in new])
    return bool(new)


def is_known_file(home: Home, content: str) -> bool:
    """Return True if the user trusted a project file with this digest in any clone."""
    return content in list_known_digests(home)


def list_known_digests(home: Home) -> frozenset[str]:
    """Return the digests of all files that the user trusts in any clone."""
    return frozenset(known for where, known in _entries(home) if where == ANYWHERE)


def record_trusted_files(home: Home, contents: Iterable[str]) -> None:
    """Record in the home that files with these digests are trusted in every clone."""
    known = list_known_digests(home)
    _append(home, [f"{ANYWHERE} {each}" for each in dict.fromkeys(contents) if each not in known])


def _entries(home: Home) -> Iterator[tuple[str, str]]:
    # An unreadable record trusts nothing.
    with contextlib.suppress(OSError, BadInput, UnicodeDecodeError):
        for line in read_small(home.trusted, MOST_TRUSTED).decode("ascii").splitlines():
            where, _, known = line.partition(" ")
            yield where, known


def _append(home: Home, lines: list[str]) -> None:
    if not lines:
        return
    handle = os.open(home.trusted, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        # The leading line break ends a line that a full disk truncated.
        write_all(handle, "".join(f"\n{line}" for line in [*lines, ""]).encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def _sort_paths(values: Mapping[Path, Any], usual: Callable[[Path], Any]) -> list[Path]:
    names = dict.fromkeys(path[1] for path in values if path[0] == "coders")
    own = [("coders", name, lever) for name in names for lever in CODER_LEVERS]
    known = (*COMMANDS, *LEVERS, *own, CODER, *RULES)
    return [path for path in known if path in values and needs_trust(path, values[path], usual(path))]


def _format_demand(path: Path, value: Any) -> Iterator[str]:
    if path in COMMANDS:
        yield from (f"{format_path(path)}: {each}" for each in ([value] if isinstance(value, str) else value))
    else:
        yield f"{format_path(path)} = {toml_value(value)}"
