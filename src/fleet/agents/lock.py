"""The lock of a run's folder, held while anything of its agent lives. Usable without asyncio, for commands."""

import contextlib
import fcntl
import os
from collections.abc import Collection, Iterator

from fleet.agents.shim.tree import KILL, processes, read, send

#: Suffix that the kernel adds to the path of a deleted file.
_DELETED = " (deleted)"


def is_locked(folder: str, name: str = "lock") -> bool:
    """Return True if a shim, or anything it started, lives in this folder."""
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
    """Return processes that hold an agent which no known folder leads to, each with the folder of its run.

    Such a process holds a deleted lock below `tasks`. Or it names one of these folders but holds another folder's lock.
    In that case the folder is a copy, and the original was moved.
    """
    begin = f"{os.path.realpath(tasks)}/"
    free = {os.fsencode(folder): folder for folder in folders if not is_locked(folder)}
    # a starting shim opens the lock before it locks it
    own = {f"{os.path.realpath(folder)}/lock" for folder in folders}
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
    """Kill the shims among the processes that hold locks, and thereby their agents.

    A process that waits for a shim exits on its own. Before that, it clears what the shim left behind.
    """
    waiting = {parent for pid, parent, _, _ in processes() if pid in held} if held else set()
    for pid in held:
        if pid not in waiting:
            send(pid, KILL)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - most processes belong to other users
    except OSError:
        return []
