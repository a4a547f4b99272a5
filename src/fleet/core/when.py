"""Instants as people write them: +2d, tomorrow at 9am, next monday, 2026-01-15, RFC 3339."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta

from fleet.core.errors import BadInput

UNITS = {"h": "hours", "d": "days", "w": "weeks", "m": "months", "y": "years"}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HINT = "examples: +6h, +2d, +1w, +3m, tomorrow, tomorrow at 9am, next monday, 2026-01-15, 2026-01-15T10:00:00Z"

_COMPACT = re.compile(r"([+-]?)(\d{1,5})([hdwmy])")
_SPAN = re.compile(r"(?:in )?(\d{1,5}|an?|one) (minute|hour|day|week|month|year)s?( ago| from now)?")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))? ?(am|pm)?")


def parse(text: str, *, now: datetime) -> datetime:
    """Return the instant in UTC. Days and clock times are in the zone of `now`. Raises BadInput."""
    words = " ".join(text.lower().split())
    try:
        found = _compact(words, now) or _absolute(text.strip(), now) or _parse_words(words, now)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise BadInput(f"invalid time {text!r}", hint=HINT)
    return found.astimezone(UTC)


def _compact(words: str, now: datetime) -> datetime | None:
    match = _COMPACT.fullmatch(words)
    if not match:
        return None
    sign, number, unit = match.groups()
    return _shift_instant(now, -int(number) if sign == "-" else int(number), UNITS[unit])


def _absolute(text: str, now: datetime) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)


def _parse_words(words: str, now: datetime) -> datetime | None:
    if words == "now":
        return now
    span = _SPAN.fullmatch(words)
    if span:
        number, unit, direction = span.groups()
        count = int(number) if number.isdigit() else 1
        return _shift_instant(now, -count if direction == " ago" else count, unit + "s")
    day, _, clock = words.partition(" at ")
    start = _day(day, now)
    return _set_clock(start, clock) if start is not None else None


def _day(words: str, now: datetime) -> datetime | None:
    offsets = {"today": 0, "tomorrow": 1, "yesterday": -1}
    if words in offsets:
        return now + timedelta(days=offsets[words])
    name = words.removeprefix("next ").removeprefix("this ").removeprefix("on ")
    if name in ("week", "month", "year") and words.startswith("next "):
        return _shift_instant(now, 1, name + "s")
    matching = [index for index, weekday in enumerate(WEEKDAYS) if name in (weekday, weekday[:3])]
    return now + timedelta(days=(matching[0] - now.weekday() - 1) % 7 + 1) if matching else None


def _set_clock(day: datetime, clock: str) -> datetime | None:
    if not clock:
        return day
    clock = {"noon": "12pm", "midnight": "12am"}.get(clock, clock)
    match = _CLOCK.fullmatch(clock)
    if not match:
        return None
    hour, minute, half = int(match[1]), int(match[2] or 0), match[3]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    return day.replace(hour=hour, minute=minute, second=0, microsecond=0)


def _shift_instant(now: datetime, count: int, unit: str) -> datetime:
    if unit in ("minutes", "hours", "days", "weeks"):
        return now + timedelta(**{unit: count})
    months = now.year * 12 + now.month - 1 + count * (12 if unit == "years" else 1)
    year, month = divmod(months, 12)
    return now.replace(year=year, month=month + 1, day=min(now.day, calendar.monthrange(year, month + 1)[1]))
