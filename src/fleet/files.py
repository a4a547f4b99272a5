"""Safe file operations: files are written completely or not at all, and untrusted paths are opened with care."""

# Runs on each `bd` call, where importing pathlib costs more than all of this.
# ruff: noqa: PTH105, PTH108, PTH118
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time

from fleet.core.errors import BadInput, FleetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def atomic_write(path: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Write data to a path, completely or not at all, with this mode.

    A link is followed, so a linked file stays linked.
    """
    target = os.path.realpath(path)
    refuse_special(target)
    folder, name = os.path.split(target)
    # The name is cut so that a long name plus the suffix still fits the file system's 255 bytes.
    draft = os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.tmp")
    try:
        _write_new(draft, data, mode)
        os.replace(draft, target)
        flush_folder(folder)
    except OSError as error:
        raise FleetError(f"cannot write {path}: {error.strerror}", hint=_HINTS.get(error.errno or 0, "")) from error
    finally:
        if os.path.lexists(draft):
            os.unlink(draft)


def make_private(folder: str) -> None:
    """Create a folder and its missing parents, private to this user despite any umask. Raises OSError."""
    if os.path.isdir(folder):  # noqa: PTH112
        return
    make_private(os.path.dirname(folder) or ".")  # noqa: PTH120
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102
    except FileExistsError:
        if not os.path.isdir(folder):  # noqa: PTH112
            raise


def refuse_special(path: str) -> None:
    """Raise BadInput if the path is a device, a pipe or a socket, because a rename would remove it."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadInput(f"cannot write {path}: it is not a regular file", hint="name a file")


def read_small(path: str, most: int = 1 << 20) -> bytes:
    """Return the content of a user's file without blocking. Raises OSError, and BadInput if it is not a small file.

    A pipe would block its reader forever, and a huge file would use all its memory.
    """
    try:
        handle = open_plain(path, links=True)
    except NotPlain:
        raise BadInput(f"cannot read {path}: it is not a regular file", hint="replace it with a regular file") from None
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        data = file.read(most + 1)
    if len(data) > most:
        raise BadInput(f"cannot read {path}: it is larger than {most >> 10} KiB", hint="replace it with a smaller file")
    return data


class NotPlain(OSError):
    """A path is a folder, pipe, device or socket instead of a file."""


def open_plain(path: str, *, folder: int | None = None, links: bool = False) -> int:
    """Open a regular file for reading. Links are followed only if `links`, and pipes do not block. Raises OSError."""
    follow = 0 if links else os.O_NOFOLLOW
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotPlain(errno.EINVAL, "not a plain file", path)
    return handle


def read_start(path: str, most: int) -> bytes:
    """Return at most the first `most` bytes of a regular file, or nothing if it cannot be read."""
    try:
        with open(open_plain(path), "rb") as file:
            return file.read(most)
    except (OSError, ValueError):
        return b""


@contextlib.contextmanager
def open_folder(base: str, *names: str, make: bool = False) -> Iterator[int]:
    """Open a folder below a trusted one through descriptors: agents could replace a part of the path by a link.

    With `make`, missing folders are created, private to this user. The base may be reached by a link. Raises OSError.
    """
    handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=handle)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def lock_within(handle: int, seconds: float) -> bool:
    """Lock an open file exclusively. Return False if others hold the lock for `seconds`.

    A process that only checks the lock holds it for an instant.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
        time.sleep(0.01)


def write_once(path: str, data: bytes) -> None:
    """Write data to a path unless it exists. If several processes write, the first wins."""
    draft = f"{path}.{os.urandom(6).hex()}"
    atomic_write(draft, data)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def write_all(handle: int, data: bytes) -> None:
    """Write all bytes, although one call writes only as much as the disk has room for. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def append_whole(handle: int, data: bytes) -> None:
    """Append to an open file completely or not at all, because half a line would spoil the next one. Raises OSError."""
    size = os.fstat(handle).st_size
    try:
        write_all(handle, data)
    except OSError:  # a full disk
        with contextlib.suppress(OSError):
            os.ftruncate(handle, size)
        raise


def find_program(name: str, path: str | None = None) -> str | None:
    """Return the path of a program on PATH, like `shutil.which` but without importing shutil."""
    if os.path.dirname(name):  # noqa: PTH120
        return name if _is_program(name) else None
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    places = (os.path.join(folder, name) for folder in folders)
    return next((place for place in places if _is_program(place)), None) if folders != [""] else None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


_HINTS = {28: "free some disk space and try again.", 30: "the file system is mounted read-only."}


def _write_new(path: str, data: bytes | Iterable[bytes], mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.fchmod(handle, mode)  # the umask may have removed bits
        for part in (data,) if isinstance(data, bytes) else data:
            write_all(handle, part)
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
