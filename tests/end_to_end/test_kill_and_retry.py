"""`fleet kill`, `retry`, `pause` and `resume`: their effect on a task, whoever holds the task."""

import json
import os
import pty
import subprocess
from typing import Any

import pytest

from fleet.core.filter import Lane
from fleet.core.task import COUNTS, Caller, Status, Verdict
from live_runs import OWNER, TTL, Records, records

__all__ = ["records"]


def test_kill_blocks_a_waiting_task_and_retry_reopens_it(records: Records) -> None:
    task = records.create("a task")
    assert records.fleet.ok("kill", task) == f"{task}: blocked (stopped by hand)\n"
    found = records.store.tasks.get(task)
    assert (found.status, found.reason) == (Status.BLOCKED, "stopped by hand")
    assert records.store.claims.acquire(OWNER, [Lane(room=1)], room=1, ttl=TTL) == []
    assert records.fleet.ok("retry", task.removeprefix("fleet-")) == f"{task}: open\n"
    assert records.store.tasks.get(task).status == Status.OPEN


def test_kill_asks_a_running_task_to_stop_and_keeps_its_claim(records: Records) -> None:
    task = records.create("a task")
    claim, _ = records.begin(task)
    done = records.fleet("kill", task, "--reason", "too slow")
    assert done.code == 0 and "asked to stop (too slow)" in done.out and "no supervisor is running" in done.err
    found = records.store.tasks.get(task)
    assert (found.status, found.cancel_reason, found.epoch) == (Status.IN_PROGRESS, "too slow", claim.epoch)
    assert found.cancel_requested_at is not None


def test_kill_takes_a_task_from_the_person_who_holds_it(records: Records) -> None:
    task = records.create("a task")
    records.store.claims.take(task, "ada")
    records.fleet.ok("kill", task)
    found = records.store.tasks.get(task)
    assert (found.status, found.assignee, found.claim_owner) == (Status.BLOCKED, "", "")


def test_kill_changes_nothing_when_one_task_is_closed(records: Records) -> None:
    over, other = records.create("over"), records.create("other")
    records.fleet.ok("bd", "close", over)
    done = records.fleet("kill", other, over)
    assert done.code == 1 and f"{over} is already closed" in done.err
    assert records.store.tasks.get(other).status == Status.OPEN


def test_glob_matches_only_tasks_that_could_run(records: Records) -> None:
    over, first, second = (records.create(title) for title in ("over", "first", "second"))
    records.fleet.ok("bd", "close", over)
    told = records.fleet.ok("kill", "fleet-*", "--yes").splitlines()
    assert sorted(line.partition(":")[0] for line in told) == sorted([first, second])
    assert records.fleet("kill", "fleet-*", "--yes").code == 1
    told = records.fleet.ok("retry", "fleet-*").splitlines()
    assert sorted(line.partition(":")[0] for line in told) == sorted([first, second])
    assert records.store.tasks.get(over).status == Status.CLOSED


@pytest.mark.parametrize(("typed", "status", "code"), [("n\n", Status.OPEN, 1), ("y\n", Status.BLOCKED, 0)])
def test_kill_asks_on_a_terminal_when_a_glob_is_passed(records: Records, typed: str, status: str, code: int) -> None:
    task = records.create("a task")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        argv = [*records.fleet.argv, "kill", "fleet-*"]
        done = subprocess.run(argv, env=records.fleet.env, stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert f"  a task ({task}): it does not start\nstop it? [y/N]" in done.stderr
    assert (records.store.tasks.get(task).status, done.returncode) == (status, code)
    assert ("nothing was stopped" in done.stderr) == (code == 1)


@pytest.mark.parametrize(("typed", "status", "code"), [("n\n", Status.BLOCKED, 1), ("y\n", Status.OPEN, 0)])
def test_prompt_asks_on_a_terminal_when_the_task_was_stopped(
    records: Records, typed: str, status: str, code: int
) -> None:
    task = records.create("a task")
    records.fleet.ok("kill", task)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        argv = [*records.fleet.argv, "prompt", task, "go", "on", "--wait", "0"]
        done = subprocess.run(argv, env=records.fleet.env, stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert f"{task} was stopped (stopped by hand): the message would start it again. Start it? [y/N]" in done.stderr
    assert (records.store.tasks.get(task).status, done.returncode) == (status, code)
    assert len(records.store.messages.find(task)) == 1 - code


def test_prompt_needs_yes_without_a_terminal_when_the_task_was_stopped(records: Records) -> None:
    task = records.create("a task")
    records.fleet.ok("kill", task)
    done = records.fleet("prompt", task, "go on")
    assert done.code == 2 and "was stopped" in done.err and "pass --yes" in done.err
    assert records.store.tasks.get(task).status == Status.BLOCKED and not records.store.messages.find(task)
    records.fleet.ok("prompt", task, "go on", "--yes", "--wait", "0")
    assert records.store.tasks.get(task).status == Status.OPEN and len(records.store.messages.find(task)) == 1


def test_unknown_or_ambiguous_names_change_nothing(records: Records) -> None:
    for name in ("aab1", "aab2"):
        records.fleet.ok("bd", "create", "a task", "--id", f"fleet-{name}")
    unknown, unclear = records.fleet("kill", "fleet-zzz9"), records.fleet("retry", "aab")
    assert unknown.code == 1 and "no task 'fleet-zzz9'" in unknown.err
    assert unclear.code == 2 and "fleet-aab1, fleet-aab2" in unclear.err
    assert records.fleet("kill", "x*", "--yes").code == 1
    assert records.fleet("kill").code == 2
    assert {records.store.tasks.get(f"fleet-{name}").status for name in ("aab1", "aab2")} == {Status.OPEN}


def test_retry_resets_counters_and_refuses_a_running_task(records: Records) -> None:
    task = records.create("a task")
    claim, run = records.begin(task)
    done = records.fleet("retry", task)
    assert done.code == 1 and f"{task} is running" in done.err
    counts: dict[str, Any] = dict.fromkeys(COUNTS, 2)
    verdict = Verdict(status=Status.BLOCKED, reason="failed twice", **counts)
    records.end(claim, run, "failed", verdict)
    records.fleet.ok("retry", task)
    found = records.store.tasks.get(task)
    assert (found.status, found.reason) == ("open", "")
    assert [getattr(found, name) for name in COUNTS] == [0] * len(COUNTS)
    assert records.claim(task).epoch > claim.epoch


def test_retry_reopens_a_closed_task(records: Records) -> None:
    task = records.create("a task")
    records.fleet.ok("bd", "close", task, "-r", "done")
    records.fleet.ok("retry", task)
    found = records.store.tasks.get(task)
    assert (found.status, found.closed_at, found.close_reason) == (Status.OPEN, None, "")


def test_kill_retry_and_answer_are_refused_when_an_agent_calls(records: Records) -> None:
    mine, other = records.create("mine"), records.create("other")
    claim, run = records.begin(mine)
    token = records.store.tokens.issue(claim, Caller(task_id=mine, run_id=run.id, epoch=claim.epoch))
    for words in (("kill", other), ("retry", other), ("answer", other, "yes")):
        done = records.fleet(*words, FLEET_RUN_TOKEN=token)
        assert done.code == 1 and "an agent may not" in done.err
    assert records.store.tasks.get(other).status == Status.OPEN


def test_pause_and_resume_report_what_they_did(records: Records) -> None:
    assert "the queue was not paused" in records.fleet.ok("resume")
    assert "paused" in records.fleet.ok("pause")
    assert json.loads(records.fleet("run", "status", "--json").out)["paused"]
    assert "started again" in records.fleet.ok("resume")
