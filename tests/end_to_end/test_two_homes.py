"""Two homes on one database: if one supervisor stops during its work, another continues, and nothing runs twice."""

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from program import Program
from supervised import Supervised, home, wait_for

__all__ = ["home"]


@pytest.fixture
def other(home: Supervised, tmp_path: Path) -> Iterator[Supervised]:
    """Yield a second home that uses the first one's database."""
    base = tmp_path / "other"
    base.mkdir()
    made = Supervised(Program(base))
    for file in made.fleet.home.glob("fleet.db*"):
        file.unlink()
    (made.fleet.home / "fleet.db").symlink_to(home.fleet.home / "fleet.db")
    made.audit = home.audit
    made.set(f'agent.env={{AUDIT = "{home.audit}"}}', "max_concurrent=6")
    yield made
    made.stop()


def expire(home: Supervised, key: str) -> None:
    wait_for(lambda: home.task(key)["claim_expires_at"] < time.time() * 1e6, "the claim to expire", home.describe)


def owner(home: Supervised, key: str) -> str:
    return str(home.task(key)["claim_owner"])


def test_expired_work_continues_elsewhere_and_late_writes_are_refused(home: Supervised, other: Supervised) -> None:
    """A task has at most one live agent, and every late write of the first supervisor is refused."""
    home.set("max_concurrent=3")
    long, short = home.create("ok seconds=32"), home.create("ok seconds=6")
    fails = home.create("exit status=3 seconds=6")
    home.start()
    home.wait_started(3)
    first = owner(home, long)
    assert home.process is not None
    stop_between_writes(home)
    waiting = [home.create("ok") for _ in range(3)]
    try:
        other.start()
        home.wait_all(waiting, "closed")
        wait_for(lambda: owner(home, long) not in ("", first), "the second to take over", other.describe)
        home.wait_status(short, "closed")
        assert [note[1] for note in home.notes("start")].count(long) == 1
    finally:
        os.kill(home.process.pid, signal.SIGCONT)
    home.wait_status(long, "closed")
    (run,) = home.runs(long)
    assert (run["ending"], run["owner"]) == ("finished", home.runs(waiting[0])[0]["owner"])
    assert [each["ending"] for each in home.runs(short)] == ["finished"]
    home.wait_status(fails, "blocked")
    assert [each["ending"] for each in home.runs(fails)] == ["failed", "failed"]
    started = [note[1] for note in home.notes("start")]
    assert sorted(started) == sorted([long, short, fails, fails, *waiting])
    said = (home.fleet.user / "supervisor.out").read_text()
    assert f"{long}/1 is followed by" in said


def test_agents_of_a_killed_supervisor_are_adopted_by_the_other_home(home: Supervised, other: Supervised) -> None:
    keys = [home.create("ok seconds=22"), home.create("talk seconds=3 rate=5")]
    home.start()
    home.wait_started(2)
    home.kill()
    other.start()
    home.wait_all(keys, "closed")
    for key in keys:
        assert [run["ending"] for run in home.runs(key)] == ["finished"]
    assert len(home.notes("start")) == 2
    assert (home.fleet.home / "tasks" / keys[0] / "events.jsonl").exists()
    assert not (other.fleet.home / "tasks" / keys[0]).exists()


def test_next_run_in_another_home_finds_the_artifacts_of_the_first(home: Supervised, other: Supervised) -> None:
    key = home.create("exit status=3 once=1")
    home.set("limits.retry_limit=2")
    home.start()
    wait_for(lambda: len(home.runs(key)) == 1 and home.runs(key)[0]["ended_at"], "the first run", home.describe)
    home.kill()
    other.start()
    wait_for(lambda: len(home.runs(key)) == 2, "the second run", other.describe)
    assert {run["home"] for run in home.runs(key)} == {str(home.fleet.home)}


def test_home_without_its_folders_does_not_keep_its_tasks_forever(home: Supervised, other: Supervised) -> None:
    key = home.create("ok seconds=60")
    home.start()
    home.wait_started(1)
    home.kill()
    for pid in home.agents():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not home.agents(), "the agent's end")
    (home.fleet.home / "tasks").rename(home.fleet.user / "tasks")  # its shim may still write there
    other.start()
    expire(home, key)
    wait_for(lambda: len(home.runs(key)) == 2, "another run", other.describe)
    assert home.runs(key)[0]["ending"] == "lost"


def stop_between_writes(home: Supervised) -> None:
    """Stop a supervisor at a moment when it holds no database lock, because a lock would block all other writers."""
    assert home.process is not None
    for _ in range(100):
        os.kill(home.process.pid, signal.SIGSTOP)
        with closing(sqlite3.connect(f"{home.fleet.home}/fleet.db", timeout=0.2, isolation_level=None)) as database:
            try:
                database.execute("begin immediate")
            except sqlite3.OperationalError:
                os.kill(home.process.pid, signal.SIGCONT)
                time.sleep(0.05)
            else:
                database.execute("rollback")
                return
    raise AssertionError("it was always writing")
