"""`fleet runs`: every run of a task, and two runs side by side."""

import json

from fleet.core.task import Verdict
from live_runs import Records, records

__all__ = ["records"]


def twice_run(records: Records) -> str:
    """Return a task with a failed and a successful run."""
    task = records.create("a task")
    claim, run = records.begin(task, model="m1")
    records.end(claim, run.replace(input_tokens=100), "failed", Verdict(status="open"), reason="exit code 3")
    claim, run = records.begin(task, model="m2")
    spent = run.replace(input_tokens=2000, cost_usd=0.25)
    records.end(claim, spent, "finished", Verdict(status="closed"), reason="done", finding="unverified")
    return task


def test_runs_shows_every_run_with_its_end_and_usage(records: Records) -> None:
    task = twice_run(records)
    drawn = records.fleet.ok("runs", task)
    for part in ("failed", "exit code 3", "finished (unverified)", "2.0k", "$0.2500", "m1", "m2"):
        assert part in drawn
    first, second = json.loads(records.fleet.ok("runs", task, "--json"))
    assert (first["number"], first["ending"], first["reason"], first["tokens"]) == (1, "failed", "exit code 3", 100)
    assert (second["number"], second["ending"], second["cost_usd"], second["live"]) == (2, "finished", 0.25, False)


def test_runs_compares_two_runs_side_by_side(records: Records) -> None:
    task = twice_run(records)
    drawn = records.fleet.ok("runs", task, "--compare", "1", "2")
    assert f"{task}/1" in drawn and f"{task}/2" in drawn and "exit code 3" in drawn
    sides = json.loads(records.fleet.ok("runs", task, "--compare", "2", "1", "--json"))
    assert [side["number"] for side in sides] == [2, 1]
    assert records.fleet("runs", task, "--compare", "1", "9").code == 1


def test_runs_compares_two_tasks_side_by_side(records: Records) -> None:
    one, other = twice_run(records), twice_run(records)
    sides = json.loads(records.fleet.ok("runs", one, other, "--json"))
    assert [(side["task"], side["runs"], side["all_tokens"]) for side in sides] == [(one, 2, 2100), (other, 2, 2100)]
    assert one in records.fleet.ok("runs", one, other)
    assert records.fleet("runs", one, other, one).code == 2


def test_runs_reports_a_task_that_never_ran(records: Records) -> None:
    task = records.create("a task")
    done = records.fleet("runs", task)
    assert (done.code, done.out) == (0, "") and "has no run yet" in done.err
    assert json.loads(records.fleet.ok("runs", task, "--json")) == []
    assert records.fleet("runs", "nope").code == 1


def test_glob_is_refused_with_the_names_when_it_fits_several_tasks(records: Records) -> None:
    first, second = records.create("one"), records.create("two")
    for words in (("runs", "fleet-*"), ("task", "fleet-*", "log")):
        done = records.fleet(*words)
        assert done.code == 2 and first in done.err and second in done.err, done
