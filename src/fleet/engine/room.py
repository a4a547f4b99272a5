"""Whether something failed because a disk takes nothing more: it is tried again later, and no task is to blame."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, StoreHindered
from fleet.workspaces.git import GitFault

if TYPE_CHECKING:
    from collections.abc import Iterator

#: After how long something is tried again.
ROOM_SECONDS = 5.0
#: A disk with less takes nothing that matters.
LEAST_BYTES = 1 << 20
#: Full, over its quota, read-only. Inodes that are used up are told as a full disk.
_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_WORDS = (*map(os.strerror, _CODES), "Out of diskspace")  # the last is git's own


class NoRoom(FleetError):
    """A disk takes nothing more now."""


def is_no_room(error: BaseException, *paths: str) -> bool:
    """Return True if an error, or what led to it, says that a disk takes nothing more, or one of these paths' does."""
    return any(_says_so(each) for each in _chain(error)) or bool(lack_of_room(*paths))


def lack_of_room(*paths: str) -> str:
    """Return which of the disks of these paths takes nothing more, and why, in words; empty if all do."""
    for path in paths:
        with contextlib.suppress(OSError):
            found = os.statvfs(path)
            if found.f_flag & os.ST_RDONLY:
                return f"{path}: {os.strerror(errno.EROFS)}"
            if found.f_bavail * found.f_frsize < LEAST_BYTES or (found.f_files and not found.f_favail):
                return f"{path}: {os.strerror(errno.ENOSPC)}"
            if fault := _try_to_reserve(path):
                return f"{path}: {os.strerror(fault)}"
    return ""


def _try_to_reserve(path: str) -> int:
    """Reserve room in a file without a name. Return why the disk refuses, else 0: quotas show in no other way."""
    if not hasattr(os, "O_TMPFILE"):
        return 0
    try:
        file = os.open(path, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, LEAST_BYTES)
        finally:
            os.close(file)
    except OSError as error:
        return error.errno if error.errno in _CODES else 0
    return 0


def _says_so(error: BaseException) -> bool:
    if isinstance(error, NoRoom | StoreHindered):
        return True
    if isinstance(error, OSError):
        return error.errno in _CODES
    if isinstance(error, GitFault):
        return any(line.rstrip().endswith(_WORDS) for line in error.said.splitlines())
    return isinstance(error, FleetError) and str(error).endswith(_WORDS)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
