"""`fleet receipt`: the record of a run in plain words, and a check that it is unchanged."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from fleet.core.finding import Finding
from fleet.core.task import Status
from program import Program
from projects import orders, use_shell_coder
from receipted import an_open_fleet, ended, pieces, write_file
from terminals import Terminals, home

__all__ = ["home"]


@pytest.fixture
def runs(fleet: Program) -> list[str]:
    """Return the runs of a task with one failed and one verified run, and of another task."""
    with an_open_fleet(fleet.home) as opened:
        task = a_task(id="fleet-aa", created_at=opened.store.now(), branch="fix/1", workspace="worktree")
        opened.store.tasks.add(task)
        failed = pieces(verify={"status": 1, "tail": "E  assert 1 == 2\x1b]0;owned\x07\n1 failed"})
        found = [ended(opened, task=task, finding=Finding.FAILED_VERIFY, told=failed, status=Status.OPEN)]
        found.append(ended(opened, task=task))
        other = a_task(id="fleet-bb", created_at=opened.store.now())
        opened.store.tasks.add(other)
        found.append(ended(opened, task=other, finding=Finding.FABRICATED))
        for run in found:
            write_file(opened, run)
    return [run.id for run in found]


def told(fleet: Program, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet("receipt", *words, "--json").out)
    return found


def test_last_run_of_a_task_is_shown_in_plain_words(fleet: Program, runs: list[str]) -> None:
    out = fleet.ok("receipt", "aa")
    assert out.startswith("fleet-aa/2: verified – real work")
    assert "`make test` ended with exit code 0 after 2.5 s; tests: 12 passed" in out
    assert out.splitlines()[-1] == "1 more of fleet-aa: `fleet receipt fleet-aa --run N`"


@pytest.mark.parametrize("words", [("fleet-aa/1",), ("aa/1",), ("fix/1", "--run", "1"), ("aa", "--run", "1")])
def test_any_run_can_be_named(fleet: Program, runs: list[str], words: tuple[str, ...]) -> None:
    out = fleet.ok("receipt", *words)
    assert out.startswith("fleet-aa/1: failed_verify") and "| 1 failed" in out
    assert "\x1b" not in out and "\x07" not in out, "what a command printed does not drive the terminal"


def test_name_counts_as_a_branch_when_it_also_looks_like_a_run(fleet: Program, runs: list[str]) -> None:
    assert fleet.ok("receipt", "fix/1").startswith("fleet-aa/2: ")


def test_json_has_every_piece_and_the_run(fleet: Program, runs: list[str]) -> None:
    found = told(fleet, "fleet-bb")
    assert (found["finding"], found["run_id"], found["run"]["ending"]) == ("fabricated", "fleet-bb/1", "finished")
    assert found["pieces"]["git"]["file_count"] == 2 and set(found["hashes"]) == set(found["pieces"])
    assert found["previous"] and len(found["hash"]) == 64


def test_unchanged_receipt_passes_the_check(fleet: Program, runs: list[str]) -> None:
    assert fleet.ok("receipt", "aa", "--check").endswith("checked: unchanged, in a chain of 3\n")
    assert told(fleet, "aa", "--check")["check"] == {"ok": True, "receipts": 3, "faults": [], "notes": []}


def change(fleet: Program, sql: str) -> None:
    with closing(sqlite3.connect(fleet.home / "fleet.db")) as database:
        database.execute(sql)
        database.commit()


BODY = "update receipts set body = replace(body, '\"file_count\": 2', '\"file_count\": 9')"


@pytest.mark.parametrize(
    ("sql", "told_as"),
    [
        (f"{BODY} where run = 'fleet-aa/2'", "fleet-aa/2: the hash of its piece 'git' does not match its text"),
        ("update receipts set finding = 'verified' where run = 'fleet-aa/1'", "fleet-aa/1: its hash does not match"),
        ("delete from receipts where run = 'fleet-aa/1'", "fleet-aa/2: it does not follow the receipt before it"),
        ("update runs set finding = 'unverified' where id = 'fleet-aa/2'", "its run says unverified, its receipt"),
        ("update runs set receipt = 'x' where id = 'fleet-aa/2'", "fleet-aa/2: its run names another receipt"),
    ],
)
def test_change_of_the_record_is_detected(fleet: Program, runs: list[str], sql: str, told_as: str) -> None:
    before = told(fleet, "aa", "--check")["check"]
    change(fleet, sql)
    result = fleet("receipt", "aa", "--check")
    assert before["ok"] and result.code == 1
    assert told_as in result.out and "wrong: " in result.out
    assert "unchanged" not in result.out


def test_change_of_the_receipt_file_is_detected(fleet: Program, runs: list[str]) -> None:
    path = fleet.home / "tasks/fleet-aa/runs/2/receipt.json"
    path.write_text(path.read_text().replace('"finding": "verified"', '"finding": "unverified"'))
    found = told(fleet, "aa", "--check")["check"]
    assert found["faults"] == [f"{path} differs from the database: finding"]
    path.write_text("not JSON")
    assert told(fleet, "aa", "--check")["check"]["faults"] == [f"{path} is not the JSON that fleet wrote"]


def test_missing_or_linked_receipt_file_is_reported_and_not_followed(
    fleet: Program, runs: list[str], tmp_path: Path
) -> None:
    path = fleet.home / "tasks/fleet-aa/runs/2/receipt.json"
    kept = path.rename(tmp_path / "elsewhere.json")
    found = told(fleet, "aa", "--check")["check"]
    assert found["ok"] and len(found["notes"]) == 1 and "the database counts" in found["notes"][0]
    path.symlink_to(kept)
    assert "cannot read" in told(fleet, "aa", "--check")["check"]["notes"][0]


def test_missing_receipt_is_reported(fleet: Program, runs: list[str]) -> None:
    with an_open_fleet(fleet.home) as opened:
        opened.store.tasks.add(a_task(id="fleet-cc", created_at=opened.store.now()))
    for words, message in (
        (("cc",), "error: fleet-cc has no receipt yet"),
        (("aa", "--run", "7"), "error: fleet-aa has no run 7"),
        (("aa/7",), "error: fleet-aa has no run 7"),
        (("nope",), "error: no task 'nope'"),
    ):
        result = fleet("receipt", *words)
        assert (result.code, result.out) == (1, "") and result.err.startswith(message), result


def test_receipt_of_a_real_run_passes_the_check(home: Terminals) -> None:
    use_shell_coder(home)
    words = ("create", "work", "--headless", "--verify", "test -e made", "--prompt", orders("echo 1 > made"))
    home.told(*words)
    (task,) = home.rows_of_branch("work")
    home.wait_status(task["id"], "closed")
    out = home.fleet.ok("receipt", "work", "--check")
    assert out.startswith(f"{task['id']}/1: verified – ") and "A made" in out
    assert "`test -e made` ended with exit code 0" in out
    assert out.endswith("checked: unchanged, in a chain of 1\n"), out
    assert "finding:     verified" in home.fleet.ok("show", "work")
    (row,) = json.loads(home.fleet.ok("stats", "--json"))["rows"]
    assert (row["coder"], row["verified_rate"], row["tasks"]) == ("shell", 1.0, 1)
