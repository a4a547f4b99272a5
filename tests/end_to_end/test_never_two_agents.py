"""A run whose start fails after its agent may exist: fleet ends the agent before the task gets another."""

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from fleet.agents.shim_link import pid_of
from supervised import Supervised, environment, home, wait_for

__all__ = ["home"]

#: What the database does when a message is marked as carried.
FAULTS = {
    "fails": "select json('{')",
    "is_sealed": "select raise(abort, 'sealed')",
    "is_slow_and_fails": "select (with recursive n(i) as (select 1 union all select i + 1 from n limit 4000000) "
    "select json('{') from n where i = 4000000)",
}


def break_messages(home: Supervised, fault: str) -> None:
    with closing(sqlite3.connect(home.fleet.home / "fleet.db", timeout=30)) as database:
        database.execute(f"create trigger broken before update on messages begin {FAULTS[fault]}; end")
        database.commit()


def live_runs(home: Supervised) -> set[str]:
    """Return the runs that have a process in this home."""
    words = [word for pid in home.agents() for word in environment(pid)]
    return {os.fsdecode(word) for word in words if word.startswith(b"FLEET_RUN_ID=")}


def without_namespaces(home: Supervised) -> None:
    """Make fleet hold agents without PID namespaces."""
    weak = home.fleet.user / "weak"
    weak.mkdir()
    (weak / "unshare").symlink_to("/bin/false")
    home.fleet.env["PATH"] = f"{weak}:{home.fleet.env['PATH']}"


@pytest.mark.parametrize("fault", ["fails", "is_sealed"])
def test_start_ends_its_agent_when_a_message_cannot_be_marked(home: Supervised, fault: str) -> None:
    home.set("limits.retry_limit=2")
    key = home.create("ignore_term seconds=300")
    home.fleet.ok("prompt", key, "and use blue")
    break_messages(home, fault)
    home.start()
    at_once: list[set[str]] = []

    def is_blocked() -> bool:
        at_once.append(live_runs(home))
        return bool(home.task(key)["status"] == "blocked")

    wait_for(is_blocked, f"{key} to be blocked", home.describe)
    assert max(map(len, at_once)) <= 1, at_once
    assert [run["ending"] for run in home.runs(key)] == ["failed", "failed"]
    assert home.agents() == []
    home.stop()
    assert (home.agents(), home.strays()) == ([], [])


def test_stop_agents_leaves_none_when_the_database_fails_at_every_start(home: Supervised) -> None:
    home.set("limits.retry_limit=50", "max_concurrent=4")
    keys = home.create_many(["ignore_term seconds=300"] * 4)
    for key in keys:
        home.fleet.ok("prompt", key, "and use blue")
    break_messages(home, "fails")
    home.start()
    wait_for(lambda: all(len(home.runs(key)) > 1 for key in keys), "all to be tried again", home.describe)
    home.fleet.ok("run", "stop", "--stop-agents")
    assert (home.agents(), home.strays()) == ([], [])
    assert json.loads(home.fleet("run", "status", "--json").out or "{}").get("running") is not True


@pytest.mark.parametrize("containment", ["namespace", "weak"])
@pytest.mark.parametrize("fault", ["deleted", "put back", "moved"])
def test_agent_is_ended_before_its_task_gets_another_when_its_folder_was_lost(
    home: Supervised, containment: str, fault: str
) -> None:
    """No record leads to the agent any more, also if a copy replaced its folder or the whole home."""
    if containment == "weak":
        without_namespaces(home)
    key = home.create("ignore_term daemons=2 seconds=300")
    home.start()
    home.wait_started(1)
    home.kill()
    folder = home.fleet.home / "tasks" / key
    kept = shutil.copytree(folder, home.fleet.user / "kept", ignore=shutil.ignore_patterns("control"))
    if fault == "moved":
        old = home.fleet.home.rename(home.fleet.home.with_name("old"))
        shutil.copytree(old, home.fleet.home, symlinks=True, ignore=shutil.ignore_patterns("control", "wake"))
    else:
        shutil.rmtree(folder)
    if fault == "put back":
        shutil.copytree(kept, folder)
    assert live_runs(home) == {f"FLEET_RUN_ID={key}/1"}
    home.start()
    home.wait_started(2)
    assert live_runs(home) == {f"FLEET_RUN_ID={key}/2"}, home.describe()
    assert [run["number"] for run in home.runs(key) if not run["ended_at"]] == [2]
    home.stop()
    assert (home.agents(), home.strays()) == ([], [])


@pytest.mark.soak
def test_run_stays_live_on_record_when_its_agent_cannot_be_ended(home: Supervised) -> None:
    """Without PID namespaces, a stopped shim keeps its agent alive: the task waits and gets no other agent."""
    without_namespaces(home)
    key = home.create("ignore_term seconds=300")
    home.fleet.ok("prompt", key, "and use blue")
    break_messages(home, "is_slow_and_fails")
    home.start()
    home.wait_started(1)
    shim = pid_of(f"{home.fleet.home}/tasks/{key}/runs/1")
    assert shim is not None
    os.kill(shim, signal.SIGSTOP)
    try:
        said = "its agent does not stop"
        wait_for(lambda: any(said in line["event"] for line in home.log_lines()), said, home.describe)
        time.sleep(2.5)  # longer than a poll
        assert live_runs(home) == {f"FLEET_RUN_ID={key}/1"}
        assert (home.task(key)["status"], home.runs(key)[0]["ended_at"]) == ("in_progress", None)
    finally:
        os.kill(shim, signal.SIGCONT)
    wait_for(lambda: home.task(key)["epoch"] == 2, "it to be adopted", home.describe)
    home.stop()
    assert (home.agents(), home.strays()) == ([], [])
