"""Copying files into a worktree that git does not put there: credentials and the files that `.worktreeinclude` names.

Each part of each path is opened without following links, on both sides. So nothing outside the two directories is read
or written. Existing files are not changed.
"""

# Paths are relative to descriptors here, which pathlib does not support.
# ruff: noqa: PTH117, PTH118, PTH207
from __future__ import annotations

import glob
import os
import stat
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.files import open_folder, open_plain
from fleet.git.process import git
from fleet.git.worktree_records import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

#: A file that claude, codex and others read too, with lines as in .gitignore that name ignored files to copy.
INCLUDES = ".worktreeinclude"
LONGEST_FILE = 100 * 1024 * 1024
MOST_FILES = 50_000
MOST_BYTES = 2 * 1024**3
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CopiedFiles(Record):
    """What happened to the files."""

    copied: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # named in the settings but missing
    refused: tuple[str, ...] = ()  # named in the settings but not copied, each with the reason
    left_out: tuple[str, ...] = ()  # found by a pattern or in a directory but not copied, each with the reason


class _Refused(Exception):
    """The reason why one file is not copied."""


def copy_in(top: str, path: str, credential_files: Sequence[str]) -> CopiedFiles:
    """Copy files from the main checkout to the same paths in a worktree, readable only by their owner.

    `credential_files` are paths, directories or globs. The main checkout's `.worktreeinclude` has lines as in
    .gitignore, of which only files that git ignores are copied.
    """
    copying = _Copying(top, path)
    for wanted in credential_files:
        copying.named(wanted)
    for name in _list_ignored(top, read(os.path.join(top, INCLUDES), 1 << 20).splitlines()):
        copying.found(name)
    return copying.done()


class _Copying:
    """The copies into one worktree in progress."""

    def __init__(self, top: str, path: str) -> None:
        self._top, self._path = top, path
        self._copied: list[str] = []
        self._missing: list[str] = []
        self._refused: list[str] = []
        self._left_out: list[str] = []
        self._bytes = 0

    def named(self, wanted: str) -> None:
        parts = wanted.split("/")
        if os.path.isabs(wanted) or ".." in parts or "\0" in wanted:
            self._refused.append(f"{wanted}: not a path inside of the repository")
            return
        name = "/".join(part for part in parts if part not in ("", "."))
        if name and os.path.lexists(os.path.join(self._top, name)):
            if _is_folder(os.path.join(self._top, name)):
                self._all(_list_files_below(self._top, name))
            else:
                self._copy(name, self._refused)
            return
        found = sorted(glob.glob(name, root_dir=self._top, recursive=True, include_hidden=True)) if name else []
        if not found:
            self._missing.append(wanted)
        for each in found:
            if _is_folder(os.path.join(self._top, each)):
                self._all(_list_files_below(self._top, each))
            else:
                self.found(each)

    def found(self, name: str) -> None:
        self._copy(name, self._left_out)

    def done(self) -> CopiedFiles:
        return CopiedFiles(
            copied=tuple(self._copied),
            missing=tuple(self._missing),
            refused=tuple(self._refused),
            left_out=tuple(self._left_out),
        )

    def _all(self, names: Iterable[str]) -> None:
        for name in names:
            self.found(name)

    def _copy(self, name: str, otherwise: list[str]) -> None:
        try:
            if len(self._copied) >= MOST_FILES or self._bytes > MOST_BYTES:
                raise _Refused("the size limit was reached before it")
            size = _copy(self._top, self._path, name)
        except _Refused as reason:
            # A long list is cut to its first names.
            if len(otherwise) < 100:
                otherwise.append(f"{name}: {reason}")
        except OSError as error:
            otherwise.append(f"{name}: {error.strerror}")
        else:
            if size is not None:
                self._copied.append(name)
                self._bytes += size


def _copy(top: str, path: str, name: str) -> int | None:
    """Copy one file. Return its size, or None if the file already exists. Raises _Refused, OSError."""
    *folders, last = name.split("/")
    if ".git" in (part.lower() for part in (*folders, last)):
        raise _Refused("git's own")
    try:
        with open_folder(top, *folders) as there:
            source = _open_regular(there, last)
        with open(source, "rb") as file, open_folder(path, *folders, make=True) as here:  # noqa: PTH123
            return _fill_copy(file, here, last)
    except NotADirectoryError as error:
        raise _Refused(f"{error.filename} is a link or no directory") from error


def _open_regular(folder: int, name: str) -> int:
    kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISREG(kind):
        raise _Refused("a link" if stat.S_ISLNK(kind) else "not a regular file")
    handle = open_plain(name, folder=folder)
    if os.fstat(handle).st_size <= LONGEST_FILE:
        return handle
    os.close(handle)
    raise _Refused(f"larger than {LONGEST_FILE // 2**20} MB")


def _fill_copy(source: BinaryIO, folder: int, name: str) -> int | None:
    found = os.fstat(source.fileno())
    mode = 0o700 if found.st_mode & 0o100 else 0o600
    try:
        target = os.open(name, _MAKE, mode, dir_fd=folder)
    except FileExistsError:
        return None
    with open(target, "wb") as file:  # noqa: PTH123
        os.fchmod(target, mode)
        left = LONGEST_FILE
        while left > 0 and (part := source.read(min(left, 1 << 20))):
            left -= file.write(part)
        file.flush()
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    return found.st_size


def _list_ignored(top: str, lines: Sequence[str]) -> list[str]:
    """Return the ignored files that lines as in .gitignore match."""
    patterns = [line for line in lines if line.strip() and not line.startswith("#")]
    if not patterns:
        return []
    words = [f"--exclude={line}" for line in patterns]
    named = git("ls-files", "-z", "--others", "--ignored", *words, cwd=top).split(b"\0")
    # Git would treat a name that begins with a colon as a pattern.
    asked = b"".join(b"./" + name + b"\0" for name in named if name and not name.endswith(b"/"))
    told = git("check-ignore", "-z", "--stdin", cwd=top, stdin=asked, allow=(1,)) if asked else b""
    return [os.fsdecode(name.removeprefix(b"./")) for name in told.split(b"\0") if name]


def _list_files_below(top: str, name: str) -> list[str]:
    found: list[str] = []
    for folder, folders, files in os.walk(os.path.join(top, name)):
        folders.sort()
        found += [os.path.relpath(os.path.join(folder, file), top) for file in sorted(files)]
        if len(found) > MOST_FILES:
            break
    return found


def _is_folder(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)
