"""Faults around the supervisor: a locked database, few descriptors, a full disk, a rival presumed dead."""

import fcntl
import json
import os
import resource
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress

import pytest

from supervised import Supervised, home, small_disk, wait_for

__all__ = ["home"]


@pytest.mark.parametrize("seconds", [4, pytest.param(30, marks=pytest.mark.soak("load"))])
def test_supervisor_waits_for_a_locked_database(home: Supervised, seconds: int) -> None:
    running = home.create("ok seconds=1")
    home.start()
    home.wait_started(1)
    with closing(sqlite3.connect(home.fleet.home / "fleet.db", isolation_level=None)) as rival:
        rival.execute("begin immediate")
        threading.Event().wait(seconds)
        rival.execute("rollback")
    home.wait_all([running, home.create("ok")], "closed")
    assert [run["ending"] for run in home.runs(running)] == ["finished"]


def test_few_descriptors_slow_the_supervisor_down_and_lose_nothing(home: Supervised) -> None:
    home.set("max_concurrent=20", "limits.retry_limit=50")
    keys = [home.create("ok seconds=0.5") for _ in range(12)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        home.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    home.wait_all(keys, "closed", patience=120)


def test_supervisor_waits_out_a_full_disk_of_the_home(home: Supervised) -> None:
    """Claims stop, an agent that ends meanwhile keeps its work, and everything continues afterwards."""
    with small_disk(home.fleet.home, "24m") as fill_up:
        home.start()
        working = home.create("ok seconds=2")
        home.wait_started(1)
        filler = fill_up()
        wait_for(lambda: home.agents() == [], "the agent to end", home.describe)
        time.sleep(1)
        assert home.process is not None and home.process.poll() is None
        filler.unlink()
        home.wait_all([working, home.create("ok")], "closed")
        assert [run["ending"] for run in home.runs(working)] == ["finished"]
        assert home.rows("pragma integrity_check") == [{"integrity_check": "ok"}]
        home.stop()


def test_full_disk_of_the_log_costs_log_lines_and_no_work(home: Supervised) -> None:
    """The database's disk is fine, so tasks are claimed, run and settled; then logging resumes."""
    with small_disk(home.fleet.home / "logging", "256k") as fill_up:
        home.start()
        home.wait_status(home.create("ok"), "closed")
        filler = fill_up()
        keys = home.create_many(["ok"] * 8)
        home.wait_all(keys, "closed")
        assert all([run["ending"] for run in home.runs(key)] == ["finished"] for key in keys)
        filler.unlink()
        last = home.create("ok")
        home.wait_status(last, "closed")
        wait_for(lambda: any(last in line["event"] for line in home.log_lines()), "the log to go on", home.describe)
        home.stop()


def test_full_disk_of_the_task_folders_stops_new_work_and_loses_none(home: Supervised) -> None:
    """Working agents continue and their output is read; waiting tasks are not blamed."""
    home.set("supervisor.poll_seconds=0.2")
    with small_disk(home.fleet.home / "tasks", "4m") as fill_up:
        home.start()
        working = home.create("talk seconds=5 rate=20")
        home.wait_started(1)
        filler = fill_up()
        waiting = home.create_many(["ok"] * 3)
        time.sleep(0.6)  # longer than a poll
        assert [home.task(key)["status"] for key in (working, *waiting)] == ["in_progress", "open", "open", "open"]
        filler.unlink()
        home.wait_all([working, *waiting], "closed")
        assert [home.task(key)["failures"] for key in (working, *waiting)] == [0] * 4
        (run,) = home.runs(working)
        assert (run["ending"], run["events"]) == ("finished", 104)
        home.stop()


def test_supervisor_stopped_past_its_claims_continues_with_tasks_still_its_own(home: Supervised) -> None:
    home.set("supervisor.claim_seconds=4")
    key = home.create(f"ok until={home.go}")
    home.start()
    home.wait_started(1)
    assert home.process is not None
    home.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: home.task(key)["claim_expires_at"] < time.time() * 1e6, "the claim to expire", home.describe)
        assert len(home.agents()) > 0
        assert json.loads(home.fleet.ok("bd", "ready", "--json")) == []
    finally:
        home.process.send_signal(signal.SIGCONT)
    home.go.touch()
    home.wait_status(key, "closed")
    assert [run["ending"] for run in home.runs(key)] == ["finished"]


def test_probing_the_lock_prevents_no_supervisor_from_starting(home: Supervised) -> None:
    """Commands try the lock for an instant to find a supervisor. One that starts then must not give up."""
    with (home.fleet.home / "supervisor.lock").open("a+") as lock:
        for _ in range(6):
            home.spawn()
            process = home.process
            assert process is not None
            while process.poll() is None and f'"pid": {process.pid},' not in os.pread(lock.fileno(), 4096, 0).decode():
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                time.sleep(0.05)
                fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(0.05)
            assert process.poll() is None, home.describe()
            home.kill()


