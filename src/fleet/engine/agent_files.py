"""Files in folders that agents write too: links are not followed, only plain files are opened, sizes are bounded."""

# Folders are walked by their descriptors, so that nothing can be swapped for a link on the way.
from __future__ import annotations

import contextlib
import errno
import os
import stat
from itertools import islice
from typing import TYPE_CHECKING

from fleet.files import append_whole, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not blocking: a pipe nobody writes to would hold us up
ROTATED = ".1"
LONGEST_LINE = 1024 * 1024
# A link, a pipe, a directory, a device where a file should be.
_ODD = (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EINVAL)


class AgentFiles:
    """One folder below a trusted one. Every method may raise OSError."""

    def __init__(self, base: str, *names: str) -> None:
        self._base = base
        self._names = names

    def make(self) -> None:
        """Make what is missing of the folders, private to this user. A link in the way is refused."""
        with open_folder(self._base, *self._names, make=True):
            pass

    def entries(self, most: int) -> list[tuple[str, bool]]:
        """So many names in the folder, in order, of plain files and folders, and whether it is a folder."""
        with self._folder() as folder, os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, most) if _is_plain(entry)
            ]
        return sorted(found)

    def below(self, name: str) -> AgentFiles:
        """One of its folders."""
        return AgentFiles(self._base, *self._names, name)

    def read(self, name: str, most: int) -> bytes | None:
        """The first so many bytes of a file; none when it is not there."""
        found = self.read_with_time(name, most)
        return found[0] if found else None

    def read_with_time(self, name: str, most: int) -> tuple[bytes, float] | None:
        """As `read`, with the moment of its last change in seconds since 1970."""
        try:
            with self._file(name, os.O_RDONLY) as handle, os.fdopen(os.dup(handle), "rb") as file:
                return file.read(most), os.fstat(handle).st_mtime
        except FileNotFoundError:
            return None

    def changed_at(self, name: str) -> float | None:
        """The moment of its last change in seconds since 1970; none when it is not there."""
        try:
            with self._file(name, os.O_RDONLY) as handle:
                return os.fstat(handle).st_mtime
        except FileNotFoundError:
            return None

    def part(self, name: str, offset: int, most: int) -> tuple[bytes, int]:
        """At most so many bytes from an offset on, and the size of the file; a negative offset counts from the end."""
        try:
            with self._file(name, os.O_RDONLY) as handle:
                size = os.fstat(handle).st_size
                start = max(0, size + offset) if offset < 0 else offset
                return os.pread(handle, most, start), size
        except FileNotFoundError:
            return b"", 0

    def lines(self, name: str, most: int, *, offset: int = 0) -> Iterator[bytes]:
        """The lines among the first so many bytes from an offset on, one after the other, a long one in parts."""
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
        """Add to a file, whole or not at all."""
        with self._file(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as handle:
            append_whole(handle, data)

    def append_log(self, name: str, data: bytes, most: int) -> None:
        """Add to a file of fleet's own, whole or not at all. It is put aside past `most` bytes, in place of the one
        before, and also when it is no plain file any more: whoever did that must not stop the log."""
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
        """Give whatever has this name another one. Return the new name."""
        aside = f"{name}.odd-{os.urandom(4).hex()}"
        with self._folder() as folder:
            os.fchmod(folder, 0o700)  # an agent may have made it read-only
            os.replace(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        return aside

    def write(self, name: str, data: bytes) -> None:
        """Put a file in its place, whole or not at all. A link there is replaced, what it points to stays."""
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
