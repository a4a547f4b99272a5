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
    """Return this host's time in UTC."""
    return datetime.now(UTC)


def machine_seconds() -> float:
    """Return the time of a clock that cannot be set and that all processes of this machine share.

    The clock runs while the machine sleeps.
    """
    return time.clock_gettime(_OF_MACHINE)


def to_host_time(instant: datetime, queue_now: datetime) -> datetime:
    """Return this host's time at an instant of the queue's clock, to compare with times of files here."""
    return instant + (now() - queue_now)


def iterate_pauses(first: float, longest: float, factor: float = 2.0) -> Iterator[float]:
    """Yield pauses between tries in seconds, without end. Each is longer than the previous one, up to `longest`."""
    while True:
        yield first
        first = min(first * factor, longest)


def to_micros(instant: datetime) -> int:
    """Return an instant in the form of the database."""
    return (instant - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the instant for a value of the database."""
    return EPOCH + timedelta(microseconds=micros)
