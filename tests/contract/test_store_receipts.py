"""The contract of all stores for receipts: one per run, chained by owner, counted by coder and model."""

from datetime import timedelta
from typing import Any

import pytest

from builders import HOUR, NOON, FakeClock
from contract.store_builders import a_claim, a_receipt, a_run
from fleet.core.receipt import PIECES, chain_receipt, draft_receipt, flaws
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak


def test_receipt_is_returned_unchanged(store: Store) -> None:
    kept = store.receipts.keep(a_receipt("t-1/1", coder="claude", model="opus"))
    assert store.receipts.get("t-1/1") == kept and store.receipts.of_task("t-1") == [kept]
    assert flaws(kept) == [] and kept.previous == "" and len(kept.hash) == 64
    assert kept.told["pieces"]["git"] == {"files": ["t-1/1"]} and kept.told["shown"] == ["seen"]
    assert store.receipts.get("t-1/2") is None and store.receipts.of_task("t-2") == []


def test_receipts_form_one_chain_per_owner(store: Store) -> None:
    kept = [
        store.receipts.keep(a_receipt(f"{task}/{number}", owner=owner))
        for number, (task, owner) in enumerate([("a", "host"), ("b", "other"), ("a", "host"), ("c", "host")], 1)
    ]
    chain = store.receipts.chain("host")
    assert chain == [kept[0], kept[2], kept[3]] and store.receipts.chain("other") == [kept[1]]
    assert [each.previous for each in chain] == ["", chain[0].hash, chain[1].hash]
    assert kept[1].previous == "" and store.receipts.of_task("a") == [kept[0], kept[2]]


def test_first_receipt_of_a_run_counts(store: Store) -> None:
    first = store.receipts.keep(a_receipt("t/1"))
    assert store.receipts.keep(a_receipt("t/1", finding="fabricated")) == first
    assert store.receipts.chain("host") == [first]


def test_receipt_is_stored_with_end_and_verdict_or_not_at_all(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run(coder="demo"))
    with pytest.raises(ZeroDivisionError), store.atomic():
        kept = store.receipts.keep(a_receipt(run.id))
        store.runs.end(run.replace(receipt=kept.hash))
        raise ZeroDivisionError
    assert store.receipts.get(run.id) is None and store.runs.live() == [run]
    with store.atomic():
        kept = store.receipts.keep(a_receipt(run.id))
        store.runs.end(run.replace(finding=kept.finding, receipt=kept.hash))
    (ended,) = store.runs.of_task(run.task_id)
    assert (ended.receipt, ended.finding) == (kept.hash, "verified") and kept.previous == ""


def test_hashes_of_a_receipt_are_valid_for_any_text(store: Store) -> None:
    odd = {"git": {"files": ["\ud800", "a\0b", "\x1b[2J", "ü", '"', "\\"]}, "claims": {"summary": "x" * 100_000}}
    shown = ("it claims \udcff",)
    kept = store.receipts.keep(a_receipt("t/1", body=draft_receipt("verified", shown, odd), model="m\ud800"))
    found = store.receipts.get("t/1")
    assert found == kept
    assert found is not None and "its hash does not match its text" not in flaws(found)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"finding": "verified", "body": "{}"}, "its hash"),
        ({"previous": "0" * 64}, "its hash"),
        ({"made_at": NOON + HOUR}, "its hash"),
        ({"model": "another"}, "its hash"),
    ],
)
def test_changed_receipt_is_detected(changed: dict[str, Any], fault: str) -> None:
    kept = chain_receipt(a_receipt("t/1", finding="fabricated"), "")
    assert flaws(kept) == []
    assert any(fault in flaw for flaw in flaws(kept.replace(**changed)))


def test_changed_piece_is_named_when_the_receipt_was_rehashed() -> None:
    kept = chain_receipt(a_receipt("t/1"), "")
    forged = chain_receipt(kept.replace(body=kept.body.replace('"exit_status": 0', '"exit_status": 1')), "")
    assert flaws(forged) == ["the hash of its piece 'process' does not match its text"]
    assert set(kept.told["pieces"]) <= set(PIECES)


def test_ended_runs_are_counted_by_coder_model_and_finding(store: Store, clock: FakeClock) -> None:
    rows = [
        ("claude", "opus", "verified", 0.5, 1),
        ("claude", "opus", "verified", None, 2),
        ("claude", "opus", "fabricated", 0.25, 1),
        ("codex", "", "verified", None, 1),
        ("", "", "infra_error", None, 1),
    ]
    for coder, model, finding, cost, hours in rows:
        run = store.runs.begin(a_claim(store), a_run(coder=coder, model=model, started_at=clock()))
        clock.advance(timedelta(hours=hours))
        store.runs.end(run.replace(finding=finding, cost_usd=cost, input_tokens=hours, cache_read_tokens=10))
    store.runs.begin(a_claim(store), a_run(coder="claude"))
    assert [each.tokens for each in store.receipts.finding_counts()] == [11, 23, 11]
    found = [
        (each.coder, each.model, each.finding, each.runs, each.first_runs, each.cost_usd, each.costed, each.seconds)
        for each in store.receipts.finding_counts()
    ]
    assert found == [
        ("claude", "opus", "fabricated", 1, 1, 0.25, 1, 3600.0),
        ("claude", "opus", "verified", 2, 2, 0.5, 1, 3 * 3600.0),
        ("codex", "", "verified", 1, 1, 0.0, 0, 3600.0),
    ]
    since = store.receipts.finding_counts(since=NOON + 4 * HOUR)
    assert [(each.coder, each.finding, each.runs) for each in since] == [
        ("claude", "fabricated", 1),
        ("codex", "verified", 1),
    ]
