"""One output stream of the agent: written to its file up to a cap. Of the rest, the newest megabyte is kept."""

import os
import time

#: The capacity of a pipe.
CHUNK = 64 * 1024
#: How much is kept of the output beyond the cap, or while the disk is full.
TAIL = 1024 * 1024
#: How much of it has reserved space, in case the disk fills up.
ROOM = 64 * 1024
#: How long to wait before retrying a full disk.
RETRY_SECONDS = 0.5


class OutputPipe:
    """A pipe that is always drained, even if the disk fails, so that the agent never blocks."""

    def __init__(self, name: str, cap: int) -> None:
        self.name = name
        self.total = 0  # bytes that the agent printed
        self.kept = 0  # bytes in the file
        self.error = ""  # the last disk error
        self._room = cap
        self._rest = bytearray()  # output that is not in the file: beyond the cap, or the disk is full
        self._gap = False  # output between the file and `_rest` was dropped
        self._lost = False
        self.retry_at = 0.0  # when to retry a full disk
        self.pipe, self.agents_end = os.pipe()
        os.set_blocking(self.pipe, False)
        self._file = self._create()
        self._draft = f".{name}.tail"
        self._reserve()

    @property
    def truncated(self) -> bool:
        """Return True if any of the agent's output is missing from the file."""
        return self._lost or bool(self._rest)

    @property
    def waiting(self) -> bool:
        """Return True if output is held back only because the disk is full."""
        return bool(self._rest) and self._room > 0

    def take(self) -> int | None:
        """Read one chunk from the agent. Return 0 if none is available now, None at the end."""
        try:
            chunk = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return 0
        if not chunk:
            return None
        self.total += len(chunk)
        self._keep(chunk)
        return len(chunk)

    def flush(self) -> None:
        self.retry_at = time.monotonic() + RETRY_SECONDS
        if not self._rest or not self._room:
            return
        if self._gap:
            if self._put(b"\n") == 0:  # so that the truncated line is not joined with another
                return
            self._rest = self._newest()
            self._gap, self._lost = False, True
        with memoryview(self._rest) as view:
            written = self._put(view)
        del self._rest[:written]

    def write_tail(self) -> None:
        """Write the newest output beyond the cap to a separate file, whole lines after a gap.

        On a full disk, write as much of the end as fits.
        """
        newest = self._newest()
        while newest and not self._is_written(newest):
            newest = _from_a_line(newest[len(newest) // 2 :]) if len(newest) > ROOM // 2 else bytearray()
        try:
            if newest:
                os.replace(self._draft, f"{self.name}.tail")  # noqa: PTH105
            else:
                os.unlink(self._draft)  # noqa: PTH108
        except OSError as error:
            self.error = str(error.strerror)

    def _reserve(self) -> None:
        """Reserve space for a tail. Errors are ignored: a full disk may have space again at the end."""
        try:
            handle = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(handle, 0, ROOM)
            finally:
                os.close(handle)
        except (OSError, AttributeError):  # not every system supports this
            pass

    def _is_written(self, newest: bytearray) -> bool:
        """Write the draft of the tail completely. Return False if the disk refuses."""
        try:
            handle = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with memoryview(newest) as rest:
                    written = 0
                    while written < len(rest):
                        written += os.write(handle, rest[written:])
                os.ftruncate(handle, written)
            finally:
                os.close(handle)
        except OSError as error:
            self.error = str(error.strerror)
            return False
        return True

    def _create(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(self.name, flags, 0o600)
        except OSError as error:
            self.error = str(error.strerror)
            return -1  # each write fails, and the newest megabyte is kept

    def _keep(self, chunk: bytes) -> None:
        if self._rest or not self._room:
            self._rest += chunk
            if self._room and time.monotonic() >= self.retry_at:
                self.flush()
        else:
            self._rest += chunk[self._put(chunk) :]
        if len(self._rest) > 2 * TAIL:
            del self._rest[:-TAIL]
            self._gap = True

    def _put(self, data: bytes | memoryview) -> int:
        """Append to the file. Return how many bytes were written."""
        written, most = 0, min(len(data), self._room)
        with memoryview(data) as view:
            while written < most:
                try:
                    written += os.write(self._file, view[written:most])
                except OSError as error:
                    self.error = str(error.strerror)
                    self.retry_at = time.monotonic() + RETRY_SECONDS
                    break
        self._room -= written
        self.kept += written
        return written

    def _newest(self) -> bytearray:
        if not self._gap and len(self._rest) <= TAIL:
            return self._rest
        return _from_a_line(self._rest[-TAIL:])


def _from_a_line(data: bytearray) -> bytearray:
    """Drop the first line, which is incomplete, unless it is the only one."""
    return data[data.find(b"\n", 0, -1) + 1 :]
