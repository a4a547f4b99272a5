"""`fleet tasks`: running tasks, and the reasons why others wait."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from fleet.core.task import Status, Verdict
from fleet.supervisor.host import owner_of, settings_here
from fleet.supervisor.lock import Single
from live_runs import Records, records
from program import Program
from stub_clis import with_stub_clis

__all__ = ["records"]


@contextmanager
def supervised(records: Records, no_login: list[list[str]] | None = None, **said: Any) -> Iterator[None]:
    """Hold the lock of the home with this note, as its supervisor does."""
    single = Single(records.home)
    single.take(**said)
    single.add(**({} if no_login is None else {"no_login": no_login}))
    try:
        yield
    finally:
        single.release()


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
    with supervised(records):
        heads, row = records.fleet.ok("tasks", COLUMNS="90").splitlines()
        assert "Title" in heads and "Cost" in heads and "Cwd" not in heads
        assert "count the stars" in row and row.endswith("…") and len(row) == 90
        key = row.split()[0]
        heads, row = records.fleet.ok("tasks", COLUMNS="40").splitlines()
        assert row.startswith(f"{key} ") and len(row) <= 40
        assert {"Run", "Cwd"} <= {*records.fleet.ok("tasks", "--wide", COLUMNS="40").splitlines()[0].split()}


def test_amounts_are_totals_over_all_runs_of_a_task(records: Records) -> None:
    key, now = records.create("again"), records.store.now()
    used = {"input_tokens": 100, "cost_usd": 0.25, "cost_basis": "reported"}
    claim, run = records.begin(key, started_at=now - timedelta(minutes=10))
    records.end(claim, run, "failed", Verdict(status=Status.OPEN), **used)
    claim, run = records.begin(key, started_at=now - timedelta(minutes=5))
    records.store.runs.fold(claim, run.replace(**used))
    with supervised(records):
        for words in ("tasks", "list --all-projects --all"):
            for row in json.loads(records.fleet.ok(*words.split(), "--json")):
                assert (row["tokens"], row["cost_usd"], row["cost_basis"]) == (200, 0.5, "reported")
        (row,) = json.loads(records.fleet.ok("tasks", "--json"))
        assert row["number"] == 2 and row["elapsed_seconds"] == pytest.approx(900, abs=60)
        assert "$0.5000" in records.fleet.ok("tasks")


def test_agents_whose_processes_are_gone_are_not_counted_as_running(records: Records) -> None:
    key = records.create("lost", "--coder", "demo")
    records.begin(key)
    done = records.fleet("tasks")
    assert "no supervisor is running: 1 agent gone; run `fleet run start`" in done.err
    assert "0 running, 0 ready, 1 lost" in done.err and "its processes are gone" in done.out
    asked = records.fleet("doctor")
    assert asked.code == 1 and f"recorded as running, but their processes are gone: {key}" in asked.out


def test_tasks_examines_the_coder_that_the_running_supervisor_uses(records: Records) -> None:
    records.create("any coder")
    with supervised(records, said={"coder": "agy"}):
        told = records.fleet("tasks").err
        assert "agy cannot be used" in told and "claude" not in told
        assert "agy cannot be used" in records.fleet("doctor").out


def test_one_missing_coder_is_not_why_nothing_starts_when_others_can(records: Records) -> None:
    for coder in ("demo", "agy"):
        records.create("a task", "--coder", coder)
    with supervised(records):
        told = records.fleet("tasks").err
    assert "some tasks wait: agy cannot be used" in told and "starts:" not in told


def test_slots_of_terminals_are_not_those_of_headless_agents(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_runs.OWNER", owner_of(records.home, settings_here(records.home)))
    records.fleet.ok("config", "set", "max_concurrent=1", "limits.max_interactive=1")
    key, other = records.create("types", "--coder", "demo"), records.create("waits", "--coder", "demo")
    with records.store.atomic():
        records.store.tasks.save(records.store.tasks.get(key).replace(mode="interactive"))
    with supervised(records):
        records.begin(key)
        assert "starts" not in records.fleet("tasks").err
        with records.store.atomic():
            records.store.tasks.save(records.store.tasks.get(other).replace(mode="interactive"))
        assert "the only slot for interactive agents is in use" in records.fleet("tasks").err


def test_missing_login_is_reported_before_a_run_met_it(records: Records) -> None:
    with_stub_clis(records.fleet)
    records.create("a task", "--coder", "claude")
    records.fleet.ok("config", "set", "coder=claude")
    assert "login" not in records.fleet("tasks").err
    del records.fleet.env["ANTHROPIC_API_KEY"]
    why = "claude is not logged in: none of ANTHROPIC_API_KEY, "
    assert why in records.fleet("tasks").err
    asked = records.fleet("doctor")
    assert asked.code == 1 and f"✗ login: {why}" in asked.out
    with supervised(records, no_login=[]):
        assert "logged in" not in records.fleet("tasks").err, "the supervisor has a login"


def test_project_without_trust_is_named(records: Records) -> None:
    key = records.create("a task")
    with records.store.atomic():
        reason = "the project file of /r has commands that you have not trusted: make"
        changed = {"status": Status.BLOCKED, "reason": reason, "repo": "/r"}
        records.store.tasks.save(records.store.tasks.get(key).replace(**changed))
    assert (
        "some tasks wait: /r is not trusted (1 task waits for it); run `fleet trust /r`" in records.fleet("tasks").err
    )


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
    assert "no supervisor is running" in told and "paused; run `fleet resume` to continue" in told
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
    assert "the supervisor runs only tasks of `fleet create` (1 task waits for it); run `fleet run start`" in told


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
