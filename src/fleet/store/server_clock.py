"""A database server's clock, computed from the time it last reported.

It uses neither this host's wall clock nor extra queries.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.clock import EPOCH

if TYPE_CHECKING:
    from datetime import datetime

#: This clock runs while a laptop sleeps, and nobody can set it.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: A jump this large means that the clock was set. Drift between two reports and slow answers hardly reach it.
SET_MICROS = 1_000_000


class ServerClock:
    """A clock that adds the elapsed time to the server's last report."""

    def __init__(self) -> None:
        self._ahead: int | None = None  # how far the server's clock is ahead of our steady clock, in microseconds

    def is_set(self, micros: int) -> bool:
        """Return True if the reported time differs from the expected one because the server's clock was set."""
        return self._ahead is not None and abs(micros - _steady_micros() - self._ahead) > SET_MICROS

    def told(self, micros: int) -> None:
        """Adopt the time that the server just reported."""
        self._ahead = micros - _steady_micros()

    def now(self) -> datetime:
        """Return the server's time, accurate to the time an answer takes to arrive."""
        return EPOCH + timedelta(microseconds=_steady_micros() + (self._ahead or 0))


def _steady_micros() -> int:
    return time.clock_gettime_ns(_STEADY) // 1000
