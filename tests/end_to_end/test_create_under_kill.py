"""SIGKILL at random moments of `create` and `kill`, of command or supervisor: everything stays accounted for.

The test compares git, tmux, processes and files with the database, from outside.
"""

import fcntl
import json
import logging
import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from repositories import files_below, run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]

log = logging.getLogger(__name__)

KILLS = 12
#: About the time that a command takes.
LONGEST_SECONDS = 0.6
#: Queries for moments when something is half done.
HALF_DONE = {
    "create": "select 1 from workspaces where ready_at is null and removed_at is null",
    "kill": "select 1 from workspaces where removing_at is not null and removed_at is null",
}


@pytest.mark.parametrize("kills", [KILLS, pytest.param(5 * KILLS, marks=pytest.mark.soak("kills"))])
def test_random_kills_leave_everything_accounted_for(home: Terminals, kills: int) -> None:
    home.seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(home.seed)
    log.info("seed %s", home.seed)
    for number in range(kills):
        name = f"branch-{chance.randrange(6)}"
        words = ["create", name, "--prompt", "work"]
        if name in home.listed("--all") and chance.random() < 0.7:
            words = ["kill", name, "--force", *(["--delete-branch"] if chance.random() < 0.5 else [])]
        killed_midway(home, chance, words, of_supervisor=bool(number % 2))
    log.info("repair: %s", home.fleet("list", "--repair").err)
    settled(home)
    log.info("repair: %s", home.fleet("list", "--repair").err)
    come_right(home)
    assert home.fsck() == ""
    # Everything can also be removed.
    home.told("create", "last", "--prompt", "work")
    home.wait_alive("last")
    home.fleet.ok("kill", "*", "--force", "--delete-branch")
    assert (home.worktrees(), home.sessions(), home.agents()) == (set(), set(), [])
    come_right(home)


@pytest.mark.parametrize("word", HALF_DONE)
def test_create_and_kill_are_repaired_when_cut_short_in_the_middle(home: Terminals, word: str) -> None:
    """The supervisor creates worktrees, and `kill` itself removes them: the test kills each at its work."""
    for number in range(20):
        name = f"cut-{number}"
        if word == "kill":
            home.told("create", name, "--prompt", "work")
        process = spawn(home, word, name, *(["--force"] if word == "kill" else ["--prompt", "work"]))
        came = reached(home, process, HALF_DONE[word])
        with suppress(ProcessLookupError):
            os.kill((supervisor(home) if word == "create" else 0) or process.pid, signal.SIGKILL)
        process.kill()
        process.wait(60)
        if came and home.rows(HALF_DONE[word]):
            break
    else:
        pytest.fail("it was never caught in the middle")
    home.fleet.ok("list", "--repair")
    settled(home)
    assert unaccounted(home) == []
    assert home.fsck() == ""
    assert (name in home.listed()) == (word == "create")


def killed_midway(home: Terminals, chance: random.Random, words: list[str], *, of_supervisor: bool) -> None:
    """Run a command, and kill it or the supervisor at some moment."""
    process = spawn(home, *words)
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0, LONGEST_SECONDS))
    else:
        reached(home, process, HALF_DONE[words[0]])
    victim = (supervisor(home) if of_supervisor else 0) or process.pid
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:  # the command waits for a supervisor that no longer exists
        process.kill()
        process.wait()


def spawn(home: Terminals, *words: str) -> "subprocess.Popen[bytes]":
    """Start a command without waiting."""
    return subprocess.Popen(
        [*home.fleet.argv, *words],
        cwd=home.repo,
        env=home.fleet.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def reached(home: Terminals, process: "subprocess.Popen[bytes]", sql: str) -> bool:
    """Wait for a moment that the database shows, or for the command's end. Return True if the moment came."""
    with closing(sqlite3.connect(f"file:{home.fleet.home}/fleet.db?mode=ro", uri=True, timeout=30)) as database:
        while process.poll() is None:
            if database.execute(sql).fetchone():
                return True
            time.sleep(0.001)
    return False


def supervisor(home: Terminals) -> int:
    """Return the process id of the supervisor, or 0 if none runs or another process has reused the id."""
    try:
        pid = int(json.loads((home.fleet.home / "supervisor.lock").read_text())["pid"])
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (OSError, ValueError, KeyError):
        return 0
    return pid if f"FLEET_HOME={home.fleet.home}".encode() in environment else 0


def settled(home: Terminals) -> None:
    """Wait until all pending agents are started, by starting one more through a live supervisor."""
    home.fleet("kill", "settles", "--force", "--delete-branch")
    home.fleet.ok("create", "settles", "--prompt", "work")
    home.wait_alive("settles")
    wait_for(
        lambda: not home.rows("select id from tasks where status = 'open' and branch <> ''"),
        "all tasks to be started",
        home.describe,
    )
    wait_for(lambda: "starting" not in {row["status"] for row in home.listed().values()}, "all to run", home.describe)


def come_right(home: Terminals) -> None:
    """Wait until everything is accounted for, once pending deletions are done."""
    wait_for(lambda: not unaccounted(home), "all to be accounted for", lambda: str(unaccounted(home)), 20)


def is_held(path: Path) -> bool:
    """Return True if a live process holds this spare or outgoing checkout."""
    if not path.name.startswith(".gone-"):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def unaccounted(home: Terminals) -> list[str]:
    """Describe things that exist but are unknown, and things that are known but missing."""
    standing = home.rows("select * from workspaces where removed_at is null")
    paths = {str(row["path"]) for row in standing}
    live = home.rows(
        "select r.session_name as name, t.status from runs r join tasks t on t.id = r.task where r.ended_at is null"
    )
    sessions = {str(row["name"]) for row in live}
    root = home.fleet.home / "worktrees"
    folders = {str(path) for path in root.glob("*/*") if not is_held(path)}
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
        "lock that nobody holds": {str(path) for path in files_below(home.repo / ".git") if path.suffix == ".lock"},
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
