"""The account that a run uses, and the effect of limits on accounts."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON
from fleet.core.accounts import account_slots, after_run, is_parked, is_slowed
from fleet.core.run import Account, Outcome
from fleet.settings.load import Origin, SettingsLayer, merge
from fleet.settings.sections import LimitSettings

SECOND = timedelta(seconds=1)
LIMITS = LimitSettings()
SETTINGS = merge(
    [
        SettingsLayer(
            Origin("runtime", ""),
            {
                ("accounts",): (
                    {"name": "late", "coder": "claude", "order": 2},
                    {"name": "first", "coder": "claude", "max_concurrent": 2, "start_interval_seconds": 0},
                    {"name": "other", "coder": "codex"},
                    {"name": "second", "coder": "claude", "order": 1},
                )
            },
        )
    ]
)


def after(limit: str, account: Account | None = None, *, at: datetime = NOON, **said: Any) -> Account:
    """Return the account after a run that had started just before."""
    outcome = Outcome(
        ending=said.pop("ending", "rate_limited"), reason="why", limit=limit, resume_at=said.pop("ends", None)
    )
    started = said.pop("started", at - SECOND)
    return after_run(account or Account(coder="claude"), outcome, started_at=started, now=at, limits=LIMITS)


def rooms(*known: Account, busy: dict[tuple[str, str], int] | None = None) -> dict[str, int]:
    return {slot.account: slot.room for slot in account_slots(SETTINGS, "claude", known, busy or {}, NOON) if slot.room}


def test_accounts_are_filled_in_their_order() -> None:
    order = [slot.account for slot in account_slots(SETTINGS, "claude", (), Counter(), NOON)]
    assert order == ["first", "second", "late"]
    assert rooms()["first"] == 2
    assert rooms(busy={("claude", "first"): 1, ("codex", "first"): 9})["first"] == 1
    assert "first" not in rooms(busy={("claude", "first"): 2})


def test_login_of_the_user_is_used_without_accounts() -> None:
    (slot,) = account_slots(SETTINGS, "gemini", (), {}, NOON)
    assert (slot.account, slot.reason) == ("", "") and slot.room > 1000


def test_plan_limit_parks_an_account_until_its_reset_and_the_next_takes_over() -> None:
    parked = after("plan", Account(coder="claude", name="first"), ends=NOON + 3 * HOUR)
    assert parked.parked_until == NOON + 3 * HOUR
    assert parked.parked_reason == "why"
    assert list(rooms(parked)) == ["second", "late"]
    assert not is_parked(parked, NOON + 3 * HOUR)


def test_rate_limit_slows_an_account_and_moves_no_work() -> None:
    slowed = after("rate", Account(coder="claude", name="first"))
    assert is_slowed(slowed, LIMITS) and is_parked(slowed, NOON)
    assert rooms(slowed) == {}
    reasons = {slot.reason for slot in account_slots(SETTINGS, "claude", [slowed], {}, NOON)}
    assert len(reasons) == 1 and "slowed down until 2026" in reasons.pop()


def test_slow_account_does_not_delay_the_first() -> None:
    assert list(rooms(after("rate", Account(coder="claude", name="second")))) == ["first"]


@pytest.mark.parametrize("limit", ["rate", "overload"])
def test_repeated_refusals_wait_4_8_16_seconds_and_then_park(limit: str) -> None:
    account, now, pauses = Account(coder="claude"), NOON, []
    for _ in range(5):
        account = after(limit, account, at=now, started=now)
        assert account.parked_until is not None
        pauses.append(account.parked_until - now)
        now = account.parked_until
    assert pauses == [4 * SECOND, 8 * SECOND, 16 * SECOND, 5 * MINUTE, 10 * MINUTE]
    assert not is_slowed(account, LIMITS)


def test_refusal_with_a_short_wait_is_obeyed_and_a_long_one_parks() -> None:
    short = after("rate", ends=NOON + 20 * SECOND)
    assert short.parked_until == NOON + 20 * SECOND and is_slowed(short, LIMITS)
    long = after("rate", ends=NOON + HOUR)
    assert long.parked_until == NOON + HOUR and not is_slowed(long, LIMITS)
    past = after("rate", ends=NOON - HOUR)
    assert past.parked_until == NOON + SECOND


def test_concurrent_refusals_are_one_strike() -> None:
    account = after("rate")
    for seconds in range(1, 30):
        account = after("rate", account, at=NOON + seconds * SECOND, started=NOON - MINUTE)
    assert account.strikes == 1 and is_slowed(account, LIMITS)


def test_later_report_of_a_limit_only_extends_it() -> None:
    parked = after("plan", ends=NOON + 3 * HOUR)
    assert after("plan", parked, ends=NOON + HOUR).parked_until == NOON + 3 * HOUR
    assert after("plan", parked, ends=NOON + 4 * HOUR).parked_until == NOON + 4 * HOUR
    assert after("rate", parked).parked_until == NOON + 3 * HOUR


@pytest.mark.parametrize("ending", ["finished", "incomplete", "blocked"])
def test_successful_run_resets_the_strikes(ending: str) -> None:
    assert after("", after("rate"), ending=ending).strikes == 0


@pytest.mark.parametrize("ending", ["failed", "lost", "stalled", "cancelled"])
def test_run_without_requests_resets_no_strikes(ending: str) -> None:
    assert after("", after("rate"), ending=ending).strikes == 1


@pytest.mark.parametrize(
    ("ends", "then"),
    [(NOON - HOUR, MINUTE), (NOON, MINUTE), (NOON + HOUR, HOUR), (NOON + timedelta(days=30), timedelta(days=8))],
)
def test_reset_of_a_plan_limit_is_bounded(ends: datetime, then: timedelta) -> None:
    assert after("plan", ends=ends).parked_until == NOON + then


def test_limit_without_an_end_is_waited_for_with_growing_pauses() -> None:
    account, now, pauses = Account(coder="claude"), NOON, []
    for _ in range(8):
        account = after("auth", account, at=now, started=now)
        assert account.parked_until is not None
        pauses.append(account.parked_until - now)
        now = account.parked_until
    assert pauses == [5 * MINUTE * 2**times for times in range(6)] + [5 * HOUR] * 2


def test_starts_of_one_account_are_staggered_and_do_not_delay_the_next() -> None:
    def found(used_at: datetime | None) -> list[tuple[str, int, datetime | None]]:
        state = Account(coder="claude", name="second", used_at=used_at)
        return [
            (slot.account, slot.room, slot.opens_at) for slot in account_slots(SETTINGS, "claude", [state], {}, NOON)
        ][1:]

    assert found(None)[0] == ("second", 1, NOON + SECOND)
    assert found(NOON - SECOND / 4) == [("second", 0, NOON + 3 * SECOND / 4), ("late", 1, NOON + SECOND)]
    assert found(NOON - SECOND)[0] == ("second", 1, NOON + SECOND)
    assert found(NOON + HOUR)[0][:2] == ("second", 1)  # the clock was set back
