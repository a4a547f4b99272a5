"""Regressions: the thirteen defects that were found in sermakarevich/fleet must not occur here.

Real supervisors and real processes, judged from outside.
"""

import json
import logging
import os
import socket
import sqlite3
import time
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from builders import FakeClock
from fleet.core.redaction import Redactor
from fleet.home import Home
from fleet.supervisor import logs
from supervised import Supervised, commands, home, wait_for

__all__ = ["home"]

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


def test_failing_store_stops_neither_claiming_nor_settling(home: Supervised) -> None:
    """In the original, one failing call ended the loop: the process lived on without claiming or a message."""
    home.start()
    working = home.create("ok seconds=1")
    home.wait_started(1)
    hidden = "alter table accounts rename to hidden; alter table runs rename to runs_hidden"
    shown = "alter table hidden rename to accounts; alter table runs_hidden rename to runs"
    with closing(sqlite3.connect(home.fleet.home / "fleet.db", timeout=30)) as rival:
        rival.executescript(f"begin immediate; {hidden}; commit")
        waiting = home.create("ok")
        wait_for(lambda: home.agents() == [], "the agent to end", home.describe)
        wait_for(lambda: "no such table" in str(home.log_lines()), "the fault to be told", home.describe)
        rival.executescript(f"begin immediate; {shown}; commit")
    home.wait_all([working, waiting], "closed")
    assert [run["ending"] for run in home.runs(working)] == ["finished"]


def test_no_task_stays_in_progress_after_sigkill(home: Supervised) -> None:
    """In the original, running tasks stayed in_progress forever."""
    lives, ends = home.create("ok seconds=3"), home.create("ok seconds=0.5")
    home.start()
    home.wait_started(2)
    home.kill()
    wait_for(lambda: len(home.notes("end")) >= 1, "one agent to end alone", home.describe)
    home.start()
    home.wait_all([lives, ends], "closed")
    assert len(home.notes("start")) == 2


def test_restarts_do_not_count_as_failures(home: Supervised) -> None:
    """In the original, two restarts blocked every running task, because they used up its retries."""
    key = home.create(f"ok until={home.go}")
    home.fleet.ok("run", "start")
    home.wait_started(1)
    for _ in range(3):
        home.fleet.ok("run", "restart")
    home.go.touch()
    home.wait_status(key, "closed")
    home.fleet.ok("run", "stop")
    assert (home.task(key)["failures"], len(home.notes("start"))) == (0, 1)


@pytest.mark.parametrize(("do", "setting"), [("exit0", "continue_limit"), ("context", "context_limit")])
def test_unfinished_runs_are_counted(home: Supervised, do: str, setting: str) -> None:
    """In the original, an agent that ended without closing its task was started forever: 8 times in 45 s."""
    home.set(f"limits.{setting}=1")
    home.start()
    key = home.create(do)
    assert home.wait_status(key, "blocked")["reason"]
    home.wait_status(home.create("ok"), "closed")
    assert [note[1] for note in home.notes("start")].count(key) == 2


def test_whole_process_tree_is_stopped_and_the_slot_is_free(home: Supervised) -> None:
    """In the original, only the agent itself was signaled: its child lived on, and its task and slot were stuck."""
    home.set("max_concurrent=1", "watchdog.stop_grace_seconds=1")
    home.start()
    stubborn = home.create("ignore_term_with_child")
    wait_for(lambda: len(home.strays()) == 1 and len(home.agents()) == 2, "its children", home.describe)
    home.fleet.ok("kill", stubborn)
    home.wait_status(stubborn, "blocked")
    assert (home.strays(), home.agents()) == ([], [])
    holds, follows = home.create("hold_stdout"), home.create("daemons seconds=600")
    home.wait_status(holds, "closed")
    wait_for(lambda: len(home.strays()) == 2, "the next agent and its daemons", home.describe)
    home.fleet.ok("run", "stop", "--stop-agents")
    assert (home.strays(), home.agents(), home.task(follows)["status"]) == ([], [], "open")


def test_settings_are_read_again_once_they_are_repaired(home: Supervised) -> None:
    """In the original, a broken file ended the loop that reads it, without a message."""
    home.set("max_concurrent=1", "supervisor.poll_seconds=0.2")
    home.start()
    keys = home.create_many(["ok seconds=300"] * 2)
    home.wait_started(1)
    settings = home.fleet.home / "runtime.toml"
    good = settings.read_text()
    settings.write_text("max_concurrent = = 2\n")
    wait_for(lambda: "settings not reloaded" in str(home.log_lines()), "it to be told", home.describe)
    time.sleep(0.6)  # longer than a poll
    assert len(home.agents()) == 1  # the old settings still apply
    settings.write_text(good.replace("max_concurrent = 1", "max_concurrent = 2"))
    wait_for(lambda: len(home.agents()) == 2, "the second agent", home.describe)
    assert {home.task(key)["status"] for key in keys} == {"in_progress"}


def test_nothing_is_written_into_the_users_project(home: Supervised) -> None:
    """In the original, settings with a comment were overwritten, and every task left files in the project."""
    (home.fleet.cwd / ".claude").mkdir()
    (home.fleet.cwd / ".claude" / "settings.json").write_text('{ // mine\n "permissions": {"allow": ["Bash"]} }\n')
    before = contents(home.fleet.cwd)
    home.start()
    home.wait_all(home.create_many(["ok"] * 3), "closed")
    assert contents(home.fleet.cwd) == before


