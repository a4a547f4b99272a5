"""The lock of a run's folder: held while anything of its agent lives. Commands look at it, without asyncio."""

import fcntl
import os


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
