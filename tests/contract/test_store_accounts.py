"""The contract of all stores for accounts: parking, quotas and sums of usage."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON
from contract.store_builders import a_claim, a_run, next_claim
from fleet.core.run import Account, AccountTotal, Quota
from fleet.store.base import Store
from fleet.store.sql.accounts import MOST_TOKENS, MOST_USD

pytestmark = pytest.mark.bd_in_soak

UNICODE = "ünïcode 🚀 \x00 'quoted\" \\ \n end"


def an_ended_run(store: Store, **said: Any) -> None:
    """Begin and end a run of a new task."""
    given = {"coder": "claude", **said}
    run = store.runs.begin(a_claim(store), a_run(coder=given["coder"], account=given.get("account", "")))
    store.runs.end(run.replace(**given))


def test_begin_records_when_the_account_was_used(store: Store) -> None:
    store.runs.begin(a_claim(store), a_run(coder="claude", account="work"))
    store.runs.begin(a_claim(store), a_run(coder="claude", account="work", started_at=NOON + HOUR))
    store.runs.begin(a_claim(store), a_run(coder="codex"))
    store.runs.begin(a_claim(store), a_run())  # no coder means no account
    used = [Account(coder="claude", name="work", used_at=NOON + HOUR), Account(coder="codex", used_at=NOON)]
    assert store.accounts.all() == used


def test_strikes_are_kept_with_the_other_state_of_an_account(store: Store) -> None:
    store.accounts.note_strikes("claude", "work", strikes=2)
    store.accounts.park("claude", "work", until=NOON, reason="too many requests")
    store.runs.begin(a_claim(store), a_run(coder="claude", account="work"))
    known: dict[str, Any] = {
        "coder": "claude",
        "name": "work",
        "parked_until": NOON,
        "parked_reason": "too many requests",
    }
    assert store.accounts.all() == [Account(**known, strikes=2, used_at=NOON)]
    store.accounts.note_strikes("claude", "work", strikes=0)
    assert store.accounts.all() == [Account(**known, used_at=NOON)]
    store.accounts.park("claude", "work", until=None, reason="")
    store.accounts.note_strikes("claude", "work", strikes=3)
    assert store.accounts.all() == [Account(coder="claude", name="work", strikes=3, used_at=NOON)]


def test_usage_of_runs_is_summed_by_account_when_they_end(store: Store) -> None:
    assert store.accounts.totals() == []
    tokens = {"input_tokens": 1, "output_tokens": 20, "cache_read_tokens": 300, "cache_write_tokens": 4000}
    an_ended_run(store, **tokens, cost_usd=0.25)
    an_ended_run(store, **tokens)
    an_ended_run(store, account="work", output_tokens=7, cost_usd=0.5)
    store.runs.begin(a_claim(store), a_run(coder="claude", output_tokens=99, cost_usd=99.0))
    assert store.accounts.totals() == [
        AccountTotal(coder="claude", runs=2, tokens=8642, cost_usd=0.25),
        AccountTotal(coder="claude", account="work", runs=1, tokens=7, cost_usd=0.5),
    ]


def test_run_is_summed_once_however_often_it_ends(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run(coder="claude")).replace(output_tokens=5)
    for _ in range(3):
        store.runs.end(run)
    assert store.accounts.totals() == [AccountTotal(coder="claude", runs=1, tokens=5)]


def test_abandoned_run_is_summed_when_the_next_begins(store: Store) -> None:
    claim = a_claim(store)
    store.runs.fold(claim, store.runs.begin(claim, a_run(coder="claude")).replace(output_tokens=5))
    store.claims.release(claim)
    store.runs.begin(next_claim(store), a_run(coder="claude"))
    assert store.accounts.totals() == [AccountTotal(coder="claude", runs=1, tokens=5)]


def test_sums_are_rolled_back_with_the_end_of_their_run(store: Store) -> None:
    an_ended_run(store, output_tokens=1)
    run = store.runs.begin(a_claim(store), a_run(coder="claude"))
    before = (store.accounts.totals(), store.accounts.all())
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.runs.end(run.replace(output_tokens=10))
        store.accounts.note_strikes("claude", "", strikes=9)
        raise ZeroDivisionError
    assert (store.accounts.totals(), store.accounts.all()) == before


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), float("-inf"), -1.0, 1e300, None])
def test_run_with_invalid_usage_ends_and_does_not_change_the_sums(store: Store, cost: float | None) -> None:
    for _ in range(3):
        an_ended_run(store, input_tokens=2**62, output_tokens=2**62, cost_usd=cost)
    an_ended_run(store, input_tokens=-5, cost_usd=0.5)
    (total,) = store.accounts.totals()
    assert (total.runs, total.tokens, total.cost_usd) == (4, MOST_TOKENS, 0.5)
    assert store.runs.live() == []


def test_sum_of_costs_has_an_upper_bound(store: Store) -> None:
    with store.atomic():
        for _ in range(1001):
            store.runs.end(store.runs.begin(a_claim(store), a_run(coder="claude")).replace(cost_usd=1e12))
    assert store.accounts.totals()[0].cost_usd == MOST_USD


def a_quota(span: str = "5h", used: float | None = 40.0, resets: int | None = 60, seen: int = 0, **said: Any) -> Quota:
    """Return a quota seen some minutes after noon, with its reset some minutes after noon."""
    at = None if resets is None else NOON + resets * MINUTE
    given = {"coder": "claude", "span": span, "used_pct": used, "resets_at": at, "seen_at": NOON + seen * MINUTE}
    return Quota(**given | said)


def test_quotas_are_kept_by_account_and_window_and_updated(store: Store) -> None:
    week = a_quota("7d", 12.5, 6_000)
    store.accounts.note_quotas([a_quota(), week, a_quota(account="work", used=None)])
    assert store.accounts.quotas() == [a_quota(), week, a_quota(account="work", used=None)]
    for seen, kept in [
        (a_quota(used=45.0, seen=5), a_quota(used=45.0, seen=5)),
        (a_quota(used=1.0, seen=2), a_quota(used=45.0, seen=5)),  # a late earlier report
        (a_quota(used=None, resets=None, seen=6), a_quota(used=45.0, seen=6)),
        (a_quota(used=50.0, resets=None, seen=7), a_quota(used=50.0, seen=7)),
        (a_quota(used=None, resets=61, seen=8), a_quota(used=50.0, resets=61, seen=8)),  # a rounded time
        (a_quota(used=None, resets=361, seen=62), a_quota(used=None, resets=361, seen=62)),  # the window began again
        (a_quota(used=3.0, resets=None, seen=400), a_quota(used=3.0, resets=None, seen=400)),
    ]:
        store.accounts.note_quotas([seen])
        assert store.accounts.quotas()[0] == kept
    assert store.accounts.quotas()[1:] == [week, a_quota(account="work", used=None)]
    assert [week.is_stale(NOON + minutes * MINUTE) for minutes in (5_999, 6_000)] == [False, True]


def test_account_is_parked_until_a_time_and_unparked(store: Store) -> None:
    assert store.accounts.all() == []
    store.accounts.park("codex", "work", until=NOON + MINUTE / 60_000_000, reason=UNICODE)
    store.accounts.park("claude", "", until=NOON, reason="five hours")
    codex = Account(coder="codex", name="work", parked_until=NOON + MINUTE / 60_000_000, parked_reason=UNICODE)
    assert store.accounts.all() == [Account(coder="claude", parked_until=NOON, parked_reason="five hours"), codex]
    store.accounts.park("claude", "", until=NOON - HOUR, reason="the last word counts")
    assert store.accounts.all()[0].parked_until == NOON - HOUR
    store.accounts.park("claude", "", until=None, reason="")
    assert store.accounts.all() == [Account(coder="claude"), codex]


def test_unparking_creates_no_account(store: Store) -> None:
    store.accounts.park("claude", "", until=None, reason="for no reason")
    assert store.accounts.all() == []


def test_parking_is_rolled_back_with_its_transaction(store: Store) -> None:
    store.accounts.park("claude", "", until=NOON, reason="limit")
    before = store.accounts.all()
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.accounts.park("claude", "", until=None, reason="")
        store.accounts.park("codex", "", until=NOON, reason="limit")
        raise ZeroDivisionError
    assert store.accounts.all() == before
