"""A coder that is not installed: its tasks wait uncounted, are tried rarely, and run once the coder is installed."""

from functools import partial
from pathlib import Path

from supervised import Supervised, home, wait_for

__all__ = ["home"]

# Prints the stream of the demo coder without any work.
FOUND = """#!/bin/sh
echo '{"type": "tool_use", "id": "1", "tool": "sh", "input": {}}'
echo '{"type": "result", "ok": true, "text": "found"}'
"""
DESCRIBED = """
[coders.later]
argv = ["later-cli"]
program = "later-cli"
[coders.later.output]
format = "jsonl"
success = { type = "result", ok = true }
tool = { path = "tool", when = { type = "tool_use" } }
"""


def test_tasks_of_a_missing_coder_wait_and_run_once_it_is_installed(home: Supervised, tmp_path: Path) -> None:
    with (home.fleet.home / "runtime.toml").open("a") as settings:
        settings.write(DESCRIBED)
    bin = tmp_path / "bin"
    bin.mkdir()
    home.fleet.env["PATH"] = f"{bin}:{home.fleet.env['PATH']}"
    key = home.create("nothing yet", "--coder", "later")
    home.start()
    wait_for(lambda: "not installed" in home.task(key)["reason"], "the reason", home.describe)
    other = home.create("ok")
    home.wait_status(other, "closed")
    task = home.task(key)
    assert (task["status"], task["failures"], task["claim_owner"]) == ("open", 0, "")
    assert home.runs(key) == []
    wait_for(lambda: "1 ready" in home.fleet("tasks").err, "the end of its pause", home.describe)
    assert "no program 'later-cli' is on the supervisor's PATH" in home.fleet("tasks").err
    (bin / "later-cli").write_text(FOUND)
    (bin / "later-cli").chmod(0o755)
    home.wait_status(key, "closed", patience=100)
    assert [run["ending"] for run in home.runs(key)] == ["finished"]


def test_task_made_by_cron_runs_when_only_the_supervisor_has_its_coder(home: Supervised, tmp_path: Path) -> None:
    usual = home.fleet.env["PATH"]
    home.fleet.env["PATH"] = f"{coder_in(home, tmp_path)}:{usual}"
    home.start()
    home.fleet.env["PATH"] = usual
    key = home.create("nothing", "--coder", "later")
    home.wait_status(key, "closed")
    assert home.task(key)["epoch"] == 1  # claimed once


def test_task_without_a_coder_on_any_path_is_tried_less_and_less_often(home: Supervised) -> None:
    with (home.fleet.home / "runtime.toml").open("a") as settings:
        settings.write(DESCRIBED)
    key = home.create("nothing", "--coder", "later")
    for tries in (1, 2, 3, 4):  # each supervisor tries once, because it remembers that the coder is missing
        home.start()
        wait_for(partial(has_been_tried, home, key, tries), f"try {tries}", home.describe)
        home.stop()
    task = home.task(key)
    assert task["defer_until"] - task["updated_at"] >= 8_000_000  # after 1, 2 and 4 s
    whose = "no program 'later-cli' is on the task's PATH or the supervisor's"
    home.start()
    asked = home.fleet("doctor")
    assert asked.code == 1 and key in asked.out and whose in asked.out
    assert whose in home.fleet("tasks").err
    assert whose in home.fleet("show", key).out


def test_doctor_and_tasks_search_the_path_of_the_supervisor(home: Supervised, tmp_path: Path) -> None:
    home.start()
    home.fleet.env["PATH"] = f"{coder_in(home, tmp_path)}:{home.fleet.env['PATH']}"
    home.set("coder=later")
    asked = home.fleet("doctor")
    assert asked.code == 1 and "no program 'later-cli' is on the supervisor's PATH" in asked.out


def has_been_tried(home: Supervised, key: str, tries: int) -> bool:
    task = home.task(key)
    return (task["epoch"], task["status"]) == (tries, "open")


def coder_in(home: Supervised, tmp_path: Path) -> Path:
    """Return a folder with the program of the described coder."""
    with (home.fleet.home / "runtime.toml").open("a") as settings:
        settings.write(DESCRIBED)
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "later-cli").write_text(FOUND)
    (bin / "later-cli").chmod(0o755)
    return bin
