"""A database server's clock, told from what it last said: never the wall clock of this host, and never a question."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.clock import EPOCH

if TYPE_CHECKING:
    from datetime import datetime

#: Goes on while a laptop sleeps, and nobody sets it.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ServerClock:
    """Answers from the last word of the server and the time since then."""

    def __init__(self) -> None:
        self._ahead = 0  # in microseconds, of our steady clock

    def told(self, micros: int) -> None:
        """Take over what the server just said its clock shows."""
        self._ahead = micros - _steady_micros()

    def now(self) -> datetime:
        """The server's time, to within the time an answer takes to arrive."""
        return EPOCH + timedelta(microseconds=_steady_micros() + self._ahead)


def _steady_micros() -> int:
    return time.clock_gettime_ns(_STEADY) // 1000
