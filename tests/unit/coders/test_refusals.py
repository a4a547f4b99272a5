"""The end of a limit, parsed from the messages of coders."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.coders.refusals import LONGEST_WAIT, resets_at

NOW = datetime(2026, 11, 15, 17, 30, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))

TOLD = {
    "You've hit your session limit · resets 6:42pm (UTC)": datetime(2026, 11, 15, 18, 42, tzinfo=UTC),
    "You've hit your session limit · resets 5pm (UTC)": datetime(2026, 11, 16, 17, 0, tzinfo=UTC),
    "resets 5:29pm (UTC)": datetime(2026, 11, 15, 17, 29, tzinfo=UTC),
    "5-hour limit reached ∙ resets 12am (UTC)": datetime(2026, 11, 16, 0, 0, tzinfo=UTC),
    "5-hour limit reached ∙ resets 12pm (UTC)": datetime(2026, 11, 16, 12, 0, tzinfo=UTC),
    "You've hit your limit · resets 9pm (Europe/Brussels)": datetime(2026, 11, 15, 20, 0, tzinfo=UTC),
    "weekly limit reached · resets Nov 20, 6am (UTC)": datetime(2026, 11, 20, 6, 0, tzinfo=UTC),
    "weekly limit · resets Nov 20 at 6:30am (UTC)": datetime(2026, 11, 20, 6, 30, tzinfo=UTC),
    "You've hit your usage limit. Upgrade to Pro or try again at 9:47 PM.": datetime(2026, 11, 15, 19, 47, tzinfo=UTC),
    "try again at Nov 22nd, 2026 10:31 AM.": datetime(2026, 11, 22, 8, 31, tzinfo=UTC),
    "resets 23:05": datetime(2026, 11, 15, 21, 5, tzinfo=UTC),
    "Please try again in 5 days 3 hours 20 minutes.": NOW + timedelta(days=5, hours=3, minutes=20),
    "Rate limit reached. Please try again in 1.5s. Visit the site": NOW + timedelta(seconds=1.5),
    "Please try again in 250ms": NOW + timedelta(milliseconds=250),
    "Your quota will reset after 18h31m10s.": NOW + timedelta(hours=18, minutes=31, seconds=10),
    "Resource has been exhausted (e.g. check quota).\nSuggested retry after 20s.": NOW + timedelta(seconds=20),
    "Attempt 1 failed. Retrying after 22132ms...": NOW + timedelta(seconds=22.132),
    'headers: {"retry-after": "20"}': NOW + timedelta(seconds=20),
    "Claude AI usage limit reached|1794767000": datetime.fromtimestamp(1794767000, UTC),
}


@pytest.mark.parametrize("text", TOLD)
def test_reset_time_is_parsed_from_a_sentence(text: str) -> None:
    assert resets_at(text, NOW, local=EAST) == TOLD[text]


def test_date_without_year_may_be_in_the_next_year() -> None:
    december = datetime(2026, 12, 30, tzinfo=UTC)
    assert resets_at("resets Jan 2, 6am (UTC)", december) == datetime(2027, 1, 2, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    (
        "",
        "too many requests",
        "resets soon",
        "resets 13pm (UTC)",
        "resets 0am (UTC)",
        "resets 25:61",
        "resets Foo 20, 6am (UTC)",
        "resets Feb 31, 6am (UTC)",
        "try again in 900 days",
        "step 3 of 5 again 7",
        "limit reached|99",
        "Claude AI usage limit reached|9999999999",
    ),
)
def test_text_without_a_time_gives_none(text: str) -> None:
    assert resets_at(text, NOW, local=EAST) is None


def test_unknown_time_zone_is_read_as_local() -> None:
    assert resets_at("resets 9pm (Nowhere/At_All)", NOW, local=EAST) == datetime(2026, 11, 15, 19, 0, tzinfo=UTC)


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_parsed_without_error_and_gives_no_distant_time(before: str, after: str) -> None:
    for middle in ("resets ", "try again in ", "retry-after: ", " limit reached|"):
        found = resets_at(before + middle + after, NOW, local=EAST)
        assert found is None or found - NOW <= LONGEST_WAIT


def test_long_text_is_parsed_quickly() -> None:
    for part in ("1 d", "again in 1d ", "resets Nov ", "9" * 100):
        resets_at("again in " + part * 100_000, NOW, local=EAST)
