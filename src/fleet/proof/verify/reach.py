"""Programs and ignored files outside of the checkout that can change the result of a verify command.

An agent can write there. The programs are recorded with their hashes. Other files are compared with their state before
the run by size and times: environments of the programs, dependencies beside the repository's files, and settings in the
folders above a checkout. Only programs are read, and no link is followed.
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
from fleet.core.quoting import join_first, quote_text
from fleet.git.sharing import SharedCalls
from fleet.git.worktree_records import head_of
from fleet.proof.baseline import program_hash
from fleet.proof.verify.commandline import programs_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    from fleet.git.view import View

#: More files than this are not compared.
MOST_FILES = 200_000
MOST_PROGRAMS, MOST_NAMED = 20, 5
SHELL = "/bin/sh"
#: Folders where tools keep a project's dependencies.
DEPENDENCIES = (
    *("node_modules", ".venv", "venv", "env", ".tox", ".nox", "vendor", ".bundle", "bower_components", ".yarn"),
    *("Pods", "deps", "__pypackages__", ".pixi", ".direnv"),
)
#: Names that tools look for in all folders above their working directory.
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
#: Folders where tools write in every run.
CACHES = frozenset((".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".vite", ".vite-temp", ".git"))
BYTECODE = "__pycache__"
#: Folders of the system. An agent that can write there has administrator rights.
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
#: Options with which Python ignores environment variables, and so reads bytecode beside the sources.
_HEEDLESS = re.compile(r"\s-[a-zA-Z]*[IE]")

#: Redirections of a command's output.
_WRITTEN = re.compile(r"\d?>>?\s*[^\s;&|]+")
#: Folders where every user can write.
ANYBODYS = ("/", "/tmp", "/var/tmp")

_looks: SharedCalls[dict[str, Any]] = SharedCalls()


class VerifyInputs(NamedTuple):
    """The inputs of a verification."""

    command: str
    path: str  # the PATH for programs
    directory: str  # the repository's main checkout, or the run's working directory
    checkout: str  # the folder below which checkouts are created
    view: View | None = None
    in_place: bool = False  # True if the command runs in the directory itself
    use: tuple[str, ...] = ()  # further folders beside the repository's files

    @property
    def programs(self) -> dict[str, str]:
        """Return the programs that the command names, with their paths."""
        return programs(self.command, self.path, self.directory if self.in_place else "")


class InputDifferences(NamedTuple):
    """The differences that were found."""

    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be compared
    bytecode: bool = False  # True if only bytecode of Python changed


def programs(command: str, path: str, directory: str = "") -> dict[str, str]:
    """Return the programs that a command names, with their paths, and the interpreters of those that are scripts."""
    found = {SHELL: SHELL}
    for name in programs_in(command)[:MOST_PROGRAMS]:
        place = os.path.join(directory, name) if directory and "/" in name else name
        if "/" in name and not os.path.isabs(place):  # noqa: PTH117
            continue  # a file of the commit
        if where := shutil.which(place, path=path):
            found[name] = where
            if runner := _find_interpreter(where):
                found[f"{name}: {os.path.basename(runner)}"] = runner  # noqa: PTH119
    return found


def named(command: str, path: str, directory: str = "") -> tuple[str, ...]:
    """Return the programs that judge, each with the hash of its file."""
    found = programs(command, path, directory).values()
    where = {os.path.realpath(place): place for place in reversed(found)}
    return tuple(f"{place} sha256:{program_hash(place) or 'unknown'}" for place in reversed(where.values()))


def mark(asked: VerifyInputs) -> str:
    """Return a mark of everything that a command can reach, for a later comparison.

    Runs that begin together share a look.
    """
    tops = list(_list_tops(asked))
    return encode(_looks.look("\0".join([asked.command, asked.path, *tops]), lambda: _mark(asked, tops)))


def changed(asked: VerifyInputs, before: str, began: float) -> InputDifferences:
    """Return the differences since a mark was made. `began` is the time when the run began."""
    old: dict[str, Any] = decode(before) if before else {}
    if not old:
        return InputDifferences(
            notes=("the files that the command can reach were not compared with their state before the run",)
        )
    asked = asked._replace(path=old["path"])  # a later supervisor may have another PATH
    new: dict[str, Any] = decode(mark(asked))
    doubts, notes, files, bytecode = [], [], [], False
    for name, (where, digest) in old["programs"].items():
        now, now_digest = new["programs"].get(name, ("", ""))
        if (where, digest) != (now, now_digest):
            how = f"is {quote_text(now)} now" if now != where else "is a different file now"
            doubts.append(f"the program {quote_text(name)} was {quote_text(where)} when the run began, and {how}")
    for top in sorted({*old["tops"], *new["tops"]}):
        was, now = old["tops"].get(top, _NOTHING), new["tops"].get(top, _NOTHING)
        if not was[0]:
            notes.append(f"{quote_text(top)} has too many files to compare")
        elif was[0] != now[0]:
            files += list(newer(top, began, skip=CACHES)) or [f"{top} (some of its files)"]
        bytecode |= was[1] != now[1]
    files += _list_shadowing_programs(
        asked.path, began, {folder for folder, was in old["bins"].items() if new["bins"].get(folder) != was}
    )
    if files:
        doubts.append(f"files that the command can reach changed during the run: {join_first(files, MOST_NAMED)}")
    if bytecode and _HEEDLESS.search(asked.command):
        doubts.append("Python bytecode that the command can reach changed during the run")
    return InputDifferences(tuple(doubts), tuple(notes), bytecode)


_NOTHING = ("0", "0")


def _mark(asked: VerifyInputs, tops: Iterable[str]) -> dict[str, Any]:
    where = asked.programs
    left = MOST_FILES
    found: dict[str, tuple[str, str]] = {}
    for top in tops:
        total, compiled, count = sum_of(top, left, skip=CACHES)
        found[top] = ("", "") if count > left else (f"{total:x}", f"{compiled:x}")
        left -= min(count, left)
    return {
        "path": asked.path,
        "programs": {name: (place, program_hash(place)) for name, place in where.items()},
        "bins": {folder: _sum_programs(folder) for folder in _list_path_folders(asked.path)},
        "tops": found,
    }


def sum_of(top: str, most: int = sys.maxsize, *, skip: Collection[str] = ()) -> tuple[int, int, int]:
    """Return a sum over the files below a folder, one over Python's bytecode, and the count, at most `most` + 1."""
    total = compiled = count = 0
    for path, seen in _walk_files(top, skip):
        count += 1
        if count > most:
            break
        # A file with several names gets a new ctime with each further name: installers share files this way.
        changed_at = seen.st_ctime_ns if seen.st_nlink == 1 else 0
        told = f"{path}\0{seen.st_mode}\0{seen.st_size}\0{seen.st_mtime_ns}\0{changed_at}"
        number = int.from_bytes(blake2b(os.fsencode(told), digest_size=16).digest(), "big")
        if _is_bytecode(path):
            compiled += number
        else:
            total += number
    return total, compiled, count


