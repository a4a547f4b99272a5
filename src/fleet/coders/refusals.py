"""Classification of refused requests to a model's provider: a limit, no login, a full context or just an error."""

from __future__ import annotations

import re

from fleet.core.event import Event, Kind, Limit

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
