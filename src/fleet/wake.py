"""Waking the supervisor of a home: a named pipe, so that work starts when it arrives and no path is too long.

What is written to it is either a mark to wake up, or a directory between two zero bytes: work is about to come there.
"""

# On the path of every `bd` call that writes: pathlib costs more than all of this.
# ruff: noqa: PTH108, PTH118
from __future__ import annotations

import os
import stat

#: What is written in one piece is read in one piece up to this length (pipe(7)).
LONGEST = 4096
WAKE = b"!"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.home import Home


def wake(home: Home) -> None:
    """Tell the supervisor to look at the queue now. Without one, nothing happens; it never blocks."""
    _write(home, WAKE)


def announce(home: Home, directory: str) -> None:
    """Tell the supervisor that agents will be asked for in a directory, as soon as that is known; it may do without."""
    path = os.fsencode(directory)
    if len(path) + 2 <= LONGEST:
        _write(home, b"\0%s\0" % path)


def _write(home: Home, data: bytes) -> None:
    try:
        pipe = os.open(_pipe(home), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(pipe, data)
    except OSError:
        return  # the pipe is full: it will wake up anyway
    finally:
        os.close(pipe)


def listen(home: Home) -> int:
    """A descriptor that becomes readable when somebody wakes us."""
    path = _pipe(home)
    if os.path.lexists(path) and not stat.S_ISFIFO(os.lstat(path).st_mode):
        os.unlink(path)
    if not os.path.lexists(path):
        os.mkfifo(path, 0o600)
    # Read and write: the pipe then never reports an end when the last writer leaves.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def drain(pipe: int) -> tuple[bool, list[str]]:
    """Take out what woke us: whether to look at the queue, and the directories that were announced."""
    told = b""
    try:
        while more := os.read(pipe, 1 << 16):
            told += more
    except BlockingIOError:
        pass
    parts = told.split(b"\0")
    return any(parts[::2]), [os.fsdecode(path) for path in parts[1::2] if path]


def _pipe(home: Home) -> str:
    return os.path.join(home.root, "wake")
