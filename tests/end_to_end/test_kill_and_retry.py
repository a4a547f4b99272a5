"""`fleet kill`, `retry`, `pause`, `resume`: what they do to a task, whoever holds it."""

import json
import os
import pty
import subprocess
from typing import Any

import pytest

from fleet.core.filter import Lane
from fleet.core.task import COUNTS, Caller, Status, Verdict
from live_runs import OWNER, TTL, Store, store

__all__ = ["store"]


def test_a_task_that_waits_is_blocked_and_can_be_sent_again(store: Store) -> None:
    task = store.create("a task")
    assert store.fleet.ok("kill", task) == f"{task}: blocked (stopped by hand)\n"
    found = store.queue.get(task)
    assert (found.status, found.reason) == (Status.BLOCKED, "stopped by hand")
    assert store.queue.claim(OWNER, [Lane(room=1)], room=1, ttl=TTL) == []
    assert store.fleet.ok("retry", task.removeprefix("fleet-")) == f"{task}: open\n"
    assert store.queue.get(task).status == Status.OPEN


def test_a_running_task_is_asked_to_stop_and_stays_its_holders(store: Store) -> None:
    task = store.create("a task")
    claim, _ = store.begin(task)
    done = store.fleet("kill", task, "--reason", "too slow")
    assert done.code == 0 and "asked to stop (too slow)" in done.out and "no supervisor runs" in done.err
    found = store.queue.get(task)
    assert (found.status, found.cancel_reason, found.epoch) == (Status.IN_PROGRESS, "too slow", claim.epoch)
    assert found.cancel_requested_at is not None


def test_what_somebody_holds_by_hand_is_taken_from_them(store: Store) -> None:
    task = store.create("a task")
    store.queue.take(task, "ada")
    store.fleet.ok("kill", task)
    found = store.queue.get(task)
    assert (found.status, found.assignee, found.claim_owner) == (Status.BLOCKED, "", "")


def test_a_closed_task_is_not_killed_and_nothing_else_is_either(store: Store) -> None:
    over, other = store.create("over"), store.create("other")
    store.fleet.ok("bd", "close", over)
    done = store.fleet("kill", other, over)
    assert done.code == 1 and f"{over} is closed already" in done.err
    assert store.queue.get(other).status == Status.OPEN


def test_a_glob_means_what_could_run(store: Store) -> None:
    over, first, second = (store.create(title) for title in ("over", "first", "second"))
    store.fleet.ok("bd", "close", over)
    told = store.fleet.ok("kill", "fleet-*", "--yes").splitlines()
    assert sorted(line.partition(":")[0] for line in told) == sorted([first, second])
    assert store.fleet("kill", "fleet-*", "--yes").code == 1
    told = store.fleet.ok("retry", "fleet-*").splitlines()
    assert sorted(line.partition(":")[0] for line in told) == sorted([first, second])
    assert store.queue.get(over).status == Status.CLOSED


@pytest.mark.parametrize(("typed", "status", "code"), [("n\n", Status.OPEN, 1), ("y\n", Status.BLOCKED, 0)])
def test_a_glob_asks_on_a_terminal(store: Store, typed: str, status: str, code: int) -> None:
    task = store.create("a task")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        argv = [*store.fleet.argv, "kill", "fleet-*"]
        done = subprocess.run(argv, env=store.fleet.env, stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert f"  a task ({task}): it does not start\nstop it? [y/N]" in done.stderr
    assert (store.queue.get(task).status, done.returncode) == (status, code)
    assert ("nothing was stopped" in done.stderr) == (code == 1)


def test_names_that_mean_nothing_or_too_much_change_nothing(store: Store) -> None:
    for name in ("aab1", "aab2"):
        store.fleet.ok("bd", "create", "a task", "--id", f"fleet-{name}")
    unknown, unclear = store.fleet("kill", "fleet-zzz9"), store.fleet("retry", "aab")
    assert unknown.code == 1 and "no task 'fleet-zzz9'" in unknown.err
    assert unclear.code == 2 and "fleet-aab1, fleet-aab2" in unclear.err
    assert store.fleet("kill", "x*", "--yes").code == 1
    assert store.fleet("kill").code == 2
    assert {store.queue.get(f"fleet-{name}").status for name in ("aab1", "aab2")} == {Status.OPEN}


def test_retry_forgets_the_counts_and_refuses_what_runs(store: Store) -> None:
    task = store.create("a task")
    claim, run = store.begin(task)
    done = store.fleet("retry", task)
    assert done.code == 1 and f"{task} is running" in done.err
    counts: dict[str, Any] = dict.fromkeys(COUNTS, 2)
    verdict = Verdict(status=Status.BLOCKED, reason="failed twice", **counts)
    store.end(claim, run, "failed", verdict)
    store.fleet.ok("retry", task)
    found = store.queue.get(task)
    assert (found.status, found.reason) == ("open", "")
    assert [getattr(found, name) for name in COUNTS] == [0] * len(COUNTS)
    assert store.claim(task).epoch > claim.epoch


def test_retry_opens_a_closed_task_and_its_old_holder_has_no_say(store: Store) -> None:
    task = store.create("a task")
    store.fleet.ok("bd", "close", task, "-r", "done")
    store.fleet.ok("retry", task)
    found = store.queue.get(task)
    assert (found.status, found.closed_at, found.close_reason) == (Status.OPEN, None, "")


def test_an_agent_may_not_stop_or_send_or_answer(store: Store) -> None:
    mine, other = store.create("mine"), store.create("other")
    claim, run = store.begin(mine)
    token = store.queue.admit(claim, Caller(task_id=mine, run_id=run.id, epoch=claim.epoch))
    for words in (("kill", other), ("retry", other), ("answer", other, "yes")):
        done = store.fleet(*words, FLEET_RUN_TOKEN=token)
        assert done.code == 1 and "an agent may not" in done.err
    assert store.queue.get(other).status == Status.OPEN


def test_pause_and_resume_tell_what_they_did(store: Store) -> None:
    assert "it was not paused" in store.fleet.ok("resume")
    assert "paused" in store.fleet.ok("pause")
    assert json.loads(store.fleet("run", "status", "--json").out)["paused"]
    assert "started again" in store.fleet.ok("resume")
