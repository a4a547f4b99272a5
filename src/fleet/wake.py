"""Waking the supervisor of a home: a named pipe, so that work starts when it arrives and no path is too long."""

# On the path of every `bd` call that writes: pathlib costs more than all of this.
# ruff: noqa: PTH108
from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.home import Home


def wake(home: Home) -> None:
    """Have the supervisor look at the queue now, if one runs. Never blocks."""
    try:
        pipe = os.open(home.wake_pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(pipe, b"!")
    except OSError:
        return  # the pipe is full: it will wake up anyway
    finally:
        os.close(pipe)


def listen(home: Home) -> int:
    """A descriptor that becomes readable when somebody wakes us."""
    path = home.wake_pipe
    if os.path.lexists(path) and not stat.S_ISFIFO(os.lstat(path).st_mode):
        os.unlink(path)
    if not os.path.lexists(path):
        os.mkfifo(path, 0o600)
    # Read and write: the pipe then never reports an end when the last writer leaves.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def drain(pipe: int) -> None:
    """Read all that was written to the pipe, so that it is readable only once somebody wakes us again."""
    try:
        while os.read(pipe, 1 << 16):
            pass
    except BlockingIOError:
        pass
