"""Amounts for people: durations, tokens, money and times, as short as is clear."""

from collections.abc import Iterable
from datetime import datetime

from fleet.core.run import COMPUTED, UNKNOWN

NOTHING = "–"
#: The marks before costs.
MARKS = {
    "≈": "computed from tokens and prices",
    "≥": "at least: some of it has no known cost",
    NOTHING: "no known cost",
}


def duration(seconds: float | None) -> str:
    """Return a duration such as 4s, 3m12s, 2h05m, 3d04h."""
    if seconds is None:
        return NOTHING
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def count(number: int | None) -> str:
    """Return a count such as 950, 12.3k, 4.5M."""
    if number is None:
        return NOTHING
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


def money(dollars: float | None) -> str:
    """Return an amount such as $0.0042 or $12.30."""
    if dollars is None:
        return NOTHING
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"


def cost(dollars: float | None, basis: str = "") -> str:
    """Return a cost: $0.0042 if reported, ≈$0.0042 if computed by fleet, ≥$0.0042 if partly unknown, or –."""
    if dollars is None:
        return NOTHING
    return {COMPUTED: "≈", UNKNOWN: "≥"}.get(basis.partition(":")[0], "") + money(dollars)


def explained(costs: Iterable[str]) -> str:
    """Return the meaning of the marks before these costs. Return "" if they have none."""
    shown = {text[:1] for text in costs}
    return ", ".join(f"{mark} {words}" for mark, words in MARKS.items() if mark in shown)


def percent(number: float | None, *, estimated: bool = False) -> str:
    """Return a percentage such as 37%, or ≈37%."""
    return NOTHING if number is None else f"{'≈' if estimated else ''}{number:.0f}%"


def instant(moment: datetime | None) -> str:
    """Return the local time, with the date if it is another day."""
    if moment is None:
        return NOTHING
    here = moment.astimezone()
    today = datetime.now().astimezone().date()
    return f"{here:%H:%M:%S}" if here.date() == today else f"{here:%Y-%m-%d %H:%M}"
