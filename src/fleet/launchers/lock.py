"""The lock of a run's folder: held while anything of its agent lives. Commands look at it, without asyncio."""

import fcntl
import os


def is_locked(folder: str, name: str = "lock") -> bool:
    """Whether a shim, or what it holds, lives in this folder."""
    try:
        path = f"{folder}/{name}"
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        replaced = not _is_at(handle, path)
    finally:
        os.close(handle)
    return replaced and is_locked(folder, name)


def _is_at(handle: int, path: str) -> bool:
    """Whether this is the file of that name: the lock of a spare terminal takes the place of another one."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return False
