"""`fleet stats`: how much of each coder's work was proven, and its cost."""

import json

import pytest

from builders import a_task
from fleet.core.finding import Finding
from fleet.core.task import Status
from program import Program
from receipted import an_open_fleet, ended


@pytest.fixture(autouse=True)
def runs(fleet: Program) -> None:
    with an_open_fleet(fleet.home) as opened:
        task = a_task(created_at=opened.store.now())
        opened.store.tasks.add(task)
        ended(opened, task=task, finding=Finding.FAILED_VERIFY, status=Status.OPEN, cost_usd=0.5)
        ended(opened, task=task, cost_usd=1.5)
        ended(opened, coder="codex", model="", finding=Finding.OUT_OF_SCOPE)


def test_stats_has_a_row_for_each_coder_and_model_and_a_total(fleet: Program) -> None:
    found = json.loads(fleet.ok("stats", "--json"))
    claude, codex = found["rows"]
    assert (claude["coder"], claude["model"], claude["tasks"], claude["runs"]) == ("claude", "opus", 1, 2)
    assert (claude["verified_rate"], claude["retries"], claude["cost_per_verified_task_usd"]) == (0.5, 1, 2.0)
    assert claude["mean_seconds"] == 60.0 and claude["findings"] == {"verified": 1, "failed_verify": 1}
    assert (codex["verified_rate"], codex["cost_usd"], codex["findings"]) == (0.0, None, {"out_of_scope": 1})
    assert (found["total"]["runs"], found["total"]["verified"], found["since"]) == (3, 1, None)


def test_table_names_the_findings(fleet: Program) -> None:
    head, *rows = fleet.ok("stats").splitlines()
    assert "Verified" in head and "Failed verify" in head and "Out of scope" in head and "Fabricated" not in head
    assert [row.split()[0] for row in rows] == ["claude", "codex", "all"]
    assert "$2.00" in rows[0] and "50%" in rows[0]


def test_stats_can_be_limited_to_a_coder_and_a_time(fleet: Program) -> None:
    assert [row["coder"] for row in json.loads(fleet.ok("stats", "--coder", "codex", "--json"))["rows"]] == ["codex"]
    assert len(json.loads(fleet.ok("stats", "--since", "1d", "--json"))["rows"]) == 2
    assert json.loads(fleet.ok("stats", "--coder", "nobody", "--json"))["rows"] == []


@pytest.mark.parametrize("since", ["tomorrow", "gibberish"])
def test_invalid_time_is_refused(fleet: Program, since: str) -> None:
    result = fleet("stats", "--since", since)
    assert result.code in (1, 2) and result.err.startswith("error: ") and "hint:" in result.err
