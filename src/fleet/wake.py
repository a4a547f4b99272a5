"""Waking a home's supervisor through a named pipe, so that work starts when it arrives.

A pipe has no limit on the length of its path.
"""

# Runs on each `bd` call that writes, where importing pathlib costs more than all of this.
# ruff: noqa: PTH108
from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.home import Home


def wake(home: Home) -> None:
    """Make the supervisor check the queue now, if one runs. Never blocks."""
    try:
        pipe = os.open(home.wake_pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(pipe, b"!")
    except OSError:
        return  # the pipe is full, so the supervisor wakes up anyway
    finally:
        os.close(pipe)


def listen(home: Home) -> int:
    """Return a descriptor that becomes readable when another process calls `wake`."""
    path = home.wake_pipe
    if os.path.lexists(path) and not stat.S_ISFIFO(os.lstat(path).st_mode):
        os.unlink(path)
    if not os.path.lexists(path):
        os.mkfifo(path, 0o600)
    # Opened for reading and writing, so that the pipe reports no end when the last writer leaves.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def drain(pipe: int) -> None:
    """Read everything from the pipe, so that it becomes readable again only at the next `wake`."""
    try:
        while os.read(pipe, 1 << 16):
            pass
    except BlockingIOError:
        pass
