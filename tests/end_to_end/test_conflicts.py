"""The conflict radar: fleet detects and shows branches that collide, and informs their agents on request."""

import json
from pathlib import Path
from typing import Any

import pytest

from projects import orders, use_shell_coder
from repositories import commit, make_repository, run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

WHO = "git -c user.name=agent -c user.email=agent@example.invalid"
LISTENING = "workers.steered:ListeningCoder"


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts."""
    use_shell_coder(at_home)
    return at_home


def begin(home: Terminals, branch: str, *steps: str) -> str:
    """Start a headless agent on a branch that runs these steps, then waits until the file `go` exists.

    Return its task.
    """
    go = home.fleet.user / "go"
    home.told("create", branch, "--headless", "--prompt", orders(*steps, f"until test -e {go}; do sleep 0.05; done"))
    (task,) = home.rows_of_branch(branch)
    return str(task["id"])


def changes(text: str, file: str = "file1.txt") -> tuple[str, str]:
    return f"echo {text} > {file}", f"{WHO} commit --quiet --all --message='changed it'"


def collisions(home: Terminals) -> list[dict[str, Any]]:
    """Return the collisions that the supervisor recorded in the database."""
    return home.rows("select * from collisions order by task, other")


def test_collision_of_two_live_agents_is_shown_until_one_is_removed(home: Terminals) -> None:
    first = begin(home, "first", *changes("one way"))
    second = begin(home, "second", *changes("another"))
    third = begin(home, "third", *changes("elsewhere", "file2.txt"))
    wait_for(lambda: collisions(home), "a collision", home.describe)
    (row,) = collisions(home)
    assert (row["task"], row["other"], json.loads(row["files"])) == (first, second, ["file1.txt"])
    assert (row["tip"], row["other_tip"]) == tuple(run_git(home.repo, "rev-parse", "first", "second").splitlines())
    assert home.task(first)["status"] == home.task(second)["status"] == "in_progress"

    listed = home.listed()
    assert listed["first"]["collides"] == [{"task": second, "branch": "second", "files": ["file1.txt"]}]
    assert listed["second"]["collides"] == [{"task": first, "branch": "first", "files": ["file1.txt"]}]
    assert listed["third"]["collides"] == [] and listed["third"]["task"] == third
    shown = home.fleet.ok("list").splitlines()
    assert [" ! " in line for line in shown[1:4]] == [True, True, False]
    assert shown[-1].startswith("! collides with another branch: `fleet conflicts`")

    (found,) = home.told("conflicts")
    assert [side["branch"] for side in found["branches"]] == ["first", "second"]
    assert [side["task"] for side in found["branches"]] == [first, second]
    assert found["files"] == ["file1.txt"] and found["told_at"] is None
    said = home.fleet.ok("conflicts")
    assert f"first ({first}, in_progress) and second ({second}, in_progress) collide" in said
    assert "\n  file1.txt\n" in said
    assert not told(home), "nobody asked that agents be told"

    home.fleet.ok("kill", "second")
    assert home.listed()["first"]["collides"] == [] and home.told("conflicts") == []
    (home.fleet.user / "go").touch()


def test_work_that_fleet_commits_at_the_end_is_checked_for_collisions(home: Terminals) -> None:
    for branch in ("first", "second"):
        home.told("create", branch, "--headless", "--prompt", orders(f"echo {branch} > file1.txt"))
        (task,) = home.rows_of_branch(branch)
        home.wait_status(str(task["id"]), "closed")
    wait_for(lambda: collisions(home), "a collision", home.describe)


def test_conflicts_are_found_without_a_supervisor_and_per_repository(home: Terminals) -> None:
    for branch in ("first", "second"):
        begin(home, branch)
    wait_for(lambda: len(home.worktrees()) == 2, "worktrees", home.describe)
    home.fleet.ok("run", "stop", "--stop-agents")
    assert home.fleet("conflicts").err == "no branches collide\n" and home.told("conflicts") == []
    for tree in sorted(home.worktrees()):
        commit(Path(tree), "file1.txt", f"{tree}\n")
        commit(Path(tree), "an odd\x1b[31m name", f"{tree}\n")
    (found,) = home.told("conflicts")
    assert found["files"] == ["an odd\x1b[31m name", "file1.txt"]
    assert "\x1b" not in home.fleet.ok("conflicts")
    assert home.listed()["first"]["collides"][0]["branch"] == "second", "what was found is kept"
    other = make_repository(home.fleet.user / "other")
    assert home.told("conflicts", cwd=other) == []
    assert len(home.told("conflicts", "--all-projects", cwd=other)) == 1
    merged = {"merged": {"tip": run_git(home.repo, "rev-parse", "first"), "into": "main"}}
    home.fleet.ok("bd", "update", found["branches"][0]["task"], "--metadata", json.dumps(merged))
    assert home.listed()["second"]["collides"] == [], "what was merged collides with nobody any more"
    assert home.told("conflicts") == []


def test_later_agent_is_told_once_when_the_settings_say_so(at_home: Terminals) -> None:
    home, tests = at_home, Path(__file__).parent.parent
    home.fleet.env["PYTHONPATH"] = f"{tests}:{tests / 'workers'}"
    go = home.fleet.user / "go"
    home.set(f"coder={LISTENING}", f'agent.env={{AUDIT = "{home.fleet.user / "audit"}"}}')
    ids = []
    for branch, tell in (("first", "true"), ("second", "true"), ("third", "false")):
        home.set(f"merge.tell={tell}")
        home.told("create", branch, "--headless", "--prompt", f"do: wait until={go}")
        (task,) = home.rows_of_branch(branch)
        wait_for(lambda key=task["id"]: any(run["tool_calls"] for run in home.runs(key)), "its start", home.describe)  # type: ignore[misc]
        ids.append(str(task["id"]))
    for tree in sorted(home.worktrees()):
        commit(Path(tree), "file1.txt", f"{tree}\n")
    home.fleet.ok("prompt", ids[0], "go on", "--wait=0")  # the agent acts, and fleet checks the moved branches
    wait_for(lambda: len(collisions(home)) == 3, "the look", home.describe)
    wait_for(lambda: [each for each in told(home) if each["delivered_at"]], "its arrival", home.describe)
    go.touch()
    home.wait_all(ids, "closed")
    (message,) = told(home)
    assert message["task"] == ids[1], "neither the earlier one, nor the one whose settings do not say so"
    assert "your branch second collides with branch first" in message["text"] and "'file1.txt'" in message["text"]
    assert [row["told_at"] is not None for row in collisions(home)].count(True) == 1


def told(home: Terminals) -> list[dict[str, Any]]:
    """Return the messages that fleet itself sent to agents."""
    return home.rows("select * from messages where author like 'fleet (%'")
