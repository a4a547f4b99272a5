"""Receipts as every history keeps them: one for each run, chained by owner, counted by coder and model."""

from datetime import timedelta
from typing import Any

import pytest

from builders import HOUR, NOON, FakeClock
from contract.history_builders import a_claim, a_receipt, a_run
from fleet.core.receipt import PIECES, chained, drafted, flaws
from fleet.store.base import History, Queue

pytestmark = pytest.mark.bd_in_soak


def test_what_is_kept_comes_back_and_is_as_it_was_made(history: History) -> None:
    kept = history.keep_receipt(a_receipt("t-1/1", coder="claude", model="opus"))
    assert history.receipt("t-1/1") == kept and history.receipts("t-1") == [kept]
    assert flaws(kept) == [] and kept.previous == "" and len(kept.hash) == 64
    assert kept.told["pieces"]["git"] == {"files": ["t-1/1"]} and kept.told["shown"] == ["seen"]
    assert history.receipt("t-1/2") is None and history.receipts("t-2") == []


def test_the_receipts_of_one_owner_are_a_chain_and_others_have_their_own(history: History) -> None:
    kept = [
        history.keep_receipt(a_receipt(f"{task}/{number}", owner=owner))
        for number, (task, owner) in enumerate([("a", "host"), ("b", "other"), ("a", "host"), ("c", "host")], 1)
    ]
    chain = history.receipt_chain("host")
    assert chain == [kept[0], kept[2], kept[3]] and history.receipt_chain("other") == [kept[1]]
    assert [each.previous for each in chain] == ["", chain[0].hash, chain[1].hash]
    assert kept[1].previous == "" and history.receipts("a") == [kept[0], kept[2]]


def test_of_one_run_the_first_receipt_counts(history: History) -> None:
    first = history.keep_receipt(a_receipt("t/1"))
    assert history.keep_receipt(a_receipt("t/1", finding="fabricated")) == first
    assert history.receipt_chain("host") == [first]


def test_a_receipt_is_kept_with_the_end_and_the_verdict_or_not_at_all(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run(coder="demo"))
    with pytest.raises(ZeroDivisionError), queue.atomic():
        kept = history.keep_receipt(a_receipt(run.id))
        history.end(run.replace(receipt=kept.hash))
        raise ZeroDivisionError
    assert history.receipt(run.id) is None and history.live() == [run]
    with queue.atomic():
        kept = history.keep_receipt(a_receipt(run.id))
        history.end(run.replace(finding=kept.finding, receipt=kept.hash))
    (ended,) = history.runs(run.task_id)
    assert (ended.receipt, ended.finding) == (kept.hash, "verified") and kept.previous == ""


def test_whatever_text_is_in_it_its_hashes_hold(history: History) -> None:
    odd = {"git": {"files": ["\ud800", "a\0b", "\x1b[2J", "ü", '"', "\\"]}, "claims": {"summary": "x" * 100_000}}
    shown = ("it claims \udcff",)
    kept = history.keep_receipt(a_receipt("t/1", body=drafted("verified", shown, odd), model="m\ud800"))
    found = history.receipt("t/1")
    assert found == kept
    assert found is not None and "its hash is not that of its words" not in flaws(found)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"finding": "verified", "body": "{}"}, "its hash"),
        ({"previous": "0" * 64}, "its hash"),
        ({"made_at": NOON + HOUR}, "its hash"),
        ({"model": "another"}, "its hash"),
    ],
)
def test_what_was_changed_in_a_receipt_is_seen(changed: dict[str, Any], fault: str) -> None:
    kept = chained(a_receipt("t/1", finding="fabricated"), "")
    assert flaws(kept) == []
    assert any(fault in flaw for flaw in flaws(kept.replace(**changed)))


def test_a_piece_that_was_changed_is_named_though_the_whole_was_hashed_anew() -> None:
    kept = chained(a_receipt("t/1"), "")
    forged = chained(kept.replace(body=kept.body.replace('"exit_status": 0', '"exit_status": 1')), "")
    assert flaws(forged) == ["the hash of its piece 'process' is not that of its words"]
    assert set(kept.told["pieces"]) <= set(PIECES)


def test_ended_runs_are_counted_by_coder_model_and_finding(queue: Queue, history: History, clock: FakeClock) -> None:
    rows = [
        ("claude", "opus", "verified", 0.5, 1),
        ("claude", "opus", "verified", None, 2),
        ("claude", "opus", "fabricated", 0.25, 1),
        ("codex", "", "verified", None, 1),
        ("", "", "infra_error", None, 1),
    ]
    for coder, model, finding, cost, hours in rows:
        run = history.begin(a_claim(queue), a_run(coder=coder, model=model, started_at=clock()))
        clock.advance(timedelta(hours=hours))
        history.end(run.replace(finding=finding, cost_usd=cost))
    history.begin(a_claim(queue), a_run(coder="claude"))
    found = [
        (each.coder, each.model, each.finding, each.runs, each.first_runs, each.cost_usd, each.costed, each.seconds)
        for each in history.finding_counts()
    ]
    assert found == [
        ("claude", "opus", "fabricated", 1, 1, 0.25, 1, 3600.0),
        ("claude", "opus", "verified", 2, 2, 0.5, 1, 3 * 3600.0),
        ("codex", "", "verified", 1, 1, 0.0, 0, 3600.0),
    ]
    since = history.finding_counts(since=NOON + 4 * HOUR)
    assert [(each.coder, each.finding, each.runs) for each in since] == [
        ("claude", "fabricated", 1),
        ("codex", "verified", 1),
    ]
