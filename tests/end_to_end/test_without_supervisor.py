"""`fleet done`, `kill` and `prompt` without a supervisor: they start one, say so, and keep their promises."""

import os
import signal
from pathlib import Path

from repositories import run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]


def left_alone(home: Terminals) -> tuple[str, Path]:
    """Create an agent at its prompt whose supervisor was killed. Return its task and worktree."""
    made = home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")
    return made["task"], Path(made["worktree"])


def test_done_starts_a_supervisor_that_ends_the_agent_and_commits_leftovers(home: Terminals) -> None:
    task, tree = left_alone(home)
    (tree / "left.txt").write_text("left\n")
    done = home.fleet("done", "work")
    assert done.code == 0 and "work: closed" in done.out and "supervisor started: pid" in done.err
    wait_for(lambda: home.runs(task)[-1]["ended_at"], "its end", home.describe)
    assert home.sessions() == set() and home.agents() == []
    assert run_git(home.repo, "show", "work:left.txt") == "left"
    assert home.task(task)["status"] == "closed"


def test_kill_starts_a_supervisor_and_says_so(home: Terminals) -> None:
    left_alone(home)
    done = home.fleet("kill", "work")
    assert done.code == 0 and "work: removed" in done.out and "supervisor started: pid" in done.err
    assert home.sessions() == home.worktrees() == set() and home.agents() == []


def test_prompt_starts_a_supervisor_and_says_so(home: Terminals) -> None:
    task, _ = left_alone(home)
    done = home.fleet("prompt", "work", "and this too", "--wait", "30")
    assert done.code == 0 and "supervisor started: pid" in done.err and "delivered" in done.out
    assert home.heard(task)[-1] == "and this too"


def test_done_starts_no_supervisor_when_nothing_is_to_do(home: Terminals) -> None:
    task, _ = left_alone(home)
    home.fleet.ok("kill", "work")
    home.fleet.ok("run", "stop")
    done = home.fleet("done", "work")
    assert (done.code, done.err, home.task(task)["status"]) == (0, "", "closed") and not home.status()["running"]


def test_kill_reports_a_closed_task_without_a_worktree(home: Terminals) -> None:
    task, _ = left_alone(home)
    home.fleet.ok("kill", "work")
    home.fleet.ok("done", "work")
    again = home.fleet("kill", "work")
    assert again.code == 1 and f"{task} is already closed" in again.err and "blocked" not in again.out
