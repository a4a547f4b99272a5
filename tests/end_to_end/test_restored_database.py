"""An older database restored while agents live: fleet loses neither sight of an agent nor its work."""

import fcntl
import json
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from repositories import make_repository, run_git
from supervised import Supervised, home, wait_for

__all__ = ["home"]


@pytest.fixture
def repo(home: Supervised) -> Path:
    """Return a repository in which agents are created."""
    home.fleet.cwd = make_repository(home.fleet.cwd / "repo")
    return home.fleet.cwd


def copied(home: Supervised) -> Path:
    """Copy the database as it is now."""
    copy = home.fleet.user / "copy.db"
    with closing(sqlite3.connect(home.fleet.home / "fleet.db")) as now, closing(sqlite3.connect(copy)) as then:
        now.backup(then)
    return copy


def put_back(home: Supervised, copy: Path) -> None:
    """Kill the supervisor, whose agents survive, and replace the database by the copy."""
    home.kill()
    for name in ("fleet.db-wal", "fleet.db-shm"):
        (home.fleet.home / name).unlink(missing_ok=True)
    shutil.copyfile(copy, home.fleet.home / "fleet.db")


def create(home: Supervised, branch: str, do: str) -> dict[str, Any]:
    made = json.loads(home.fleet.ok("create", branch, "--headless", "--prompt", f"do: {do}", "--json"))
    return dict(made)


def test_agent_is_adopted_when_its_task_is_in_the_restored_database(home: Supervised, repo: Path) -> None:
    home.fleet.ok("pause")
    home.start()
    task = create(home, "work", "ok seconds=600")["task"]
    copy = copied(home)
    home.fleet.ok("resume")
    home.wait_started(1)
    (agent,) = {note[3] for note in home.notes("start")}
    put_back(home, copy)
    assert home.runs(task) == []

    for words in (("tasks",), ("list",), ("doctor",), ("list", "--repair")):
        shown = home.fleet(*words)
        assert f"{task}/1" in shown.out + shown.err, (words, shown)
        assert "worktree remove" not in shown.out + shown.err, (words, shown)
    home.start()
    home.fleet.ok("resume")
    wait_for(lambda: home.runs(task), "the run to be on record", home.describe)
    assert f"{task}/1" not in home.fleet("doctor").out
    wait_for(lambda: home.runs(task)[0]["first_event_at"], "its output to be read", home.describe)
    (row,) = json.loads(home.fleet.ok("tasks", "--json"))
    assert (row["id"], row["number"], row["events"] > 0) == (task, 1, True)
    home.fleet.ok("interrupt", task)
    home.wait_status(task, "blocked")
    assert [(run["number"], run["ending"]) for run in home.runs(task)] == [(1, "interrupted")]
    assert [note[3] for note in home.notes("start")] == [agent], "the same agent, and no second one"


def test_agent_is_ended_and_its_work_saved_when_its_task_is_not_in_the_restored_database(
    home: Supervised, repo: Path
) -> None:
    create(home, "before", "ok")
    home.start()
    wait_for(lambda: home.notes("end"), "the first to end", home.describe)
    copy = copied(home)
    made = create(home, "work", "ok seconds=600")
    home.wait_started(2)
    tree = Path(made["worktree"] or home.rows("select path from workspaces where branch = 'work'")[0]["path"])
    (tree / "precious").write_text("uncommitted")
    put_back(home, copy)

    told = home.fleet("list", "--repair")
    assert str(tree) in told.err and "worktree remove" not in told.err, told
    assert home.agents() and (tree / "precious").exists()
    home.start()
    wait_for(lambda: not home.agents(), "the agent to be gone", home.describe)
    (ref,) = run_git(repo, "for-each-ref", "--format=%(refname)", "refs/fleet/saved/").splitlines()
    assert run_git(repo, "show", f"{ref}:precious") == "uncommitted"
    assert (tree / "precious").read_text() == "uncommitted"
    assert made["task"] not in home.fleet("doctor").out


def test_agent_of_a_later_run_is_adopted_when_the_database_shows_an_earlier_one_as_live(
    home: Supervised, repo: Path
) -> None:
    home.set("supervisor.start_interval_seconds=0")
    home.start()
    task = create(home, "work", "ok seconds=600")["task"]
    home.wait_started(1)
    copy = copied(home)
    home.fleet.ok("interrupt", "work")
    wait_for(lambda: not home.agents(), "its end", home.describe)
    home.wait_status(task, "blocked")
    home.fleet.ok("retry", "work")
    home.wait_started(2)
    put_back(home, copy)
    home.start()
    wait_for(lambda: len(home.runs(task)) == 2, "the later run to be on record", home.describe)
    assert [(run["number"], run["ending"]) for run in home.runs(task)] == [(1, "lost"), (2, "")]
    assert len(home.agents()) == len({note[3] for note in home.notes("start")[1:]}) == 1


def test_repair_keeps_a_worktree_when_an_unrecorded_agent_lives_in_it(home: Supervised, repo: Path) -> None:
    """The database shows a worktree in creation; meanwhile its agent has started."""
    home.fleet.ok("pause")
    home.start()
    task = create(home, "work", "ok seconds=600")["task"]
    home.fleet.ok("resume")
    home.wait_started(1)
    copy = copied(home)
    with closing(sqlite3.connect(copy)) as database:
        database.executescript("update workspaces set ready_at = null; delete from runs; delete from callers;")
        database.execute(
            "update tasks set status = 'open', claim_owner = '', claim_expires_at = null, assignee = '', run_id = ''"
        )
        database.commit()
    (tree,) = [row["path"] for row in home.rows("select path from workspaces")]
    put_back(home, copy)
    told = home.fleet("list", "--repair")
    assert Path(tree).is_dir() and home.agents(), told
    assert "removed its unfinished" not in told.err and f"{task}/1" in told.err
    for pid in home.agents():
        subprocess.run(["kill", "-9", str(pid)], check=False)


def test_agent_is_not_reported_when_its_run_has_just_ended(home: Supervised) -> None:
    """Its lock is released a moment after the end of its run is on record."""
    home.start()
    task = home.create("ok")
    home.wait_status(task, "closed", "blocked")
    lock = (home.fleet.home / "tasks" / task / "runs" / "1" / "lock").open()
    fcntl.flock(lock, fcntl.LOCK_EX)
    timer = threading.Timer(2, lock.close)
    timer.start()
    assert "agents" not in {check["name"] for check in json.loads(home.fleet("doctor", "--json").out)}
    timer.join()
