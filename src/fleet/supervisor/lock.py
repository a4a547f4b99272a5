"""One supervisor per home: a lock that ends with its holder, and a note about the holder."""

from __future__ import annotations

import fcntl
import os

from fleet.core.clock import now
from fleet.core.errors import HomeReplaced, SupervisorRunning
from fleet.core.jsontext import decode, encode
from fleet.files import lock_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.home import Home

#: The queue's setting that pauses the start of agents. Its value is the time since when.
PAUSED = "fleet.paused"
LOOK_SECONDS = 0.5
#: Larger than any note, which contains the supervisor's PATH.
NOTE_BYTES = 1 << 18


class Single:
    """The lock of a home's supervisor, held until it is released or the process ends."""

    def __init__(self, home: Home) -> None:
        self._path = home.supervisor_lock
        self._file: int | None = None

    def take(self, *, only_made: bool = False, said: dict[str, Any] | None = None) -> None:
        """Take the lock, for all tasks or with `only_made` for those of `create` and similar.

        `said` goes into the note.

        Raises SupervisorRunning, which names the running supervisor.
        """
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not lock_within(file, LOOK_SECONDS):
            note = _note(file)
            os.close(file)
            raise SupervisorRunning(
                f"a supervisor is already running here: pid {note.get('pid', '?')}, since {note.get('since', '?')}",
                hint="run `fleet run status` to show it, or `fleet run stop` to stop it",
            )
        os.ftruncate(file, 0)
        note = {"pid": os.getpid(), "since": now().isoformat(timespec="seconds")}
        note |= {"only_made": True} if only_made else {}
        note |= {"said": said} if said else {}
        note["path"] = os.environ.get("PATH", "").encode(errors="replace").decode()
        os.pwrite(file, encode(note).encode(), 0)
        self._file = file

    def add(self, **facts: Any) -> None:
        """Add facts to the note. A shorter note is padded, because readers must never find a part of one."""
        assert self._file is not None
        text = encode(_note(self._file) | facts).encode()
        os.pwrite(self._file, text.ljust(os.fstat(self._file).st_size), 0)

    def confirm(self) -> None:
        """Raise HomeReplaced if the path no longer leads to this lock: a second supervisor could then start."""
        assert self._file is not None
        ours = os.fstat(self._file)
        try:
            found = os.stat(self._path)  # noqa: PTH116 - the paths of the home are strings
        except (FileNotFoundError, NotADirectoryError):
            raise HomeReplaced(f"the home or its lock was deleted or moved: {self._path}") from None
        except OSError:  # the disk fails, and other operations report how
            return
        if (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
            raise HomeReplaced(f"the home or its lock was replaced: {self._path}")

    def release(self, *, why: str = "") -> None:
        """Release the lock.

        Calling this twice is safe. The note keeps `why` until the next supervisor takes the lock.
        """
        if self._file is not None:
            os.ftruncate(self._file, 0)
            if why:
                note = {"stopped_at": now().isoformat(timespec="seconds"), "why": why}
                os.pwrite(self._file, encode(note).encode(), 0)
            os.close(self._file)
            self._file = None


def holder(home: Home) -> dict[str, Any] | None:
    """Return the note of the supervisor that holds the lock, with pid and start time. Return None if none runs."""
    try:
        file = os.open(home.supervisor_lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)  # its disk may be read-only
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _note(file)
    finally:
        os.close(file)
    return None


def left_by(home: Home) -> dict[str, Any]:
    """Return the note of the last supervisor: why it stopped, or its pid if it was killed."""
    try:
        file = os.open(home.supervisor_lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return {}
    try:
        return _note(file)
    finally:
        os.close(file)


def _note(file: int) -> dict[str, Any]:
    try:
        note = decode(os.pread(file, NOTE_BYTES, 0).decode())
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}
