"""A moved repository: fleet names the place where it looked, counts no failure, and creates nothing there."""

import json
from pathlib import Path

import pytest

from repositories import make_repository, run_git
from supervised import Supervised, home, wait_for

__all__ = ["home"]


@pytest.fixture
def repo(home: Supervised) -> Path:
    """Return a repository inside another repository, which fleet must not use instead."""
    make_repository(home.fleet.cwd)
    home.fleet.cwd = make_repository(home.fleet.cwd / "repo")
    return home.fleet.cwd


def create(home: Supervised, do: str) -> str:
    return str(json.loads(home.fleet.ok("create", "work", "--headless", "--prompt", f"do: {do}", "--json"))["task"])


def moved(home: Supervised, repo: Path) -> Path:
    home.fleet.cwd = repo.parent
    return repo.rename(repo.with_name("moved"))


def check_told(home: Supervised, repo: Path, task: str) -> None:
    """Check that the task is blocked uncounted, and that every command names the place where fleet looked."""
    found = home.wait_status(task, "blocked")
    assert (found["failures"], found["finding"]) == (0, "infra_error")
    assert str(repo) in found["reason"] and "no git repository" in found["reason"]
    told = home.fleet("doctor", "--json")
    (check,) = [each for each in json.loads(told.out) if each["name"] == "repository"]
    assert told.code == 1 and str(repo) in check["fact"] and check["state"] == "wrong"
    repaired = home.fleet("list", "--repair", "--all-projects")
    assert repaired.code == 0 and str(repo) in repaired.err and "made it again" not in repaired.err
    assert not repo.exists()


def test_task_is_blocked_uncounted_when_its_repository_was_moved(home: Supervised, repo: Path) -> None:
    home.fleet.ok("pause")
    home.start()
    task = create(home, "ok")
    there = moved(home, repo)
    home.fleet.ok("resume")
    check_told(home, repo, task)
    assert home.notes("start") == []
    there.rename(repo)
    home.fleet.ok("retry", task)
    home.wait_started(1)
    assert "repository" not in {check["name"] for check in json.loads(home.fleet("doctor", "--json").out)}


def test_run_is_an_infrastructure_error_when_its_repository_moved_meanwhile(home: Supervised, repo: Path) -> None:
    home.start()
    task = create(home, "ok seconds=600")
    home.wait_started(1)
    wait_for(lambda: home.runs(task)[0]["first_event_at"], "its first word", home.describe)
    (tree,) = [Path(row["path"]) for row in home.rows("select path from workspaces")]
    (tree / "precious").write_text("uncommitted")
    there = moved(home, repo)
    home.fleet.ok("interrupt", task)
    wait_for(lambda: home.runs(task)[0]["ended_at"], "its end", home.describe)
    assert not repo.exists() and (tree / "precious").read_text() == "uncommitted"
    home.fleet.ok("retry", task)
    check_told(home, repo, task)
    there.rename(repo)
    assert run_git(repo, "rev-parse", "--verify", "work")


def test_finished_run_is_an_infrastructure_error_when_its_repository_is_gone(home: Supervised, repo: Path) -> None:
    home.start()
    task = create(home, "ok seconds=5")
    home.wait_started(1)
    moved(home, repo)
    wait_for(lambda: home.runs(task)[0]["ended_at"], "its end", home.describe)
    run = home.runs(task)[0]
    assert (run["ending"], run["finding"]) == ("lost", "infra_error") and str(repo) in run["reason"]
    check_told(home, repo, task)
    assert len(home.runs(task)) == 1