def test_each_odd_end_gets_the_right_name(home: Supervised) -> None:
    """Neither exit codes nor claims of success decide, and a crash loop ends."""
    home.set("max_concurrent=8")
    expected = {
        "done_exit1": ["finished"],
        "result_file": ["finished"],
        "hand_in": ["finished"],
        "turn": ["finished"],
        "crash signal=11": ["failed"] * 2,
        "ask_bd": ["blocked"],
    }
    keys = {do: home.create(do) for do in expected}
    home.start()
    home.wait_all([*keys.values()], "closed", "blocked")
    assert {do: [run["ending"] for run in home.runs(key)] for do, key in keys.items()} == expected
    tasks = {do: home.task(key) for do, key in keys.items()}
    assert tasks["hand_in"]["close_reason"] == "handed in"
    assert (tasks["crash signal=11"]["status"], tasks["ask_bd"]["status"]) == ("blocked", "blocked")
    assert "ended by signal 11" in tasks["crash signal=11"]["reason"]
    (question,) = home.rows("select * from questions where task = ?", keys["ask_bd"])
    assert question["text"] == "which size?"
    home.wait_status(home.create("ok"), "closed")
    assert len([note for note in home.notes("start") if note[1] == keys["crash signal=11"]]) == 2


def test_budgets_and_the_wall_clock_end_endless_runs(home: Supervised) -> None:
    """An agent that ignores SIGTERM is killed with its children after the grace period."""
    home.set("watchdog.max_tokens=1000", "watchdog.max_cost_usd=1.5", "watchdog.wall_seconds=6")
    home.set("watchdog.stop_grace_seconds=1", "limits.retry_limit=1", "max_concurrent=5")
    expected = {
        "spend tokens=1001": "over_budget",
        "spend usd=2": "over_budget",
        "chatter": "timed_out",
        "ignore_term_with_child": "timed_out",
        "spend tokens=10 usd=0.1": "timed_out",
    }
    keys = {do: home.create(do) for do in expected}
    home.start()
    wait_for(lambda: len(home.strays()) >= 1, "the stubborn one's daemon to run", home.describe)
    home.wait_all([*keys.values()], "blocked")
    runs = {do: home.runs(key) for do, key in keys.items()}
    assert {do: [run["ending"] for run in each] for do, each in runs.items()} == {
        do: [ending] for do, ending in expected.items()
    }
    (stubborn,) = runs["ignore_term_with_child"]
    assert stubborn["exit_signal"] == signal.SIGKILL
    assert (home.strays(), home.agents()) == ([], [])


def test_daemons_without_an_environment_end_with_their_agent(home: Supervised) -> None:
    """No daemon survives, and other tasks' agents do."""
    home.start()
    last = home.go.with_name("last")
    other = home.create(f"ok until={last}")
    key = home.create(f"daemons until={home.go}")
    wait_for(lambda: len(home.strays()) == 2, "both daemons to run", home.describe)
    home.go.touch()
    home.wait_status(key, "closed")
    wait_for(lambda: home.strays() == [], "both daemons to be gone", home.describe)
    assert home.task(other)["status"] == "in_progress" and len(home.agents()) == 1
    last.touch()
    home.wait_status(other, "closed")
    assert len(home.runs(other)) == 1


def test_child_that_holds_stdout_blocks_no_slot(home: Supervised) -> None:
    """The slot is free as soon as the agent has ended."""
    home.set("max_concurrent=1")
    home.start()
    first, second = home.create("hold_stdout"), home.create("ok")
    home.wait_all([first, second], "closed")
    assert [run["ending"] for run in home.runs(first)] == ["finished"]
    assert home.agents() == []


def test_pause_of_405_seconds_is_no_stall_and_one_of_900_is(home: Supervised) -> None:
    """A hundred times faster: the agents wait for something and use no CPU."""
    home.set("watchdog.silence_seconds=9", "watchdog.stop_grace_seconds=1", "limits.retry_limit=1")
    gap, stall = home.create("pause seconds=4.05"), home.create("pause seconds=300")
    home.start()
    home.wait_status(gap, "closed")
    assert [run["ending"] for run in home.runs(gap)] == ["finished"]
    home.wait_status(stall, "blocked")
    (run,) = home.runs(stall)
    assert run["ending"] == "stalled"
    assert (run["ended_at"] - run["started_at"]) / 1e6 >= 9
