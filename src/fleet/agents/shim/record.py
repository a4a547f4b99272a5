"""The exit record. Its disk space is reserved at the start, so that a full disk does not lose the record."""

import os
import time

from fleet.agents.shim.jsonlines import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DRAFT, _RECORD, _ROOM = ".exit.json.new", "exit.json", 4096


def reserve_record() -> None:
    """Reserve space for the exit record. Errors are ignored: a full disk may have space again at the end."""
    try:
        handle = os.open(_DRAFT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, b" " * _ROOM)
        finally:
            os.close(handle)
    except OSError:
        pass


def write_record(record: "dict[str, Any]") -> bool:
    """Write the exit record atomically. Return False if the disk refuses.

    It is not flushed to disk, because a power cut ends the agent too.
    """
    data = encode(record).encode()
    try:
        handle = os.open(_DRAFT, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.write(handle, data) < len(data):
                return False
            os.ftruncate(handle, len(data))
        finally:
            os.close(handle)
        os.replace(_DRAFT, _RECORD)  # noqa: PTH105
    except OSError:
        return False
    return True


def has_record() -> bool:
    """Return True if the exit record is in place."""
    try:
        os.stat(_RECORD)  # noqa: PTH116
    except OSError:
        return False
    return True


def instant(seconds: float) -> str:
    """Return a time in UTC, as text that sorts."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03}Z"