def _list_tops(asked: VerifyInputs) -> Iterator[str]:
    """Yield the files and folders to compare, each once."""
    seen: set[str] = set()
    for path in chain(_list_above(asked.checkout), _list_environments(asked), _list_dependencies(asked)):
        real = os.path.realpath(path)
        if real not in seen and not _is_systems(real) and real not in ANYBODYS:
            seen.add(real)
            yield real


def _list_above(folder: str) -> Iterator[str]:
    while folder != (above := os.path.dirname(folder)):
        folder = above
        for name in ABOVE:
            path = os.path.join(folder, name)
            if os.path.lexists(path):
                yield path


def _list_environments(asked: VerifyInputs) -> Iterator[str]:
    """Yield the environments of the programs, and the folders that the command names."""
    places = [os.path.dirname(place) for place in asked.programs.values()]
    for folder in (*places, *asked.path.split(":")):
        for each in dict.fromkeys((folder, os.path.realpath(folder))):
            above = os.path.dirname(each)
            is_one = os.path.lexists(os.path.join(above, "pyvenv.cfg")) or above.endswith("/node_modules")
            if is_one and os.path.realpath(above) != os.path.realpath(sys.prefix):  # not fleet's own environment
                yield above
    kept = {os.path.realpath(asked.directory), os.path.realpath(os.path.expanduser("~"))}
    for path in _PATH.findall(_WRITTEN.sub(" ", asked.command)):
        real = os.path.realpath(path)
        if os.path.lexists(real) and not any(each == real or each.startswith(f"{real}/") for each in kept):
            yield path


