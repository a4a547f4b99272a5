"""A branch that existed before: its next agent is judged only by its own changes."""

from pathlib import Path
from typing import Any

import pytest

from projects import orders, use_shell_coder
from repositories import commit, run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

BRANCH = "jwt-A2"
AGENT = "git -c user.name=agent -c user.email=agent@example.invalid"


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts."""
    use_shell_coder(at_home)
    return at_home


@pytest.fixture(params=["behind", "ahead"])
def reused(request: pytest.FixtureRequest, home: Terminals) -> str:
    """Return the tip of a branch that an earlier agent left, with and without later commits on main."""
    wait_closed(home, create(home, "echo old > old.txt"))
    home.fleet.ok("kill", BRANCH)
    if request.param == "behind":
        commit(home.repo, "b.txt", "newer than the branch\n")
    return run_git(home.repo, "rev-parse", BRANCH)


def create(home: Terminals, *steps: str, options: tuple[str, ...] = ()) -> str:
    """Create a headless agent on the branch that runs these steps. Return its task."""
    made = home.told("create", BRANCH, "--headless", "--prompt", orders(*steps), *options)
    return str(made["task"])


def wait_closed(home: Terminals, task: str) -> dict[str, Any]:
    """Wait for the end of a task. Return its receipt."""
    home.wait_status(task, "closed", "blocked")
    found: dict[str, Any] = home.told("receipt", task)
    return found


def changed(receipt: dict[str, Any]) -> list[str]:
    return [change["path"] for change in receipt["pieces"]["git"]["files"]]


def test_agent_without_changes_on_a_reused_branch_is_not_verified_by_old_work(home: Terminals, reused: str) -> None:
    task = create(home, "true", options=("--verify", "test -e old.txt"))
    receipt = wait_closed(home, task)
    assert receipt["finding"] == "no_changes"
    assert (receipt["pieces"]["git"]["base"], receipt["pieces"]["git"]["tip"]) == (reused, reused)
    assert changed(receipt) == [] and receipt["pieces"]["git"]["commits"] == []
    assert home.fleet.ok("diff", BRANCH) == ""
    assert home.listed("--all")[BRANCH]["diff"] in (None, {"files": 0, "added": 0, "removed": 0})


def test_agent_on_a_reused_branch_is_verified_by_its_own_work(home: Terminals, reused: str) -> None:
    options = ("--verify", "test -e new.txt", "--fail-to-pass", "--protect", "b.txt", "--protect", "old.txt")
    receipt = wait_closed(home, create(home, "echo new > new.txt", options=options))
    assert receipt["finding"] == "verified", receipt
    assert receipt["pieces"]["git"]["base"] == reused and changed(receipt) == ["new.txt"]
    assert receipt["pieces"]["git"]["commit_count"] == 1
    assert home.fleet.ok("diff", BRANCH, "--name-only").split() == ["new.txt"]


def test_agent_on_a_reused_branch_is_out_of_scope_when_it_changes_protected_files(home: Terminals, reused: str) -> None:
    receipt = wait_closed(home, create(home, "echo mine > old.txt", options=("--protect", "old.txt")))
    assert receipt["finding"] == "out_of_scope" and changed(receipt) == ["old.txt"]


def test_task_keeps_its_base_when_it_is_retried(home: Terminals, reused: str) -> None:
    first = f"echo one > one.txt; git add one.txt; {AGENT} commit --quiet --message=one; sleep 300"
    task = create(home, f"test -e one.txt || {{ {first}; }}", options=("--verify", "test -e one.txt"))
    (tree,) = home.worktrees()
    wait_for(lambda: run_git(Path(tree), "log", "-1", "--format=%s") == "one", "its commit", home.describe)
    home.fleet.ok("kill", task)
    home.fleet.ok("retry", task)
    receipt = wait_closed(home, task)
    assert receipt["finding"] == "verified", receipt
    assert receipt["pieces"]["git"]["base"] == reused and changed(receipt) == ["one.txt"]


def test_retried_task_does_not_count_work_of_another_as_its_own(home: Terminals, reused: str) -> None:
    task = create(home, "exit 3")
    home.fleet.ok("kill", task)
    other = wait_closed(home, create(home, "echo other > other.txt"))
    home.fleet.ok("kill", BRANCH)
    home.fleet.ok("retry", task)
    receipt = wait_closed(home, task)
    assert receipt["pieces"]["git"]["base"] == other["pieces"]["git"]["tip"] != reused and changed(receipt) == []
