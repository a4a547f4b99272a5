"""Parsing the end of a limit from a coder's message, because coders report it only in prose."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fleet.core.event import Event, Kind, Limit

TYPE_CHECKING = False

if TYPE_CHECKING:
    from datetime import tzinfo


LONGEST = 2_000  # characters of a complaint that are examined
TOO_MANY, PAYMENT, OVERLOADED = 429, 402, range(500, 600)
NOT_LOGGED_IN = (401, 403)

_FULL = re.compile(
    r"prompt is too long|context limit reached|context_length_exceeded|exceeds? the context|maximum context length"
    r"|input is too long|range of input length",
    re.I,
)
_PLAN = re.compile(
    r"(?:hit|reached) your|usage limit|-hour limit|weekly limit|spend limit|credit balance|out of (?:extra )?usage"
    r"|current quota|insufficient_quota",
    re.I,
)
_LOGIN = re.compile(
    r"not logged in|/login|(?:invalid|incorrect|missing)[ _]api[ _]key|no auth type|key environment variable"
    r"|oauth token",
    re.I,
)
_STATUS = re.compile(r"(?:API Error: |\()(\d{3})\b")

#: Error words of claude and of its API.
_WORDS = {
    "rate_limit": "rate",
    "billing_error": "plan",
    "overloaded": "overload",
    "server_error": "overload",
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
}


def refusal(text: str, *, status: int = 0, word: str = "") -> Event | None:
    """Return a full context or a limit, judged by the HTTP status, the program's word and its sentence.

    Return None for other errors.
    """
    looked_at = text[:LONGEST]
    if _FULL.search(looked_at):
        return Event(kind=Kind.CONTEXT_FULL, text=text)
    kind = _kind(looked_at, status, word)
    return Event(kind=Kind.LIMIT, text=text, limit=Limit(kind=kind, text=text)) if kind else None


def complaint(status: int | None, stderr: str) -> Event | None:
    """Return what a failed program without a result reported on stderr.

    Return None if it did not fail or wrote nothing.
    """
    said = stderr.strip()[-1000:]
    if not status or not said:
        return None
    return refusal(said) or Event(kind=Kind.ERROR, text=said[-300:])


def status_in(text: str) -> int:
    """Return the HTTP status at the start of a complaint. Return 0 if it has none.

    Examples: "API Error: 529 …", "… Request rejected (429)".
    """
    found = _STATUS.search(text[:100])
    return int(found[1]) if found else 0


def _kind(text: str, status: int, word: str) -> str:
    if _PLAN.search(text) or status == PAYMENT:
        return "plan"
    if status == TOO_MANY:
        return "rate"
    if status in NOT_LOGGED_IN or _LOGIN.search(text):
        return "auth"
    if status in OVERLOADED:
        return "overload"
    return _WORDS.get(word, "")


LONGEST_TEXT = 2_000
LONGEST_WAIT = timedelta(days=40)  # a longer wait was misread
#: A clock time that has just passed means now, not tomorrow, because coders round.
JUST_PASSED = timedelta(minutes=2)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

_UNIT = r"(?:ms|milliseconds?|d(?:ays?)?|h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![A-Za-z])"
_SPAN = rf"(?:\d{{1,9}}(?:\.\d{{1,9}})? ?{_UNIT}[ ,]*)"
_IN = re.compile(
    rf"(?:(?:again|retry|retrying|resets?|available) (?:in|after)|retry[- ]after:?) ({_SPAN}{{1,4}})", re.I
)
_PART = re.compile(r"(\d+(?:\.\d+)?) ?(ms|milli|d|h|m|s)", re.I)
_BARE = re.compile(r"retry[- ]after\"?: ?\"?(\d{1,7})\b", re.I)
_EPOCH = re.compile(r"limit reached\|(\d{10})\b")
_AT = re.compile(
    r"(?:resets?|again|available|until) (?:at |on )?"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,? (?P<year>20\d\d))?(?:,| at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>am|pm)?\b"
    r"(?: ?\((?P<zone>[A-Za-z_]+(?:/[A-Za-z_+-]+)*)\))?",
    re.I,
)


def resets_at(text: str, now: datetime, *, local: tzinfo | None = None) -> datetime | None:
    """Return when a limit ends according to this text, in UTC, or None.

    A clock time without a day means the next such time after `now`. Its zone is the one in the text, or the local one.
    """
    text = text[:LONGEST_TEXT]
    found = _epoch(text) or _span(text, now) or _clock(text, now, local)
    return found if found is not None and found - now <= LONGEST_WAIT else None


def _epoch(text: str) -> datetime | None:
    match = _EPOCH.search(text)
    return datetime.fromtimestamp(int(match[1]), UTC) if match else None


def _span(text: str, now: datetime) -> datetime | None:
    match = _IN.search(text)
    if match:
        seconds = sum(float(number) * _seconds(unit) for number, unit in _PART.findall(match[1]))
    elif bare := _BARE.search(text):
        seconds = float(bare[1])
    else:
        return None
    return now + timedelta(seconds=seconds) if seconds <= LONGEST_WAIT.total_seconds() else None


def _seconds(unit: str) -> float:
    unit = unit.lower()
    return _UNITS["ms" if unit == "milli" else unit]


def _clock(text: str, now: datetime, local: tzinfo | None) -> datetime | None:
    match = _AT.search(text)
    if match is None or not (match["half"] or match["minute"]):
        return None
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    here = now.astimezone(_zone(match["zone"]) or local)
    try:
        told = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if match["month"]:
            return _on_day(match, told, here)
    except ValueError:
        return None
    return (told if told > here - JUST_PASSED else told + timedelta(days=1)).astimezone(UTC)


def _on_day(match: re.Match[str], told: datetime, here: datetime) -> datetime | None:
    if match["month"].lower() not in _MONTHS:
        return None
    year = int(match["year"]) if match["year"] else here.year
    told = told.replace(year=year, month=_MONTHS.index(match["month"].lower()) + 1, day=int(match["day"]))
    if not match["year"] and told < here - timedelta(days=180):
        told = told.replace(year=year + 1)
    return told.astimezone(UTC)


def _zone(name: str | None) -> tzinfo | None:
    if not name:
        return None
    from zoneinfo import ZoneInfo

    try:
        return UTC if name.upper() in ("UTC", "GMT", "Z") else ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None
