"""Files that are whole or absent: written beside their place, flushed, then renamed."""

# On the path of every `bd` call: pathlib costs more than all of this.
# ruff: noqa: PTH105, PTH108, PTH118
from __future__ import annotations

import os
import stat

from fleet.core.errors import BadInput, FleetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def atomic_write(path: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Put data at path, whole or in parts, with this mode. A link is followed, so a linked settings file stays one."""
    target = os.path.realpath(path)
    refuse_special(target)
    folder, name = os.path.split(target)
    # The name is cut so that a long one plus the suffix still fits the file system's 255 bytes.
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
    """Make a folder, and those above it that are missing, private to this user, whatever the umask. Raises OSError."""
    if os.path.isdir(folder):  # noqa: PTH112
        return
    make_private(os.path.dirname(folder) or ".")  # noqa: PTH120
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102
    except FileExistsError:
        if not os.path.isdir(folder):  # noqa: PTH112
            raise


def refuse_special(path: str) -> None:
    """Raise BadInput if a device, a pipe or a socket is in the place of a file: a rename would remove it."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadInput(f"cannot write {path}: it is not a regular file", hint="name a file")


def read_small(path: str, most: int = 1 << 20) -> bytes:
    """Return what a file of people's holds, without waiting for anything. Raises OSError, BadInput if it is none.

    A pipe would keep its reader waiting for ever, and a huge file would take all of its memory.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BadInput(f"cannot read {path}: it is not a regular file", hint="put a file in its place.")
        parts, size = [], 0
        while size <= most and (part := os.read(handle, most + 1 - size)):
            parts.append(part)
            size += len(part)
    finally:
        os.close(handle)
    if size > most:
        raise BadInput(
            f"cannot read {path}: it is larger than {most >> 10} KiB", hint="put a smaller file in its place."
        )
    return b"".join(parts)


def write_once(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put data at path unless something is there: of several at once the first counts."""
    draft = f"{path}.{os.urandom(6).hex()}"
    atomic_write(draft, data, mode)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def write_all(handle: int, data: bytes) -> None:
    """Write every byte: one call writes only what a disk has room for. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


_HINTS = {28: "free some disk space and try again.", 30: "the file system is mounted read-only."}


def _write_new(path: str, data: bytes | Iterable[bytes], mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.fchmod(handle, mode)  # the umask may have taken bits away
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
