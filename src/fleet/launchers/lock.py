"""The lock of a run's folder: held while anything of its agent lives. Commands look at it, without asyncio."""

import contextlib
import fcntl
import os
from collections.abc import Collection, Iterator

from fleet.launchers.shim.tree import KILL, processes, read, send

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


def lost_shims(tasks: str, folders: Collection[str]) -> dict[int, str]:
    """Return the processes that keep an agent which no folder leads to any more, each with the folder of its run.

    They hold a lock below `tasks` that was deleted, or keep one of these folders and hold the lock of another: it is a
    copy, and the one that they were started in was moved.
    """
    begin = f"{os.path.realpath(tasks)}/"
    free = {os.fsencode(folder): folder for folder in folders if not is_locked(folder)}
    own = {f"{os.path.realpath(folder)}/lock" for folder in folders}  # a shim that begins opens it before it holds it
    found = {}
    for pid in map(int, filter(str.isdecimal, _names("/proc"))):
        for link in _files_of(pid):
            if link.startswith(begin) and link.endswith(f"/lock{_DELETED}"):
                found[pid] = link.removesuffix(f"/lock{_DELETED}")
            elif free and link.endswith("/lock") and link not in own:
                for word in free.keys() & read(f"/proc/{pid}/cmdline").split(b"\0"):
                    found[pid] = free[word]
    return found


def _files_of(pid: int) -> Iterator[str]:
    for number in _names(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115


def kill_shims(held: Collection[int]) -> None:
    """Kill the shims among the processes that hold locks, and with them their agents.

    A process that waits for a shim ends by itself, and what the shim left before it.
    """
    waiting = {parent for pid, parent, _, _ in processes() if pid in held} if held else set()
    for pid in held:
        if pid not in waiting:
            send(pid, KILL)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - most processes are other users'
    except OSError:
        return []
