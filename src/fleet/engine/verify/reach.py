"""What decides a verify command's end from outside of its checkout: programs, and files that git ignores.

An agent can write there. The programs are named with their hashes; and what could be planted is compared, by size and
times, with how it was before the run: the environments that programs belong to, the dependencies beside the
repository's files, and settings in the folders above a checkout. Nothing is read but names, and no link is followed.
"""

# ruff: noqa: PTH111, PTH112, PTH115, PTH118, PTH120
from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import zlib
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from fleet.coders import CODERS
from fleet.core.jsontext import decode, encode
from fleet.engine.evidence.spawn import program_hash
from fleet.engine.scope.words import shown, some
from fleet.engine.verify.commandline import programs_in
from fleet.workspaces.admin import head_of
from fleet.workspaces.sharing import Shared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    from fleet.workspaces.view import View

#: More files than this are not compared.
MOST_FILES = 200_000
MOST_PROGRAMS, MOST_NAMED = 20, 5
SHELL = "/bin/sh"
#: Where tools keep what a project depends on.
DEPENDENCIES = (
    *("node_modules", ".venv", "venv", "env", ".tox", ".nox", "vendor", ".bundle", "bower_components", ".yarn"),
    *("Pods", "deps", "__pypackages__", ".pixi", ".direnv"),
)
#: What tools look for in all folders above the one they work in.
ABOVE = (
    *(
        "node_modules",
        "package.json",
        ".cargo/config.toml",
        ".cargo/config",
        "go.work",
        "Directory.Build.props",
        "Directory.Build.targets",
    ),
    *("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "babel.config.js", ".babelrc"),
    *("rust-toolchain", "rust-toolchain.toml", ".tool-versions", ".python-version", "mise.toml", ".mise.toml"),
)
#: Folders in which tools write whenever they run.
CACHES = frozenset((".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".vite", ".vite-temp", ".git"))
BYTECODE = "__pycache__"
#: Folders of the system: an agent that writes there is the system's administrator.
THE_SYSTEMS = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/nix",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
)
_PATH = re.compile(r"(?<![\w.~-])/[^\s:;,'\"`$&|<>()=]+")
#: Python that heeds no variable, and so takes bytecode from where it lies.
_HEEDLESS = re.compile(r"\s-[a-zA-Z]*[IE]")

#: Where a command writes what it prints.
_WRITTEN = re.compile(r"\d?>>?\s*[^\s;&|]+")
#: Where everybody writes.
ANYBODYS = ("/", "/tmp", "/var/tmp")

_looks: Shared[dict[str, Any]] = Shared()


class Asked(NamedTuple):
    """What a verification is made with."""

    command: str
    path: str  # where programs are found
    directory: str  # the repository's main checkout, or the directory that the run works in
    checkout: str  # below which folder checkouts are made
    view: View | None = None
    in_place: bool = False  # whether it is run in the directory itself

    @property
    def programs(self) -> dict[str, str]:
        """The programs that the command names, and where each is."""
        return programs(self.command, self.path, self.directory if self.in_place else "")


class Changed(NamedTuple):
    """What is not as it was."""

    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be compared
    bytecode: bool = False  # only what Python compiled


def programs(command: str, path: str, directory: str = "") -> dict[str, str]:
    """The programs that a command names, and where each is; with what runs those that are scripts."""
    found = {SHELL: SHELL}
    for name in programs_in(command)[:MOST_PROGRAMS]:
        place = os.path.join(directory, name) if directory and "/" in name else name
        if "/" in name and not os.path.isabs(place):  # noqa: PTH117
            continue  # a file of the commit
        if where := shutil.which(place, path=path):
            found[name] = where
            if runner := _runner(where):
                found[f"{name}: {os.path.basename(runner)}"] = runner  # noqa: PTH119
    return found


def named(command: str, path: str, directory: str = "") -> tuple[str, ...]:
    """The programs that judge, each with the hash of its file."""
    found = programs(command, path, directory).values()
    where = {os.path.realpath(place): place for place in reversed(found)}
    return tuple(f"{place} sha256:{program_hash(place) or 'unknown'}" for place in reversed(where.values()))


def mark(asked: Asked) -> str:
    """What tells later whether anything a command can reach was changed; runs that begin together share one look."""
    tops = list(_tops(asked))
    return encode(_looks.look("\0".join([asked.command, asked.path, *tops]), lambda: _mark(asked, tops)))


def changed(asked: Asked, before: str, began: float) -> Changed:
    """What is not as it was when a mark was made, in words. `began` is when the run did."""
    old: dict[str, Any] = decode(before) if before else {}
    if not old:
        return Changed(notes=("what the command can reach was not compared with its state before the run",))
    asked = asked._replace(path=old["path"])  # a supervisor that came after may have another
    new: dict[str, Any] = decode(mark(asked))
    doubts, notes, files, bytecode = [], [], [], False
    for name, (where, digest) in old["programs"].items():
        now, now_digest = new["programs"].get(name, ("", ""))
        if (where, digest) != (now, now_digest):
            how = f"is {shown(now)} now" if now != where else "is another file now"
            doubts.append(f"the program {shown(name)} was {shown(where)} when the run began, and {how}")
    for top in sorted({*old["tops"], *new["tops"]}):
        was, now = old["tops"].get(top, _NOTHING), new["tops"].get(top, _NOTHING)
        if not was[0]:
            notes.append(f"{shown(top)} has too many files: they were not compared")
        elif was[0] != now[0]:
            files += list(_newer(top, began)) or [f"{top} (some of its files)"]
        bytecode |= was[1] != now[1]
    files += _shadows(
        asked.path, began, {folder for folder, was in old["bins"].items() if new["bins"].get(folder) != was}
    )
    if files:
        doubts.append(f"files that the command can reach changed while the run worked: {some(files, MOST_NAMED)}")
    if bytecode and _HEEDLESS.search(asked.command):
        doubts.append("Python's bytecode that the command can reach changed while the run worked")
    return Changed(tuple(doubts), tuple(notes), bytecode)


_NOTHING = ("0", "0")


def _mark(asked: Asked, tops: Iterable[str]) -> dict[str, Any]:
    where = asked.programs
    left = MOST_FILES
    found: dict[str, tuple[str, str]] = {}
    for top in tops:
        total = compiled = count = 0
        for path, seen in _files(top):
            count += 1
            if count > left:
                break
            # A file with several names has a new ctime whenever it gets another: installers share files so.
            changed_at = seen.st_ctime_ns if seen.st_nlink == 1 else 0
            told = f"{path}\0{seen.st_mode}\0{seen.st_size}\0{seen.st_mtime_ns}\0{changed_at}"
            number = int.from_bytes(blake2b(os.fsencode(told), digest_size=16).digest(), "big")
            if _is_bytecode(path):
                compiled += number
            else:
                total += number
        found[top] = ("", "") if count > left else (f"{total:x}", f"{compiled:x}")
        left -= min(count, left)
    return {
        "path": asked.path,
        "programs": {name: (place, program_hash(place)) for name, place in where.items()},
        "bins": {folder: _programs_in(folder) for folder in _folders(asked.path)},
        "tops": found,
    }


def _tops(asked: Asked) -> Iterator[str]:
    """The files and folders that are compared, each once."""
    seen: set[str] = set()
    for path in chain(_above(asked.checkout), _environments(asked), _dependencies(asked)):
        real = os.path.realpath(path)
        if real not in seen and not _is_systems(real) and real not in ANYBODYS:
            seen.add(real)
            yield real


def _above(folder: str) -> Iterator[str]:
    while folder != (above := os.path.dirname(folder)):
        folder = above
        for name in ABOVE:
            path = os.path.join(folder, name)
            if os.path.lexists(path):
                yield path


def _environments(asked: Asked) -> Iterator[str]:
    """The environments of the programs, and the folders that the command names."""
    places = [os.path.dirname(place) for place in asked.programs.values()]
    for folder in (*places, *asked.path.split(":")):
        for each in dict.fromkeys((folder, os.path.realpath(folder))):
            above = os.path.dirname(each)
            is_one = os.path.lexists(os.path.join(above, "pyvenv.cfg")) or above.endswith("/node_modules")
            if is_one and os.path.realpath(above) != os.path.realpath(sys.prefix):  # fleet's own: it would act itself
                yield above
    kept = {os.path.realpath(asked.directory), os.path.realpath(os.path.expanduser("~"))}
    for path in _PATH.findall(_WRITTEN.sub(" ", asked.command)):
        real = os.path.realpath(path)
        if os.path.lexists(real) and not any(each == real or each.startswith(f"{real}/") for each in kept):
            yield path


def _dependencies(asked: Asked) -> Iterator[str]:
    """The folders beside the repository's files that hold what it depends on, and that git ignores."""
    there = [name for name in DEPENDENCIES if os.path.isdir(os.path.join(asked.directory, name))]
    if not there:
        return
    tracked: set[str] = set()
    if asked.view is not None and (head := _head(asked.view)):
        told = asked.view.git("ls-tree", "--name-only", "-z", head, "--", *there)
        tracked = set(os.fsdecode(told).split("\0"))
    yield from (os.path.join(asked.directory, name) for name in there if name not in tracked)


def _head(view: View) -> str:
    branch, commit = head_of(view.repository.common)
    return (view.tip_of(branch) if branch else commit) or ""


def _files(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Each file below a folder, or the file itself; no link is followed, and no folder counts."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [] if entry.name in CACHES else [entry.path]
                    else:
                        yield entry.path, entry.stat(follow_symlinks=False)
        except NotADirectoryError:
            with contextlib.suppress(OSError):
                yield folder, os.lstat(folder)
        except OSError:  # it is gone, or is not ours to read
            continue


def _newer(top: str, began: float) -> Iterator[str]:
    """The files below a folder that changed since a moment."""
    for path, seen in _files(top):
        if (seen.st_ctime if seen.st_nlink == 1 else seen.st_mtime) >= began and not _is_bytecode(path):
            yield path


def _is_bytecode(path: str) -> bool:
    return path.endswith(".pyc") and f"/{BYTECODE}/" in path


def _folders(path: str) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(each) for each in path.split(":") if each.startswith("/")))


def _programs_in(folder: str) -> str:
    """What tells later whether any program in a folder is another: of a link, where it leads."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            seen = entry.stat(follow_symlinks=False)
            how = os.readlink(entry.path) if entry.is_symlink() else f"{seen.st_size} {seen.st_mtime_ns}"
            total += zlib.crc32(os.fsencode(f"{entry.name}\0{seen.st_mode}\0{how}")) | 1 << 32
    return f"{total:x}"


def _shadows(path: str, began: float, changed: Collection[str]) -> list[str]:
    """Programs that came into these folders since a moment, and that are run in place of others of that name."""
    folders = _folders(path)
    found: list[str] = []
    for number, folder in enumerate(folders[:-1]):
        if folder not in changed:
            continue
        try:
            with os.scandir(folder) as entries:
                new = [entry.name for entry in entries if entry.stat(follow_symlinks=False).st_ctime >= began]
        except OSError:
            continue
        new = [name for name in new if name not in CODERS]  # they bring themselves up to date
        behind = folders[number + 1 :]
        found += [
            os.path.join(folder, name)
            for name in sorted(new)
            if any(os.path.lexists(os.path.join(other, name)) for other in behind)
        ]
    return found


def _runner(script: str) -> str:
    """What runs a program that is a script, by its first line; empty: it is none."""
    try:
        with open(script, "rb") as file:  # noqa: PTH123
            line = file.readline(256)
    except OSError:
        return ""
    words = line[2:].split() if line.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words and words[0].startswith(b"/") else ""


def _is_systems(path: str) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in THE_SYSTEMS)