def test_no_process_listens_on_the_network(home: Supervised) -> None:
    """In the original, any web page could start an agent. Here, only a socket and a pipe of this user listen."""
    home.start()
    home.create("ok seconds=60")
    home.wait_started(1)
    assert home.process is not None
    mark = str(home.fleet.home).encode()
    shims = [pid for pid, command in commands() if any(mark in word for word in command)]
    assert shims
    assert listening({home.process.pid, *home.agents(), *shims}) == []
    with socket.create_server(("127.0.0.1", 0)):
        assert listening({os.getpid()}) != []  # otherwise the check would see nothing at all
    places = [*home.fleet.home.rglob("control"), *(path for path in home.fleet.home.iterdir() if path.is_fifo())]
    assert len(places) >= 2
    for place in places:
        assert not any(folder.stat().st_mode & 0o077 for folder in (place.parent, home.fleet.home))


def test_tasks_without_a_directory_do_not_share_one(home: Supervised) -> None:
    """In the original, all tasks of a directory edited the same tree. Here, a task without a directory has its own."""
    rows = [{"id": f"fleet-{name}", "title": "write", "description": "do: write seconds=1"} for name in ("aaa", "bbb")]
    home.fleet.ok("bd", "import", "-", stdin="\n".join(json.dumps(row) for row in rows))
    home.start()
    keys = [row["id"] for row in rows]
    home.wait_all(keys, "closed")
    assert [home.task(key)["close_reason"] for key in keys] == ["mine", "mine"]
    works = [home.fleet.home / "tasks" / key / "work" / "mine" for key in keys]
    assert [work.read_text() for work in works] == keys


def test_agent_reaches_its_queue_from_any_directory(home: Supervised) -> None:
    """In the original, `bd close` in the agent's own directory found no queue, and the task was started again."""
    home.start()
    key = home.create("hand_in")
    assert home.wait_status(key, "closed")["close_reason"] == "handed in"
    assert len(home.notes("start")) == 1


def test_tools_inside_a_message_are_recognized(home: Supervised) -> None:
    """In the original, only the top level of a line was searched for a tool: files and tools stayed empty."""
    home.start()
    key = home.create("turn")
    home.wait_status(key, "closed")
    (run,) = home.runs(key)
    assert (run["tool_calls"], run["events"]) == (1, 5)
    lines = (home.fleet.home / "tasks" / key / "events.jsonl").read_text().splitlines()
    told = [(event["kind"], event["tool_name"]) for event in map(json.loads, lines)]
    assert ("tool_use", "Write") in told and ("tool_result", "Write") in told


@pytest.mark.parametrize("do", ["long_line megabytes=101", "swap_stdout seconds=60"])
def test_overlong_line_or_fault_starts_no_second_agent(home: Supervised, do: str) -> None:
    """In the original, an overlong line raised an unhandled error: the task was reopened while its agent still ran."""
    home.set("limits.retry_limit=2")
    home.start()
    key = home.create(do)
    crowds = [0]

    def over() -> bool:
        crowds.append(len(home.agents()))
        return home.task(key)["status"] in ("closed", "blocked")

    wait_for(over, "its end", home.describe)
    assert max(crowds) <= 1  # an agent that is ended at once may live between two samples
    assert 1 <= len(home.notes("start")) <= 2
    assert home.agents() == []


def test_secrets_are_redacted_everywhere(home: Supervised) -> None:
    """In the original, only values below certain names were redacted, and none in a list."""
    home.fleet.env["SOME_API_KEY"] = "correct-horse-battery"
    home.set('agent.pass_env=["SOME_API_KEY"]')
    home.start()
    keys = [home.create(f"leak secret={secret}") for secret in (SECRET, "correct-horse-battery")]
    home.wait_all(keys, "closed")
    home.stop()
    for key, secret in zip(keys, (SECRET, "correct-horse-battery"), strict=True):
        folder = home.fleet.home / "tasks" / key
        shown = [path for path in folder.iterdir() if path.is_file()]
        assert {path.name for path in shown} >= {"events.jsonl", "log.jsonl", "log.stderr"}
        assert [path.name for path in shown if secret in path.read_text()] == []
        assert secret not in str(home.runs(key)) + home.task(key)["close_reason"]
        assert secret not in home.fleet.ok("runs", key) + home.fleet.ok("task", key, "events")
    assert "[redacted]" in home.task(keys[0])["close_reason"]


def test_log_rotates_daily_and_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the original, the log kept the date of its start and grew without end."""
    place, clock = Home(str(tmp_path)), FakeClock()
    Path(place.logging).mkdir()
    monkeypatch.setattr(logs, "now", clock)
    monkeypatch.setattr(logs, "LARGEST", 2000)
    handler = logs.DailyLog(place, Redactor())
    for day in range(20):
        for number in range(30):
            handler.emit(logging.LogRecord("fleet", logging.INFO, "", 0, f"day {day}, line {number}", (), None))
        clock.advance(timedelta(days=1))
    kept = sorted(Path(place.logging).iterdir())
    assert len({path.name[:16] for path in kept}) > 3
    assert len(kept) <= logs.KEPT + 2
    assert sum(path.stat().st_size for path in kept) <= (logs.KEPT + 2) * 2500
    assert "day 19, line 29" in kept[-1].read_text() + kept[-2].read_text()


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def listening(pids: set[int]) -> list[str]:
    """Return the addresses at which these processes listen for TCP connections, in the kernel's notation."""
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table]
    held = set()
    for link in (link for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(FileNotFoundError):  # closed meanwhile
            held.add(str(link.readlink()))
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]
