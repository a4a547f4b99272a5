"""kill -9 at random moments of `create` and `kill`, of the command or of the supervisor: nothing is unaccounted for.

What lies in git, in tmux, in the processes and on disk is compared with what the database says, from outside.
"""

import logging
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from repositories import run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]

log = logging.getLogger(__name__)

KILLS = 20
#: About as long as a command takes.
LONGEST_SECONDS = 0.6


@pytest.mark.parametrize("kills", [KILLS, pytest.param(5 * KILLS, marks=pytest.mark.soak)])
def test_random_kills_leave_nothing_unaccounted_for(home: Terminals, kills: int) -> None:
    home.seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(home.seed)
    log.info("seed %s", home.seed)
    for number in range(kills):
        name = f"branch-{chance.randrange(6)}"
        words = ["create", name, "--prompt", "work"]
        if name in home.listed("--all") and chance.random() < 0.7:
            words = ["kill", name, "--force", *(["--delete-branch"] if chance.random() < 0.5 else [])]
        killed_midway(home, chance, words, of_supervisor=bool(number % 2))
    home.fleet.ok("list", "--repair")
    settled(home)
    home.fleet.ok("list", "--repair")
    assert unaccounted(home) == []
    assert home.fsck() == ""
    # And all of it can be taken away.
    home.told("create", "last", "--prompt", "work")
    home.wait_alive("last")
    home.fleet.ok("kill", "*", "--force", "--delete-branch")
    assert (home.worktrees(), home.sessions(), home.agents()) == (set(), set(), [])
    assert unaccounted(home) == []


def killed_midway(home: Terminals, chance: random.Random, words: list[str], *, of_supervisor: bool) -> None:
    """Run a command, and kill it or the supervisor at some moment of it."""
    process = subprocess.Popen(
        [*home.fleet.argv, *words],
        cwd=home.repo,
        env=home.fleet.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(chance.uniform(0, LONGEST_SECONDS))
    victim = supervisor(home) if of_supervisor else process.pid
    with suppress(ProcessLookupError):
        os.kill(victim or process.pid, signal.SIGKILL)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:  # it waits for a supervisor that is no more
        process.kill()
        process.wait()


def supervisor(home: Terminals) -> int:
    """The process of the supervisor; 0 when none runs."""
    status = home.status()
    return int(status.get("pid") or 0) if status.get("running") else 0


def settled(home: Terminals) -> None:
    """Wait until whatever was to be started is started: one more agent, through a supervisor that lives."""
    home.fleet("kill", "settles", "--force", "--delete-branch")
    home.fleet.ok("create", "settles", "--prompt", "work")
    home.wait_alive("settles")
    wait_for(
        lambda: not home.rows("select id from tasks where status = 'open' and branch <> ''"),
        "all tasks to be started",
        home.describe,
    )
    wait_for(lambda: "starting" not in {row["status"] for row in home.listed().values()}, "all to run", home.describe)


def unaccounted(home: Terminals) -> list[str]:
    """What is there and unknown, and what is known and not there, in words."""
    standing = home.rows("select * from workspaces where removed_at is null")
    paths = {str(row["path"]) for row in standing}
    live = home.rows(
        "select r.session_name as name, t.status from runs r join tasks t on t.id = r.task where r.ended_at is null"
    )
    sessions = {str(row["name"]) for row in live}
    root = home.fleet.home / "worktrees"
    folders = {str(path) for path in root.glob("*/*")}
    known = {str(row["branch"]) for row in home.rows("select branch from workspaces")}
    found = {
        "worktree that is not known": home.worktrees() - paths,
        "worktree that is not there": paths - home.worktrees(),
        "folder that is no worktree": folders - home.worktrees(),
        "worktree without a folder": home.worktrees() - folders,
        "session that is not known": home.sessions() - sessions,
        "session that is not there": sessions - home.sessions(),
        "branch that is not known": home.branches() - known,
        "workspace half removed": {str(row["path"]) for row in standing if row["removing_at"]},
        "lock that nobody holds": {str(path) for path in (home.repo / ".git").rglob("*.lock")},
        "task in progress without a run": {
            str(row["id"])
            for row in home.rows(
                "select id from tasks where status = 'in_progress' and id not in"
                " (select task from runs where ended_at is null)"
            )
        },
        "worktree that is not whole": {
            path for path in home.worktrees() if run_git(Path(path), "status", "--porcelain", "-uno", check=False)
        },
    }
    return [f"{what}: {name}" for what, names in found.items() for name in sorted(names)]
