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
#: A difference that no clock runs up between two words, and hardly an answer that was slow to arrive: it was set.
SET_MICROS = 1_000_000


class ServerClock:
    """Answers from the last word of the server and the time since then."""

    def __init__(self) -> None:
        self._ahead: int | None = None  # in microseconds, of our steady clock

    def is_set(self, micros: int) -> bool:
        """Whether what the server just said is another time than was to be expected: somebody set its clock."""
        return self._ahead is not None and abs(micros - _steady_micros() - self._ahead) > SET_MICROS

    def told(self, micros: int) -> None:
        """Take over what the server just said its clock shows."""
        self._ahead = micros - _steady_micros()

    def now(self) -> datetime:
        """The server's time, to within the time an answer takes to arrive."""
        return EPOCH + timedelta(microseconds=_steady_micros() + (self._ahead or 0))


def _steady_micros() -> int:
    return time.clock_gettime_ns(_STEADY) // 1000
