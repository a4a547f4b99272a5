"""Detect that an operation failed because a disk is full. The operation is retried later and no task is blamed."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, StoreHindered
from fleet.git.process import GitFault

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long to wait before a retry.
ROOM_SECONDS = 5.0
#: A disk with less free space counts as full.
LEAST_BYTES = 1 << 20
#: Disk full, over quota, read-only. Used-up inodes are reported as a full disk.
_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_WORDS = (*map(os.strerror, _CODES), "Out of diskspace")  # the last is git's own text


class NoRoom(FleetError):
    """A disk is full, over its quota or read-only."""


def is_no_room(error: BaseException, *paths: str) -> bool:
    """Return True if an error or its causes report a full disk, or a disk of one of these paths is full."""
    return any(_says_so(each) for each in _chain(error)) or bool(lack_of_room(*paths))


def lack_of_room(*paths: str) -> str:
    """Return which of these paths is on a full disk, and why. Return "" if none is."""
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
    """Reserve space in an unnamed file.

    Return the error number if the disk refuses, else 0. This also detects quotas.
    """
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
