"""A home or database that is taken away during use: every process notices, and none creates another."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_client import serving, stop, workshop
from program import Process, Program
from supervised import Supervised, commands, home, wait_for

__all__ = ["home"]


@pytest.fixture(autouse=True)
def ended(home: Supervised) -> Iterator[None]:
    """Check that no agent outlives its test."""
    yield
    home.go.touch()
    wait_for(lambda: home.agents() == [] == shims(home), "the agents to end")


def shims(home: Supervised) -> list[int]:
    """Return the shims of agents of this home."""
    tasks = f"{home.fleet.home}/tasks".encode()
    return [pid for pid, command in commands() if any(tasks in word for word in command)]


def begin(home: Supervised) -> tuple[str, int]:
    """Start a supervisor with an agent that works until it is told to end. Return its task and process id."""
    task = home.create(f"ok until={home.go}")
    home.start()
    home.wait_started(1)
    wait_for(lambda: home.runs(task) and home.runs(task)[0]["first_event_at"], "its output", home.describe)
    return task, int(home.notes("start")[0][3])


def database(home: Supervised) -> Path:
    return home.fleet.home / "fleet.db"


def delete(home: Supervised) -> None:
    database(home).unlink()


def delete_with_log(home: Supervised) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{database(home)}{end}").unlink()


def replace(home: Supervised) -> None:
    """Replace the database by that of another home."""
    other = Program(home.fleet.user)
    other.home = home.fleet.user / "other"
    other.env["FLEET_HOME"] = str(other.home)
    other.ok("init", "--home")
    (other.home / "fleet.db").replace(database(home))


def truncate(home: Supervised) -> None:
    """Replace the database by an empty file."""
    empty = home.fleet.user / "empty"
    empty.touch()
    empty.replace(database(home))


def stopped(home: Supervised) -> str:
    """Wait until the supervisor stopped by itself. Return its output."""
    process = home.process
    assert process is not None
    wait_for(lambda: process.poll() is not None, "the supervisor to stop", home.describe)
    assert process.poll() == 1
    return (home.fleet.user / "supervisor.out").read_text()


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def end(home: Supervised, task: str, agent: int) -> None:
    """Let the agent end under a new supervisor, which adopts it."""
    assert is_alive(agent)
    home.start()
    home.go.touch()
    home.wait_status(task, "closed")
    assert [(run["number"], run["ending"]) for run in home.runs(task)] == [(1, "finished")]
    assert len(home.notes("start")) == 1, "the same agent, and no second one"


@pytest.mark.parametrize("take", [delete, delete_with_log, replace, truncate])
def test_supervisor_stops_and_keeps_its_database_when_the_file_is_taken(
    home: Supervised, take: Callable[[Supervised], None]
) -> None:
    task, agent = begin(home)
    take(home)
    for _ in range(3):  # before and after the supervisor notices
        home.fleet("bd", "list") if take is replace else home.fleet("bd", "create", "one more")
    told = stopped(home)
    assert "error: the supervisor stopped: the database was" in told and "agents live on" in told
    assert "the supervisor stopped" in home.fleet.ok("log", "5")
    status, doctor = home.fleet("run", "status"), home.fleet("doctor")
    assert status.code == 1 and "the supervisor stopped at" in status.out + status.err
    assert doctor.code == 1 and "the supervisor stopped at" in doctor.out
    if take is not replace:
        refused = home.fleet("bd", "create", "one more")
        assert refused.code == 1 and "fleet restore FILE" in refused.err and "fleet.db.rescued-" in refused.err, refused
        assert home.fleet("init", "--home").code == 1 and home.fleet("run", "start").code == 1
        assert not database(home).exists() or database(home).stat().st_size == 0
    else:
        assert home.rows("pragma integrity_check") == [{"integrity_check": "ok"}]
        assert home.rows("select count(*) as n from tasks") == [{"n": 0}]
    hint = told.partition("run `")[2].partition("`")[0]
    subprocess.run(["sh", "-c", hint], check=True)
    assert home.task(task)["status"] == "in_progress"
    end(home, task, agent)
    assert home.status()["stopped"] is None


@pytest.mark.parametrize("size", [0, 20_000])
def test_supervisor_stops_when_the_database_is_truncated(home: Supervised, size: int) -> None:
    task, agent = begin(home)
    backup = home.fleet.user / "backup.tar.gz"
    home.fleet.ok("backup", str(backup))
    os.truncate(database(home), size)
    told = stopped(home)
    assert "the database was cut short while it was open" in told
    for copy in home.fleet.home.glob("fleet.db.rescued-*"):
        with closing(sqlite3.connect(copy)) as found:
            assert found.execute("pragma quick_check").fetchall() == [("ok",)]
    assert home.fleet("run", "start").code == 1
    home.fleet.ok("restore", str(backup))
    assert home.task(task)["status"] == "in_progress"
    end(home, task, agent)


@pytest.mark.parametrize("ends", [("-wal", "-shm"), ("-wal",), ("-shm",)])
def test_nothing_is_lost_when_the_log_of_the_database_is_deleted(home: Supervised, ends: tuple[str, ...]) -> None:
    task, agent = begin(home)
    keys = {task, *home.create_many(["seconds=300"] * 3)}
    for end_of_name in ends:
        Path(f"{database(home)}{end_of_name}").unlink()
    made = home.fleet("bd", "create", "one more")  # before or after the supervisor notices
    told = stopped(home)
    assert "the database was separated from its log" in told and "nothing of it is lost" in told
    assert made.code == 0 or "separated from its log" in made.err, made
    assert home.rows("pragma integrity_check") == [{"integrity_check": "ok"}]
    assert len(home.rows("select id from tasks")) == len(keys) + (made.code == 0)
    assert keys <= {row["id"] for row in home.rows("select id from tasks")}
    end(home, task, agent)


def test_agent_is_adopted_when_the_same_file_is_put_back(home: Supervised) -> None:
    task, agent = begin(home)
    aside = database(home).rename(home.fleet.user / "aside.db")
    stopped(home)
    aside.rename(database(home))
    end(home, task, agent)


def test_database_stays_intact_when_another_file_takes_its_place_beside_the_old_log(home: Supervised) -> None:
    """SQLite would use the log of the old file for the new one."""
    task, _ = begin(home)
    copy = home.fleet.user / "copy.db"
    with closing(sqlite3.connect(database(home))) as now, closing(sqlite3.connect(copy)) as then:
        now.backup(then)
    home.create_many(["ok"] * 50)
    copy.replace(database(home))
    for _ in range(3):  # before and after the supervisor notices
        home.fleet("bd", "create", "one more")
    stopped(home)
    home.create("ok")
    assert home.rows("pragma integrity_check") == [{"integrity_check": "ok"}]
    (first, *others) = home.rows("select id, title from tasks order by created_at")
    assert first["id"] == task and {row["title"] for row in others} <= {"one more", "ok"} and len(others) < 5


@pytest.mark.parametrize("what", ["home moved", "home deleted", "home replaced", "lock deleted", "lock replaced"])
def test_supervisor_stops_when_its_home_or_lock_is_taken(home: Supervised, what: str) -> None:
    task, agent = begin(home)
    root, lock = home.fleet.home, home.fleet.home / "supervisor.lock"
    away = home.fleet.user / "away"
    if what.startswith("home"):
        root.rename(away)
        if what == "home replaced":
            home.fleet.ok("init", "--home")
        if what == "home deleted":
            shutil.rmtree(away, ignore_errors=True)
    else:
        lock.unlink()
        if what == "lock replaced":
            lock.touch(0o600)
    told = stopped(home)
    assert "the supervisor stopped: the " in told and "agents live on" in told
    assert is_alive(agent)
    if what == "home deleted":
        for pid in shims(home):  # the shim cannot write how its agent ended
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return
    if what.startswith("home"):
        shutil.rmtree(root, ignore_errors=True)
        away.rename(root)
    end(home, task, agent)


def test_supervisor_works_when_the_database_is_a_link(home: Supervised) -> None:
    elsewhere = home.fleet.user / "elsewhere.db"
    database(home).rename(elsewhere)
    database(home).symlink_to(elsewhere)
    task, _ = begin(home)
    home.go.touch()
    home.wait_status(task, "closed")
    elsewhere.rename(elsewhere.with_name("away.db"))
    stopped(home)
    refused = home.fleet("bd", "create", "one more")
    assert refused.code == 1 and "is missing" in refused.err and not elsewhere.exists()


@pytest.mark.parametrize("words", ["wait --all", "tasks -w", "task TASK log -f", "logs TASK -f"])
def test_watching_commands_stop_when_the_database_is_taken(home: Supervised, words: str) -> None:
    task, _ = begin(home)
    out = home.fleet.user / "out"
    with out.open("wb") as file:
        argv = [task if word == "TASK" else word for word in words.split()]
        watching = home.fleet.start(*argv, stdout=file.fileno(), stderr=file.fileno())
    wait_for(lambda: open_files(watching, "fleet.db"), "the database to be open", out.read_text)
    delete_with_log(home)
    wait_for(lambda: watching.poll() is not None, "the command to stop", out.read_text)
    assert watching.poll() == 1 and "error: the database " in out.read_text()


def open_files(process: Process, name: str) -> bool:
    found = []
    with suppress(FileNotFoundError):
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                found.append(link.readlink().name)
    return name in found


def runs_without_database(home: Supervised) -> None:
    """Create a home whose agents ran, whose supervisor is stopped, and whose database is gone."""
    task = home.create("ok")
    home.start()
    home.wait_status(task, "closed")
    home.stop()
    delete(home)


def test_no_database_is_created_when_fleet_recorded_runs(home: Supervised) -> None:
    runs_without_database(home)
    for words in (("bd", "create", "x"), ("init", "--home"), ("run", "foreground"), ("bd", "list"), ("doctor",)):
        refused = home.fleet(*words)
        assert refused.code == 1, (words, refused)
        said = " ".join((refused.out + refused.err).split())
        assert "is missing" in said and "fleet restore FILE" in said, (words, refused)
    assert not database(home).exists()


def test_home_of_another_fleet_opens_when_it_has_tasks_and_no_database(fleet: Program) -> None:
    """sermakarevich/fleet has task folders, and its database is elsewhere."""
    folder = fleet.home / "tasks" / "bd-1" / "artifacts"
    folder.mkdir(parents=True)
    fleet.home.chmod(0o700)
    for name in ("task.json", "events.jsonl", "log.jsonl", ".failures"):
        (folder.parent / name).write_text("{}")
    made = json.loads(fleet.ok("bd", "create", "x", "--json"))
    assert [row["id"] for row in json.loads(fleet.ok("bd", "list", "--json"))] == [made["id"]]


def test_home_is_created_once_when_many_commands_are_its_first(fleet: Program) -> None:
    """One of them starts a supervisor, which takes the lock before the others finish."""
    calls: list[Any] = []
    with (fleet.user / "out").open("wb") as out:
        for number in range(4):
            calls.append(fleet.start("bd", "create", f"task {number}", stdout=out.fileno(), stderr=out.fileno()))
        calls.append(fleet.start("run", "start", stdout=out.fileno(), stderr=out.fileno()))
    try:
        said = [call.wait(120) for call in calls]
        assert said == [0] * 5, (fleet.user / "out").read_text()
        assert len(json.loads(fleet.ok("bd", "list", "--json"))) == 4
    finally:
        fleet("run", "stop")


def test_mcp_server_uses_the_same_database_as_commands(tmp_path: Path) -> None:
    fleet, repo = workshop(tmp_path)
    backup = fleet.user / "backup.tar.gz"
    fleet.ok("backup", str(backup))
    try:
        with serving(fleet) as tools:
            made = tools.ok("create_worker", repo_path=str(repo), task_name="one", prompt="x")
            fleet.ok("run", "stop", "--stop-agents")
            (fleet.home / "fleet.db").rename(fleet.user / "away.db")
            assert "is missing" in tools.refused("get_worker_status", worker_id=made["worker_id"])
            fleet.ok("restore", str(backup))
            assert tools.ok("list_workers")["workers"] == []
            made = tools.ok("create_worker", repo_path=str(repo), task_name="two", prompt="x")
            (row,) = json.loads(fleet.ok("list", "--all", "--json"))
            assert row["branch"] == made["branch_name"]
    finally:
        stop(fleet)