def _list_dependencies(asked: VerifyInputs) -> Iterator[str]:
    """Yield dependency folders beside the repository's files that git does not track."""
    there = [
        name
        for name in dict.fromkeys((*DEPENDENCIES, *asked.use))
        if os.path.isdir(os.path.join(asked.directory, name))
    ]
    if not there:
        return
    tracked: set[str] = set()
    if asked.view is not None and (head := _read_head(asked.view)):
        told = asked.view.git("ls-tree", "--name-only", "-z", head, "--", *there)
        tracked = set(os.fsdecode(told).split("\0"))
    yield from (os.path.join(asked.directory, name) for name in there if name not in tracked)


def _read_head(view: View) -> str:
    branch, commit = head_of(view.repository.common)
    return (view.tip_of(branch) if branch else commit) or ""


def _walk_files(top: str, skip: Collection[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each file below a folder, or the file itself. Links are not followed and folders are not yielded."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [] if entry.name in skip else [entry.path]
                    else:
                        yield entry.path, entry.stat(follow_symlinks=False)
        except NotADirectoryError:
            with contextlib.suppress(OSError):
                yield folder, os.lstat(folder)
        except OSError:  # gone, or not readable
            continue


def newer(top: str, began: float, *, skip: Collection[str] = ()) -> Iterator[str]:
    """Yield the files below a folder that changed since `began`."""
    for path, seen in _walk_files(top, skip):
        if (seen.st_ctime if seen.st_nlink == 1 else seen.st_mtime) >= began and not _is_bytecode(path):
            yield path


def _is_bytecode(path: str) -> bool:
    return path.endswith(".pyc") and f"/{BYTECODE}/" in path


def _list_path_folders(path: str) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(each) for each in path.split(":") if each.startswith("/")))


def _sum_programs(folder: str) -> str:
    """Return a sum over the programs in a folder, for a later comparison. A link counts with its target."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            seen = entry.stat(follow_symlinks=False)
            how = os.readlink(entry.path) if entry.is_symlink() else f"{seen.st_size} {seen.st_mtime_ns}"
            total += zlib.crc32(os.fsencode(f"{entry.name}\0{seen.st_mode}\0{how}")) | 1 << 32
    return f"{total:x}"


def _list_shadowing_programs(path: str, began: float, changed: Collection[str]) -> list[str]:
    """Return programs added to these folders since `began` that run in place of others with the same name."""
    folders = _list_path_folders(path)
    found: list[str] = []
    for number, folder in enumerate(folders[:-1]):
        if folder not in changed:
            continue
        try:
            with os.scandir(folder) as entries:
                new = [entry.name for entry in entries if entry.stat(follow_symlinks=False).st_ctime >= began]
        except OSError:
            continue
        new = [name for name in new if name not in CODERS]  # coders update themselves
        behind = folders[number + 1 :]
        found += [
            os.path.join(folder, name)
            for name in sorted(new)
            if any(os.path.lexists(os.path.join(other, name)) for other in behind)
        ]
    return found


def _find_interpreter(script: str) -> str:
    """Return the interpreter of a script from its first line. Return "" if the program is not a script."""
    try:
        with open(script, "rb") as file:  # noqa: PTH123
            line = file.readline(256)
    except OSError:
        return ""
    words = line[2:].split() if line.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words and words[0].startswith(b"/") else ""


def _is_systems(path: str) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in THE_SYSTEMS)
