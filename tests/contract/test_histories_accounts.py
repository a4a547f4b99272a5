"""What every history promises about accounts: their use, their strikes, and what their runs took in all."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON
from contract.history_builders import a_claim, a_run, next_claim
from fleet.core.run import Account, AccountTotal, Quota
from fleet.store.base import History, Queue
from fleet.store.run_rules import MOST_TOKENS, MOST_USD

pytestmark = pytest.mark.bd_in_soak


def an_ended_run(queue: Queue, history: History, **said: Any) -> None:
    """A run of a task of its own, begun and ended."""
    given = {"coder": "claude", **said}
    run = history.begin(a_claim(queue), a_run(coder=given["coder"], account=given.get("account", "")))
    history.end(run.replace(**given))


def test_beginning_a_run_notes_when_its_account_was_used(queue: Queue, history: History) -> None:
    history.begin(a_claim(queue), a_run(coder="claude", account="work"))
    history.begin(a_claim(queue), a_run(coder="claude", account="work", started_at=NOON + HOUR))
    history.begin(a_claim(queue), a_run(coder="codex"))
    history.begin(a_claim(queue), a_run())  # whoever names no coder uses no account
    used = [Account(coder="claude", name="work", used_at=NOON + HOUR), Account(coder="codex", used_at=NOON)]
    assert history.accounts() == used


def test_strikes_are_kept_beside_all_else_about_an_account(queue: Queue, history: History) -> None:
    history.note_account("claude", "work", strikes=2)
    history.park("claude", "work", until=NOON, reason="too many requests")
    history.begin(a_claim(queue), a_run(coder="claude", account="work"))
    known: dict[str, Any] = {
        "coder": "claude",
        "name": "work",
        "parked_until": NOON,
        "parked_reason": "too many requests",
    }
    assert history.accounts() == [Account(**known, strikes=2, used_at=NOON)]
    history.note_account("claude", "work", strikes=0)
    assert history.accounts() == [Account(**known, used_at=NOON)]
    history.park("claude", "work", until=None, reason="")
    history.note_account("claude", "work", strikes=3)
    assert history.accounts() == [Account(coder="claude", name="work", strikes=3, used_at=NOON)]


def test_what_runs_took_is_summed_by_account_as_they_end(queue: Queue, history: History) -> None:
    assert history.account_totals() == []
    tokens = {"input_tokens": 1, "output_tokens": 20, "cache_read_tokens": 300, "cache_write_tokens": 4000}
    an_ended_run(queue, history, **tokens, cost_usd=0.25)
    an_ended_run(queue, history, **tokens)
    an_ended_run(queue, history, account="work", output_tokens=7, cost_usd=0.5)
    history.begin(a_claim(queue), a_run(coder="claude", output_tokens=99, cost_usd=99.0))
    assert history.account_totals() == [
        AccountTotal(coder="claude", runs=2, tokens=8642, cost_usd=0.25),
        AccountTotal(coder="claude", account="work", runs=1, tokens=7, cost_usd=0.5),
    ]


def test_a_run_is_summed_once_however_often_it_ends(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run(coder="claude")).replace(output_tokens=5)
    for _ in range(3):
        history.end(run)
    assert history.account_totals() == [AccountTotal(coder="claude", runs=1, tokens=5)]


def test_a_run_that_nobody_ended_is_summed_when_the_next_begins(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    history.fold(claim, history.begin(claim, a_run(coder="claude")).replace(output_tokens=5))
    queue.release(claim)
    history.begin(next_claim(queue), a_run(coder="claude"))
    assert history.account_totals() == [AccountTotal(coder="claude", runs=1, tokens=5)]


def test_sums_are_taken_back_with_the_end_they_belong_to(queue: Queue, history: History) -> None:
    an_ended_run(queue, history, output_tokens=1)
    run = history.begin(a_claim(queue), a_run(coder="claude"))
    before = (history.account_totals(), history.accounts())
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.end(run.replace(output_tokens=10))
        history.note_account("claude", "", strikes=9)
        raise ZeroDivisionError
    assert (history.account_totals(), history.accounts()) == before


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), float("-inf"), -1.0, 1e300, None])
def test_a_run_that_tells_nonsense_still_ends_and_spoils_no_sum(
    queue: Queue, history: History, cost: float | None
) -> None:
    for _ in range(3):
        an_ended_run(queue, history, input_tokens=2**62, output_tokens=2**62, cost_usd=cost)
    an_ended_run(queue, history, input_tokens=-5, cost_usd=0.5)
    (total,) = history.account_totals()
    assert (total.runs, total.tokens, total.cost_usd) == (4, MOST_TOKENS, 0.5)
    assert history.live() == []


def test_sums_of_money_have_a_bound_too(queue: Queue, history: History) -> None:
    with queue.atomic():
        for _ in range(1001):
            history.end(history.begin(a_claim(queue), a_run(coder="claude")).replace(cost_usd=1e12))
    assert history.account_totals()[0].cost_usd == MOST_USD


def test_ended_runs_are_told_in_parts_by_their_end(queue: Queue, history: History) -> None:
    ends = [NOON - MINUTE * minutes for minutes in (5, 3, 3, 3, 1, 0)]
    ids = []
    for number, ended_at in enumerate(ends):
        run = history.begin(a_claim(queue, id=f"t-{number}"), a_run())
        history.end(run.replace(ended_at=ended_at))
        ids.append(run.id)
    history.begin(a_claim(queue), a_run())
    found: list[str] = []
    after = None
    while part := history.ended(before=NOON, after=after, limit=2):
        assert len(part) <= 2 and part[0].id not in found
        found += [run.id for run in part]
        last = part[-1]
        assert last.ended_at is not None
        after = (last.ended_at, last.id)
    assert found == ids[:5]  # the last one ended at the moment itself, and one lives
    assert history.ended(before=NOON - HOUR, limit=9) == []


def a_quota(span: str = "5h", used: float | None = 40.0, resets: int | None = 60, seen: int = 0, **said: Any) -> Quota:
    """A window as seen some minutes after noon, which begins again some minutes after noon."""
    at = None if resets is None else NOON + resets * MINUTE
    given = {"coder": "claude", "span": span, "used_pct": used, "resets_at": at, "seen_at": NOON + seen * MINUTE}
    return Quota(**given | said)


def test_quotas_are_kept_by_account_and_window_and_later_words_add_to_them(history: History) -> None:
    week = a_quota("7d", 12.5, 6_000)
    history.note_quotas([a_quota(), week, a_quota(account="work", used=None)])
    assert history.quotas() == [a_quota(), week, a_quota(account="work", used=None)]
    for seen, kept in [
        (a_quota(used=45.0, seen=5), a_quota(used=45.0, seen=5)),
        (a_quota(used=1.0, seen=2), a_quota(used=45.0, seen=5)),  # an earlier word that came late
        (a_quota(used=None, resets=None, seen=6), a_quota(used=45.0, seen=6)),
        (a_quota(used=50.0, resets=None, seen=7), a_quota(used=50.0, seen=7)),
        (a_quota(used=None, resets=61, seen=8), a_quota(used=50.0, resets=61, seen=8)),  # a moment that is rounded
        (a_quota(used=None, resets=361, seen=62), a_quota(used=None, resets=361, seen=62)),  # it began again
        (a_quota(used=3.0, resets=None, seen=400), a_quota(used=3.0, resets=None, seen=400)),
    ]:
        history.note_quotas([seen])
        assert history.quotas()[0] == kept
    assert history.quotas()[1:] == [week, a_quota(account="work", used=None)]
    assert [week.is_stale(NOON + minutes * MINUTE) for minutes in (5_999, 6_000)] == [False, True]
