"""The merge lock of a branch: one merge at a time."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.files import lock_within, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.home import Home
    from fleet.workspaces.repository import Repository


class AnotherMerge(FleetError):
    """A merge into the same branch that is still in progress."""

    hint = "try again once it is over; --wait says how long to wait for it."


def queue_key(repository: Repository, target: str) -> str:
    """Return a file name that is unique for this branch of this repository."""
    return f"{repository.key}-{hashlib.sha256(target.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def turn(
    home: Home, repository: Repository, target: str, *, wait: float, tell: Callable[[str], None]
) -> Iterator[None]:
    """Hold the merge lock of a branch. Wait at most `wait` seconds for other merges. Raises AnotherMerge."""
    make_private(home.locks)
    path = home.lock(f"merge-{queue_key(repository, target)}")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(handle, target, wait, tell)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _take(handle: int, target: str, wait: float, tell: Callable[[str], None]) -> None:
    if lock_within(handle, 0):
        return
    if wait > 0:
        tell(f"waiting for another merge into {target} (pid {_pid(handle)})")
    if not lock_within(handle, wait):
        raise AnotherMerge(f"another merge into {target} is under way (pid {_pid(handle)})")


def _pid(handle: int) -> str:
    return os.pread(handle, 20, 0).decode("ascii", "replace")
