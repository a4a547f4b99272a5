"""Instants: aware UTC datetimes in the program, microseconds since 1970 in the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Callable[[], datetime]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def now() -> datetime:
    """This host's clock, in UTC."""
    return datetime.now(UTC)


def to_micros(instant: datetime) -> int:
    """An instant as the database keeps it."""
    return (instant - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """An instant as the database kept it."""
    return EPOCH + timedelta(microseconds=micros)
