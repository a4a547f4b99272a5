"""`fleet tasks`: running tasks, and the reasons why others wait."""

import json
from datetime import timedelta

import pytest

from fleet.supervisor.lock import Single
from live_runs import Records, records
from program import Program

__all__ = ["records"]


def test_tasks_reports_when_nothing_runs_or_waits(records: Records) -> None:
    done = records.fleet("tasks")
    assert (done.code, done.out, done.err) == (0, "", "nothing is running or waiting\n")
    assert json.loads(records.fleet.ok("tasks", "--json")) == []


def test_tasks_gives_a_hint_without_a_home(fleet: Program) -> None:
    done = fleet("tasks")
    assert done.code == 1
    assert "no fleet home" in done.err and "fleet init" in done.err


def test_live_run_is_shown_with_its_usage(records: Records) -> None:
    task = records.create("count the stars", "--coder", "demo")
    began = records.store.now() - timedelta(hours=75, minutes=30)
    claim, run = records.begin(task, started_at=began, model="m1")
    folded = run.replace(events=7, input_tokens=1500, output_tokens=1000, cost_usd=0.5)
    heard = {"context_peak": 50_000, "context_window": 200_000, "last_event_at": began + timedelta(seconds=15)}
    records.store.runs.fold(claim, folded.replace(**heard))
    (row,) = json.loads(records.fleet.ok("tasks", "--json"))
    seen = {key: row[key] for key in ("id", "run", "coder", "model", "events", "tokens", "cost_usd")}
    assert seen == {
        **{"id": task, "run": f"{task}/1", "coder": "demo", "model": "m1", "events": 7, "tokens": 2500},
        "cost_usd": 0.5,
    }
    assert row["elapsed_seconds"] >= 75.5 * 3600
    assert row["elapsed_seconds"] - row["idle_seconds"] == pytest.approx(15, abs=1)
    assert row["context_percent"] == 25
    drawn = records.fleet.ok("tasks")
    for part in (task, "3d03h", "25%", "2.5k", "$0.5000", "demo", "m1", "count the stars", str(records.fleet.cwd)):
        assert part in drawn


def test_estimated_context_is_marked(records: Records) -> None:
    claim, run = records.begin(records.create("guess"))
    records.store.runs.fold(
        claim, run.replace(context_peak=74_000, context_window=200_000, folded='{"estimated": true}')
    )
    (row,) = json.loads(records.fleet.ok("tasks", "--json"))
    assert (row["context_percent"], row["context_estimated"]) == (37, True)
    assert "≈37%" in records.fleet.ok("tasks")


def test_inherited_values_differ_from_values_of_the_task(records: Records) -> None:
    own, plain = records.create("own", "--coder", "demo", "--model", "m2"), records.create("plain")
    records.begin(own, model="m2")
    records.store.claims.take(plain, "ada")
    rows = {row["id"]: row for row in json.loads(records.fleet.ok("tasks", "--json"))}
    assert (rows[own]["coder_inherited"], rows[own]["model_inherited"]) == (False, False)
    assert (rows[plain]["coder"], rows[plain]["coder_inherited"]) == ("claude", True)
    assert (rows[plain]["held_by"], rows[plain]["run"]) == ("ada", None)


def test_deferred_tasks_are_counted(records: Records) -> None:
    records.create("tomorrow", "--defer", "+1d")
    assert "0 running, 0 ready, 1 put off, 0 waiting for others, 0 blocked" in records.fleet("tasks").err


def test_narrow_screen_shows_fewer_columns_and_shorter_titles(records: Records) -> None:
    records.begin(records.create("count the stars " * 10))
    records.fleet.env["COLUMNS"] = "90"
    heads, row = records.fleet.ok("tasks").splitlines()
    assert "Title" in heads and "Cwd" not in heads
    assert "count the stars" in row and row.endswith("…") and len(row) == 90


def test_limit_is_respected_and_the_rest_counted(records: Records) -> None:
    for number in range(3):
        records.begin(records.create(f"task {number}"))
    done = records.fleet("tasks", "--limit", "1")
    assert len([line for line in done.out.splitlines() if "task " in line]) == 1
    assert "2 more; --limit 0 shows all" in done.err


def test_tasks_says_why_nothing_starts(records: Records) -> None:
    blocker = records.create("first", "--coder", "demo")
    records.create("second", "--deps", blocker)
    records.fleet.ok("pause")
    told = records.fleet("tasks").err
    assert "0 running, 1 ready, 1 waiting for others, 0 blocked" in told
    assert "no supervisor is running" in told and "paused; `fleet resume` goes on" in told
    records.fleet.ok("resume")
    assert "paused" not in records.fleet("tasks").err


def test_stopped_tasks_are_not_counted_as_blocked(records: Records) -> None:
    records.fleet.ok("kill", records.create("one"))
    assert records.fleet("tasks").err == "nothing is running or waiting\n"
    records.fleet.ok("bd", "update", records.create("two"), "--status", "blocked")
    assert "1 blocked" in records.fleet("tasks").err


def test_tasks_says_that_the_supervisor_runs_only_created_work(records: Records) -> None:
    supervisor = Single(records.home)
    supervisor.take(only_made=True)
    records.create("queued", "--coder", "demo")
    told = records.fleet("tasks").err
    supervisor.release()
    assert "the supervisor runs only what `fleet create` makes (1 task waits for it); run `fleet run start`" in told


def test_tasks_names_a_missing_coder_and_a_full_disk(records: Records) -> None:
    records.create("for nobody", "--coder", "nowhere.at_all:Coder")
    records.create("for another", "--coder", "agy")
    assert "nowhere.at_all:Coder cannot be used" in records.fleet("tasks").err
    assert "agy cannot be used: no program 'agy' is on the PATH" in records.fleet("tasks").err
    records.fleet.ok("config", "set", "supervisor.min_free_disk_mb=999999999")
    assert "min_free_disk_mb is 999999999" in records.fleet("tasks").err


def test_title_cannot_control_the_terminal(records: Records) -> None:
    task = records.create("plain")
    with records.store.atomic():
        records.store.tasks.save(records.store.tasks.get(task).replace(title="a\x1b[31mb [bold]c[/bold]"))
    records.begin(task)
    out = records.fleet.ok("tasks")
    assert "\x1b" not in out and "\\x1b[31mb [bold]c[/bold]" in out


def test_help_of_task_lists_running_tasks(records: Records) -> None:
    assert "Running now:\n  nothing" in records.fleet.ok("task", "--help")
    task = records.create("count the stars", "--coder", "demo")
    records.begin(task, model="m1")
    assert f"{task}  [demo/m1] count the stars" in records.fleet.ok("task", "--help")
