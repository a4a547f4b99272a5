"""The lock of a run's folder: held while anything of its agent lives. Commands look at it, without asyncio."""

import contextlib
import fcntl
import os
from collections.abc import Collection

from fleet.launchers.shim.tree import KILL, processes, send

#: What the kernel adds to the path of a file that was deleted.
_DELETED = " (deleted)"


def is_locked(folder: str, name: str = "lock") -> bool:
    """Whether a shim, or what it holds, lives in this folder."""
    try:
        handle = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def deleted_locks(tasks: str) -> dict[int, str]:
    """Return the processes that hold the lock of a run below this folder that was deleted, each with the run's folder.

    Nothing else leads to their agents.
    """
    begin, end = f"{os.path.realpath(tasks)}/", f"/lock{_DELETED}"
    found = {}
    for pid in filter(str.isdecimal, _names("/proc")):
        for number in _names(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                link = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115
                if link.startswith(begin) and link.endswith(end):
                    found[int(pid)] = link.removesuffix(end)
    return found


def kill_shims(held: Collection[int]) -> None:
    """Kill the shims among the processes that hold locks, and with them their agents.

    A process that waits for a shim ends by itself, and what the shim left before it.
    """
    waiting = {parent for pid, parent, _, _ in processes() if pid in held}
    for pid in held:
        if pid not in waiting:
            send(pid, KILL)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - most processes are other users'
    except OSError:
        return []
