"""Times in the forms that people write."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from fleet.core import when
from fleet.core.errors import BadInput

OSLO = timezone(timedelta(hours=1))
NOW = datetime(2026, 1, 31, 10, 30, tzinfo=OSLO)  # a Saturday


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("+6h", "2026-01-31T15:30"),
        ("2d", "2026-02-02T09:30"),
        ("-1w", "2026-01-24T09:30"),
        ("+1m", "2026-02-28T09:30"),
        ("+1y", "2027-01-31T09:30"),
        ("now", "2026-01-31T09:30"),
        ("today", "2026-01-31T09:30"),
        ("Tomorrow", "2026-02-01T09:30"),
        ("tomorrow at 9am", "2026-02-01T08:00"),
        ("tomorrow at 17:45", "2026-02-01T16:45"),
        ("tomorrow at noon", "2026-02-01T11:00"),
        ("tomorrow at 12am", "2026-01-31T23:00"),
        ("next monday", "2026-02-02T09:30"),
        ("saturday", "2026-02-07T09:30"),
        ("next  month", "2026-02-28T09:30"),
        ("in 3 days", "2026-02-03T09:30"),
        ("an hour ago", "2026-01-31T08:30"),
        ("2026-03-01", "2026-02-28T23:00"),
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00"),
        ("2026-03-01T10:00:00+05:00", "2026-03-01T05:00"),
    ],
)
def test_time_expression_is_parsed(text: str, meant: str) -> None:
    assert when.parse(text, now=NOW) == datetime.fromisoformat(meant).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "someday", "tomorrow at 25", "tomorrow at 13pm", "+", "1x", "99999y", "2026-13-01", "next", "in days"]
)
def test_invalid_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        when.parse(text, now=NOW)
    assert "tomorrow" in refused.value.hint
