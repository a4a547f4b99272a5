"""Reports of a background supervisor about its start, sent through a pipe to the command that started it."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fleet.core.errors import FleetError

SERVES, WAITS = b"serves\n", b"waits "
#: How long an unusable database may delay a start.
GRACE_SECONDS = 5.0
READ_BYTES = 1 << 16


class StartReport:
    """The supervisor's end of the pipe. Without a pipe nothing is reported."""

    def __init__(self, pipe: int | None = None) -> None:
        self._pipe = pipe
        if pipe is not None:
            os.set_inheritable(pipe, False)

    def serves(self) -> None:
        """Report that the database answered and the supervisor works. Nothing is reported after that."""
        self._write(SERVES)
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def waits(self, error: FleetError) -> None:
        """Report what the supervisor waits for before it can work."""
        self._write(WAITS + " ".join(str(error).split()).encode(errors="replace")[:4000] + b"\n")

    def _write(self, line: bytes) -> None:
        if self._pipe is not None:
            with contextlib.suppress(OSError):  # the starting command has ended or does not read
                os.write(self._pipe, line)


#: For a supervisor without a command that waits for its reports.
SILENT = StartReport()


class StartResult(NamedTuple):
    """The result of a start: the supervisor serves, waits for something, or ended without a report."""

    serves: bool = False
    waits: str = ""
    is_late: bool = False


def await_start(pipe: int, patience: float) -> StartResult:
    """Read a supervisor's reports until it serves or ends, for at most `patience` seconds.

    Once the supervisor reports that it waits, read for at most GRACE_SECONDS more.
    """
    heard, cause, until = b"", "", time.monotonic() + patience
    while (left := until - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            continue
        said = os.read(pipe, READ_BYTES)
        if not said:
            return StartResult()
        heard += said
        if SERVES in heard:
            return StartResult(serves=True)
        if not cause and WAITS in heard:
            until = min(until, time.monotonic() + GRACE_SECONDS)
        *lines, heard = heard.split(b"\n")
        cause = next((line[len(WAITS) :].decode(errors="replace") for line in reversed(lines)), cause)
    return StartResult(waits=cause, is_late=True)
