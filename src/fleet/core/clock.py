"""Instants: aware UTC datetimes in the program, microseconds since 1970 in the database."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Clock = Callable[[], datetime]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_OF_MACHINE = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> datetime:
    """This host's clock, in UTC."""
    return datetime.now(UTC)


def machine_seconds() -> float:
    """A clock of this machine that nobody sets, the same for all its processes; it goes on while the machine sleeps."""
    return time.clock_gettime(_OF_MACHINE)


def shown_here(instant: datetime, queue_now: datetime) -> datetime:
    """What this host's clock showed at an instant of the queue's: the times of files here can be compared with it."""
    return instant + (now() - queue_now)


def growing_pauses(first: float, longest: float, factor: float = 2.0) -> Iterator[float]:
    """Yield the seconds to wait between looks or tries, without end: each is longer than the one before."""
    while True:
        yield first
        first = min(first * factor, longest)


def to_micros(instant: datetime) -> int:
    """An instant as the database keeps it."""
    return (instant - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """An instant as the database kept it."""
    return EPOCH + timedelta(microseconds=micros)
