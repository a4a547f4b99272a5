"""Statistics of coders and models: rates, retries and costs, computed from counts alone."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, a_task
from fleet.actions.proof.stats import moment, standings, summed, total
from fleet.core.errors import BadInput
from fleet.core.finding import Finding
from fleet.core.receipt import FindingCount
from fleet.core.task import Status
from receipted import an_open_fleet, ended


def a_count(finding: str, runs: int, **changes: Any) -> FindingCount:
    return FindingCount(**{"coder": "claude", "model": "opus", "finding": finding, "runs": runs, **changes})


def test_verified_rate_counts_only_runs_with_a_judgment() -> None:
    counts = [a_count(Finding.VERIFIED, 3), a_count(Finding.FABRICATED, 1), a_count(Finding.INFRA_ERROR, 50)]
    [row] = summed([*counts, a_count("", 7)])
    assert (row.runs, row.judged, row.verified, row.verified_rate) == (61, 4, 3, 0.75)


def test_cost_per_verified_task_includes_failed_runs() -> None:
    good = a_count(Finding.VERIFIED, 2, first_runs=1, cost_usd=1.0, costed=2, seconds=60.0)
    bad = a_count(Finding.FAILED_VERIFY, 1, first_runs=1, cost_usd=0.5, costed=1, seconds=30.0)
    [row] = summed([good, bad])
    assert (row.cost_per_verified, row.retries, row.mean_seconds) == (0.75, 1, 30.0)


def test_unknown_rates_and_costs_are_none() -> None:
    [row] = summed([a_count(Finding.INFRA_ERROR, 1)])
    assert (row.verified_rate, row.cost_per_verified) == (None, None)
    assert row.view()["cost_usd"] is None and row.view()["findings"] == {"infra_error": 1}


def test_models_are_listed_separately_and_summed() -> None:
    rows = summed(
        [a_count(Finding.VERIFIED, 2), a_count(Finding.VERIFIED, 3, model="haiku"), a_count("", 1, coder="x")]
    )
    assert [(row.coder, row.model, row.runs) for row in rows] == [
        ("claude", "opus", 2),
        ("claude", "haiku", 3),
        ("x", "opus", 1),
    ]
    both = total(rows)
    assert (both.runs, both.verified, both.judged) == (6, 5, 5)


def test_stats_are_computed_from_the_store(tmp_path: Path) -> None:
    with an_open_fleet(tmp_path / "home") as fleet:
        task = a_task(created_at=fleet.store.now())
        fleet.store.tasks.add(task)
        ended(fleet, task=task, finding=Finding.FAILED_VERIFY, status=Status.OPEN, cost_usd=0.25)
        ended(fleet, task=task, cost_usd=0.75)
        ended(fleet, model="haiku", cost_usd=None)
        ended(fleet, coder="codex", model="", finding=Finding.FABRICATED, took=2 * MINUTE)
        found = {(row.coder, row.model): row for row in standings(fleet)}
        opus = found["claude", "opus"]
        assert (opus.tasks, opus.runs, opus.retries, opus.verified_rate) == (1, 2, 1, 0.5)
        assert (opus.cost_per_verified, opus.mean_seconds) == (1.0, 60.0)
        assert found["claude", "haiku"].cost_per_verified is None
        assert found["codex", ""].view()["findings"] == {"fabricated": 1}
        assert [row.coder for row in standings(fleet, coder="codex")] == ["codex"]
        assert standings(fleet, since=fleet.store.now() + HOUR) == []


def test_span_is_relative_to_now_and_a_date_is_its_day() -> None:
    assert moment("7d", now=NOON) == datetime(2026, 2, 22, 12, 0, 0, 123456, tzinfo=UTC)
    assert moment("2026-01-15", now=NOON) == datetime(2026, 1, 15, tzinfo=UTC)
    assert moment("-2h", now=NOON) == NOON - 2 * HOUR


@pytest.mark.parametrize("text", ["+7d", "tomorrow", "soon", "", "2030-01-01"])
def test_future_or_meaningless_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        moment(text, now=NOON)
