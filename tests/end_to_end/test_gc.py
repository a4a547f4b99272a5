"""`fleet gc`: removes only the raw output of runs that ended long ago."""

import contextlib
import json
import os
from datetime import timedelta
from pathlib import Path

from fleet.core.task import Caller, Status, Verdict
from live_runs import Records, records

__all__ = ["records"]

RAW = ("stdout", "stderr", "stdout.tail", "stderr.tail")


def an_old_run(records: Records, *, days: float = 31) -> Path:
    """Return the folder of a run that ended so many days ago, with 4 × 1000 bytes of raw output."""
    task = records.create("a task")
    claim, run = records.begin(task)
    folder = records.fleet.home / "tasks" / task / "runs" / str(run.number)
    folder.mkdir(parents=True)
    for name in RAW:
        (folder / name).write_bytes(b"x" * 1000)
    (folder / "exit.json").write_text("{}")
    (folder.parent.parent / "events.jsonl").write_text("{}\n")
    records.store.runs.end(run.replace(ended_at=records.store.now() - timedelta(days=days), ending="finished"))
    records.store.claims.settle(claim, Verdict(status=Status.CLOSED))
    return folder


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_gc_removes_exactly_what_the_dry_run_lists(records: Records) -> None:
    old, young = an_old_run(records), an_old_run(records, days=29)
    told = records.fleet.ok("gc", "--dry-run")
    assert told == "would remove the raw output of 1 run: 4 files, 4.0 kB\n"
    assert names(old) == {*RAW, "exit.json"}
    assert records.fleet.ok("gc", "--yes") == "removed the raw output of 1 run: 4 files, 4.0 kB\n"
    assert names(old) == {"exit.json"} and names(young) == {*RAW, "exit.json"}
    assert (old.parent.parent / "events.jsonl").exists()
    assert records.fleet.ok("gc", "--yes") == "no raw output to remove: fleet keeps it for 30 days\n"


def test_gc_keeps_raw_output_as_long_as_the_setting_says(records: Records) -> None:
    folder = an_old_run(records, days=2)
    records.fleet.ok("config", "set", "supervisor.raw_days=1")
    told = json.loads(records.fleet.ok("gc", "--json", "--yes"))
    assert {name: told[name] for name in ("dry_run", "raw_days", "runs", "files", "bytes", "failed")} == {
        **{"dry_run": False, "raw_days": 1, "runs": 1, "files": 4, "bytes": 4000, "failed": 0}
    }
    assert names(folder) == {"exit.json"}
    assert records.fleet("config", "set", "supervisor.raw_days=0").code != 0


def test_gc_refuses_a_task_folder_that_an_agent_replaced_by_a_link(records: Records, tmp_path: Path) -> None:
    folder = an_old_run(records)
    task = folder.parent.parent
    elsewhere = tmp_path / "elsewhere"
    task.rename(elsewhere)
    task.symlink_to(elsewhere)
    done = records.fleet("gc", "--yes")
    assert done.code == 1 and "1 could not be removed" in done.err and f"run {task.name}/1" in done.err
    assert names(elsewhere / "runs" / "1") == {*RAW, "exit.json"}


def test_run_stays_on_record_when_its_task_was_deleted(records: Records) -> None:
    folder = an_old_run(records)
    task = folder.parent.parent.name
    records.fleet.ok("bd", "delete", task, "--force")
    assert "4 files" in records.fleet.ok("gc", "--yes")
    assert names(folder) == {"exit.json"} and [run.ending for run in records.store.runs.of_task(task)] == ["finished"]


def test_gc_is_refused_when_an_agent_calls(records: Records) -> None:
    folder = an_old_run(records)
    claim, run = records.begin(records.create("mine"))
    token = records.store.tokens.issue(claim, Caller(task_id=run.task_id, run_id=run.id, epoch=claim.epoch))
    for words in (("gc",), ("gc", "--dry-run")):
        done = records.fleet(*words, FLEET_RUN_TOKEN=token)
        assert done.code == 1 and "an agent may not remove raw output" in done.err
    assert names(folder) == {*RAW, "exit.json"}


def test_gc_fails_when_no_home_exists(records: Records) -> None:
    done = records.fleet("gc", FLEET_HOME=str(records.fleet.home) + "-nope")
    assert done.code == 1 and "no fleet home" in done.err


def test_gc_removes_nothing_when_nobody_agrees(records: Records) -> None:
    folder = an_old_run(records)
    for words in (("gc",), ("gc", "--json")):
        done = records.fleet(*words)
        assert done.code == 2 and "--yes" in done.err and names(folder) == {*RAW, "exit.json"}
    code, screen = typed(records, b"n\n")
    assert code == 1 and names(folder) == {*RAW, "exit.json"}
    assert "would remove the raw output of 1 run: 4 files, 4.0 kB" in screen and "Remove all of this?" in screen
    assert typed(records, b"y\n")[0] == 0 and names(folder) == {"exit.json"}


def typed(records: Records, answer: bytes) -> tuple[int, str]:
    """Run `fleet gc` at a terminal, where the user types the answer. Return the exit code and the screen."""
    ours, theirs = os.openpty()
    program = records.fleet.start("gc", stdin=theirs, stdout=theirs, stderr=theirs)
    os.write(ours, answer)
    code = program.wait(60)
    os.close(theirs)
    screen = b""
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 4096):
            screen += piece
    os.close(ours)
    return code, screen.decode()
