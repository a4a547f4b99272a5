"""Files in folders where agents can write. Links are not followed, only plain files are opened, sizes are limited."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from itertools import islice
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.core.result_schema import STATUSES, TEST_STATUSES
from fleet.files import append_whole, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any


# Folders are opened one below the other by descriptor, so that no folder can be replaced by a link meanwhile.


_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: a pipe without a writer would block
ROTATED = ".1"
LONGEST_LINE = 1024 * 1024
# Errors of opening a link, pipe, folder or device in place of a file.
_ODD = (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EINVAL)


class AgentFiles:
    """A folder below a trusted folder. Every method may raise OSError."""

    def __init__(self, base: str, *names: str) -> None:
        self._base = base
        self._names = names

    def make(self) -> None:
        """Create the missing folders, private to this user. A link in the path is refused."""
        with open_folder(self._base, *self._names, make=True):
            pass

    def entries(self, most: int) -> list[tuple[str, bool]]:
        """Return the sorted names of plain files and folders, each with True if it is a folder.

        At most `most` entries of the folder are read.
        """
        with self._folder() as folder, os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, most) if _is_plain(entry)
            ]
        return sorted(found)

    def below(self, name: str) -> AgentFiles:
        """Return a subfolder."""
        return AgentFiles(self._base, *self._names, name)

    def read(self, name: str, most: int) -> bytes | None:
        """Return the first `most` bytes of a file. Return None if the file does not exist."""
        found = self.read_with_time(name, most)
        return found[0] if found else None

    def read_with_time(self, name: str, most: int) -> tuple[bytes, float] | None:
        """Return the first `most` bytes of a file and its change time in seconds since 1970.

        Return None if it does not exist.
        """
        try:
            with self._file(name, os.O_RDONLY) as handle, os.fdopen(os.dup(handle), "rb") as file:
                return file.read(most), os.fstat(handle).st_mtime
        except FileNotFoundError:
            return None

    def changed_at(self, name: str) -> float | None:
        """Return the change time of a file in seconds since 1970. Return None if it does not exist."""
        try:
            with self._file(name, os.O_RDONLY) as handle:
                return os.fstat(handle).st_mtime
        except FileNotFoundError:
            return None

    def part(self, name: str, offset: int, most: int) -> tuple[bytes, int]:
        """Return at most `most` bytes from an offset on, and the size of the file.

        A negative offset counts from the end.
        """
        try:
            with self._file(name, os.O_RDONLY) as handle:
                size = os.fstat(handle).st_size
                start = max(0, size + offset) if offset < 0 else offset
                return os.pread(handle, most, start), size
        except FileNotFoundError:
            return b"", 0

    def lines(self, name: str, most: int, *, offset: int = 0) -> Iterator[bytes]:
        """Yield the lines in the first `most` bytes from an offset on. A long line is yielded in parts."""
        with contextlib.ExitStack() as stack:
            try:
                handle = stack.enter_context(self._file(name, os.O_RDONLY))
            except FileNotFoundError:
                return
            file = stack.enter_context(os.fdopen(os.dup(handle), "rb"))
            file.seek(offset)
            while most > 0 and (line := file.readline(min(most, LONGEST_LINE))):
                most -= len(line)
                yield line.rstrip(b"\r\n")

    def append(self, name: str, data: bytes) -> None:
        """Append to a file, all of `data` or nothing."""
        with self._file(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as handle:
            append_whole(handle, data)

    def append_log(self, name: str, data: bytes, most: int) -> None:
        """Append to a log file of fleet, all of `data` or nothing. A log beyond `most` bytes is rotated first.

        Rotation replaces the previous rotated log. A log that is no longer a plain file is put aside: an agent that
        replaces the log must not stop the logging.
        """
        try:
            with self._file(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as handle:
                size = os.fstat(handle).st_size
                if size == 0 or size + len(data) <= most:
                    append_whole(handle, data)
                    return
        except OSError as error:
            if error.errno not in _ODD:
                raise
            self.put_aside(name)
        else:
            with self._folder() as folder:
                os.replace(name, name + ROTATED, src_dir_fd=folder, dst_dir_fd=folder)
        self.append(name, data)

    def put_aside(self, name: str) -> str:
        """Rename the entry with this name. Return the new name."""
        aside = f"{name}.odd-{os.urandom(4).hex()}"
        with self._folder() as folder:
            os.fchmod(folder, 0o700)  # an agent may have made the folder read-only
            os.replace(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        return aside

    def write(self, name: str, data: bytes) -> None:
        """Write a file, all of `data` or nothing. A link with this name is replaced, and its target stays."""
        draft = f".{name}.{os.urandom(6).hex()}.tmp"
        try:
            with self._file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
                append_whole(handle, data)
            with self._folder() as folder:
                os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError), self._folder() as folder:
                os.unlink(draft, dir_fd=folder)
            raise

    def _folder(self) -> AbstractContextManager[int]:
        return open_folder(self._base, *self._names)

    @contextlib.contextmanager
    def _file(self, name: str, flags: int) -> Iterator[int]:
        with self._folder() as folder:
            handle = os.open(name, flags | _FILE, 0o600, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "not a plain file", name)
            yield handle
        finally:
            os.close(handle)


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


LISTS = ("files_changed", "commits", "next_steps")
MOST_ENTRIES = 10_000


class ResultFile(Record):
    """An agent's own report of its work."""

    summary: str
    status: str
    files_changed: tuple[str, ...] = ()
    tests: tuple[dict[str, str], ...] = ()
    commits: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()


def read_result(data: bytes) -> ResultFile:
    """Return the result in this file. Raises ValueError with the reason if the file is not valid."""
    try:
        told = json.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return result_in(told)


def result_in(told: Any) -> ResultFile:
    """Return the result in plain data. Raises ValueError with the reason if the data is not valid."""
    if not isinstance(told, dict):
        raise ValueError("not an object")
    if told.get("status") not in STATUSES:
        raise ValueError(f"status is not one of {', '.join(STATUSES)}")
    if not isinstance(told.get("summary"), str):
        raise ValueError("summary is not text")
    lists = {name: tuple(_text(item, name) for item in _list(told, name)) for name in LISTS}
    tests = tuple(_test(item) for item in _list(told, "tests"))
    return ResultFile(summary=_text(told["summary"], "summary"), status=told["status"], tests=tests, **lists)


def _list(told: dict[str, Any], name: str) -> list[Any]:
    found = told.get(name, [])
    if not isinstance(found, list) or len(found) > MOST_ENTRIES:
        raise ValueError(f"{name} is not a list, or is too long")
    return found


def _text(item: Any, name: str) -> str:
    if not isinstance(item, str):
        raise ValueError(f"{name} contains a value that is not text")
    return item.encode("utf-8", "replace").decode().replace("\0", "")


def _test(item: Any) -> dict[str, str]:
    if not isinstance(item, dict) or item.get("status") not in TEST_STATUSES:
        raise ValueError(f"a test's status is not one of {', '.join(TEST_STATUSES)}")
    return {key: _text(item.get(key, ""), "tests") for key in ("command", "status", "details")}
