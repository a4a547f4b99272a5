"""`fleet task` and `fleet log`: reading and following files of the home."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from fleet.actions.control.home_files import LARGEST
from fleet.core.task import Verdict
from live_runs import Records, in_background, next_line, records
from program import Program

__all__ = ["records"]

PARTS = {
    "log": "log.jsonl",
    "plan": "artifacts/PLAN_AND_STATUS.md",
    "knowledge": "artifacts/KNOWLEDGE.md",
    "events": "events.jsonl",
    "qa": "artifacts/Q&A.md",
    "result": "artifacts/result.json",
    "stderr": "log.stderr",
}


def folder_of(records: Records, task: str) -> Path:
    folder = records.fleet.home / "tasks" / task
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("what", PARTS)
def test_every_part_is_printed_unchanged(records: Records, what: str) -> None:
    task = records.create("a task")
    (folder_of(records, task) / PARTS[what]).write_text(f"this is {what}\nünd more")
    assert records.fleet.ok("task", task, what) == f"this is {what}\nünd more\n"
    assert records.fleet.ok("task", task.removeprefix("fleet-"), what, "-n", "1") == "ünd more\n"


def test_missing_part_is_reported(records: Records) -> None:
    task = records.create("a task")
    done = records.fleet("task", task, "plan")
    assert (done.code, done.out) == (1, "") and "PLAN_AND_STATUS.md does not exist yet" in done.err
    assert records.fleet("task", "nope", "plan").code == 1
    assert records.fleet("task", task, "nothing").code == 2


def test_text_is_made_safe_for_the_terminal(records: Records) -> None:
    task = records.create("a task")
    (folder_of(records, task) / PARTS["stderr"]).write_bytes(b"\x1b]0;owned\x07 and \xff\n")
    out = records.fleet.ok("task", task, "stderr")
    assert "\x1b" not in out and "\x07" not in out and "\\x1b]0;owned\\x07 and" in out


def test_agent_cannot_expose_other_files(records: Records, tmp_path: Path) -> None:
    task = records.create("a task")
    (tmp_path / "secret").write_text("hunter2")
    folder = folder_of(records, task)
    (folder / PARTS["plan"]).symlink_to(tmp_path / "secret")
    os.mkfifo(folder / PARTS["knowledge"])
    for what in ("plan", "knowledge"):
        done = records.fleet("task", task, what)
        assert done.code == 1 and "hunter2" not in done.out
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "result.json").write_text("hunter2")
    (folder / "artifacts").rename(folder / "before")
    (folder / "artifacts").symlink_to(tmp_path / "elsewhere")
    assert "hunter2" not in records.fleet("task", task, "result").out


def test_end_of_a_huge_file_is_shown(records: Records) -> None:
    task = records.create("a task")
    with (folder_of(records, task) / PARTS["events"]).open("wb") as file:
        file.truncate(3 * LARGEST)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    assert records.fleet.ok("task", task, "events", "-n", "1") == "the end\n"


def test_following_prints_new_lines_until_the_task_has_ended(records: Records) -> None:
    task = records.create("a task")
    claim, run = records.begin(task)
    place = folder_of(records, task) / PARTS["log"]
    with in_background(records.fleet, "task", task, "log", "-f") as following:
        place.write_text("one\n")  # the file may appear later
        assert next_line(following.stdout) == "one\n"
        with place.open("a") as file:
            file.write("two\n")
        assert next_line(following.stdout) == "two\n"
        place.unlink()
        place.write_text("a new file\n")
        assert next_line(following.stdout) == "a new file\n"
        records.end(claim, run, "finished", Verdict(status="closed"))
        assert following.communicate(timeout=30) == ("", "")
        assert following.returncode == 0


def test_newest_log_is_printed_whole_or_its_end(records: Records) -> None:
    assert "no log exists yet" in records.fleet("log").err
    logs = records.fleet.home / "logging"
    (logs / "fleet-2026-01-01.jsonl").write_text("old\n")
    os.utime(logs / "fleet-2026-01-01.jsonl", (1, 1))
    (logs / "fleet-2026-01-02.jsonl").write_text("".join(f"line {number}\n" for number in range(1, 100_000)))
    assert records.fleet.ok("log").splitlines()[:1] == ["line 1"]
    assert records.fleet.ok("log", "2") == "line 99998\nline 99999\n"
    assert records.fleet.ok("log", "50000").count("\n") == 50_000
    assert records.fleet.ok("log", "-n", "1") == "line 99999\n"
    assert records.fleet("log", "0").code == records.fleet("log", "-n", "x").code == 2


def test_log_is_readable_on_a_terminal_and_json_otherwise(records: Records) -> None:
    event = {"ts": "2026-01-02T03:04:05.678+00:00", "level": "warning", "event": "lost\x1b[2J", "source": "fleet"}
    lines = [json.dumps(event), "not json", json.dumps(event | {"level": "info", "event": "claimed"})]
    (records.fleet.home / "logging" / "fleet-2026-01-02.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert records.fleet.ok("log").splitlines()[1] == "not json"
    assert json.loads(records.fleet.ok("log").splitlines()[0]) == event
    readable = on_terminal(records.fleet, "log").splitlines()
    assert readable[0].startswith("2026-01-02 03:04:05  warning: lost") and "\x1b" not in readable[0]
    assert readable[1:] == ["not json", "2026-01-02 03:04:05  claimed"]
    assert on_terminal(records.fleet, "log", "--json").splitlines()[2] == lines[2]


def on_terminal(fleet: Program, *words: str) -> str:
    """Return what a command prints on a terminal."""
    ours, theirs = os.openpty()
    program = fleet.start(*words, stdin=theirs, stdout=theirs, stderr=theirs)
    assert program.wait(60) == 0
    os.close(theirs)
    screen = b""
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 4096):
            screen += piece
    os.close(ours)
    return screen.decode().replace("\r\n", "\n")


def test_closed_pipe_is_no_error(records: Records) -> None:
    (records.fleet.home / "logging" / "fleet-2026-01-01.jsonl").write_text("a line of text\n" * 200_000)
    with in_background(records.fleet, "log") as reading:
        assert reading.stdout is not None and reading.stderr is not None
        reading.stdout.readline()
        reading.stdout.close()
        assert reading.stderr.read() == ""
        assert reading.wait(timeout=30) == 141
