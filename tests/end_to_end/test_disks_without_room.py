"""A disk without room means "not now": no task is blamed, no run is cut short, and work resumes with room."""

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from projects import orders, use_shell_coder
from repositories import run_git
from supervised import disk_with_quotas, fill, fill_inodes, small_disk, wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

MEGABYTES = {"home": 24, "tasks": 4, "worktrees": 4, "repo": 8}
#: The kernel refuses to turn a disk read-only while agents and the database hold files open on it.
FAULTS = [(place, fault) for place in MEGABYTES for fault in ("full", "inodes")]
FAULTS += [(place, "read-only") for place in ("worktrees", "repo")]
FAULTS += [(place, "quota") for place in ("worktrees", "repo")]


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts one after the other."""
    use_shell_coder(at_home)
    at_home.set("limits.retry_limit=2", "max_concurrent=1")
    return at_home


def place_of(home: Terminals, name: str) -> Path:
    """Return the folder that has its own disk."""
    return {"home": home.fleet.home, "repo": home.repo}.get(name, home.fleet.home / name)


def cause(fault: str, place: Path) -> Callable[[], None]:
    """Make a disk refuse writes. Return a function that ends the fault."""
    if fault == "full":
        return fill(place / "filler").unlink
    if fault == "inodes":
        fill_inodes(place / "fillers")
        return lambda: shutil.rmtree(place / "fillers")
    if fault == "quota":
        limit_quota(place, "1M")
        return lambda: limit_quota(place, "none")
    remount(place, "ro")
    return lambda: remount(place, "rw")


def remount(place: Path, how: str) -> None:
    """Remount a disk read-only or writable."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)


def limit_quota(place: Path, limit: str) -> None:
    """Set a limit for all data written to a disk."""
    subprocess.run(["btrfs", "qgroup", "limit", limit, str(place)], check=True)


def disk_of(home: Terminals, place: Path, megabytes: int, fault: str) -> AbstractContextManager[object]:
    """Return a disk over a folder that can have the fault."""
    if fault == "quota":
        return disk_with_quotas(place, home.fleet.user / "disk")
    return small_disk(place, f"{megabytes}m", "nr_inodes=2000")


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_work_resumes_uncounted_when_a_disk_has_room_again(home: Terminals, name: str, fault: str) -> None:
    place, go = place_of(home, name), home.fleet.user / "go"
    with ExitStack() as stack:
        stack.enter_context(disk_of(home, place, MEGABYTES[name], fault))
        wait = f"while [ ! -e {go} ]; do sleep 0.1; done"
        first = home.told(
            "create", "work", "--headless", "--prompt", orders("echo done > new.txt", "touch begun", wait)
        )
        tree = Path(first["worktree"])
        wait_for((tree / "begun").exists, "its work", home.describe)
        second = home.told("create", "next", "--headless", "--prompt", orders("echo done > new.txt"))
        keys = [first["task"], second["task"]]
        end = cause(fault, place)
        go.touch()
        wait_for(lambda: not home.agents(), "the agent to end", home.describe)
        time.sleep(4)  # longer than it takes to settle a run and to try the next
        end()
        home.wait_all(keys, "closed")  # a task that was blocked meanwhile would stay blocked
        assert [home.task(key)["failures"] for key in keys] == [0, 0], [home.runs(key) for key in keys]
        assert home.runs(keys[0])[-1]["ending"] == "finished" and home.runs(keys[1])[-1]["ending"] == "finished"
        flags = [flag for key in keys for run in home.told("runs", key) for flag in run["flags"]]
        assert [flag for flag in flags if flag.startswith("not ")] == [], "each was concluded as ever"
        assert run_git(home.repo, "show", "work:new.txt") == run_git(home.repo, "show", "next:new.txt") == "done"
        home.fleet.ok("run", "stop")


def test_tasks_finish_after_a_restart_when_the_home_was_over_its_quota(home: Terminals) -> None:
    go = home.fleet.user / "go"
    with disk_with_quotas(home.fleet.home, home.fleet.user / "disk"):
        wait = f"while [ ! -e {go} ]; do sleep 0.1; done"
        first = home.told(
            "create", "work", "--headless", "--prompt", orders("echo done > new.txt", "touch begun", wait)
        )
        wait_for((Path(first["worktree"]) / "begun").exists, "its work", home.describe)
        second = home.told("create", "next", "--headless", "--prompt", orders("echo done > new.txt"))
        end = cause("quota", home.fleet.home)
        go.touch()
        wait_for(lambda: not home.agents(), "the agent to end", home.describe)
        time.sleep(4)  # longer than it takes to settle a run and to try the next
        end()
        home.fleet.ok("run", "start")  # if writing copies, SQLite's shared memory needs room: SIGBUS ends programs
        home.wait_all([first["task"], second["task"]], "closed")
        assert run_git(home.repo, "show", "work:new.txt") == run_git(home.repo, "show", "next:new.txt") == "done"
        home.fleet.ok("run", "stop")


def test_task_is_not_counted_as_failed_when_its_agent_fails_on_a_full_disk(home: Terminals) -> None:
    home.set("limits.retry_limit=1")
    go = home.fleet.user / "go"
    with small_disk(home.fleet.home / "worktrees", "4m"):
        steps = ("touch begun", f"while [ ! -e {go} ]; do sleep 0.1; done", "head -c 200000 /dev/zero > large.bin")
        made = home.told("create", "work", "--headless", "--prompt", orders(*steps))
        wait_for((Path(made["worktree"]) / "begun").exists, "its work", home.describe)
        end = cause("full", home.fleet.home / "worktrees")
        go.touch()
        wait_for(lambda: not home.agents(), "the agent to end", home.describe)
        wait_for(
            lambda: any("waits for free disk space" in line["event"] for line in home.log_lines()), "it to be seen"
        )
        end()
        home.wait_status(made["task"], "closed")
        assert [run["ending"] for run in home.runs(made["task"])] == ["released", "finished"]
        assert home.task(made["task"])["failures"] == 0
        home.fleet.ok("run", "stop")


def test_run_is_repeated_when_its_agent_succeeds_on_a_full_disk(home: Terminals) -> None:
    go = home.fleet.user / "go"
    with small_disk(home.fleet.home / "worktrees", "4m"):
        wait = f"while [ ! -e {go} ]; do sleep 0.1; done"
        steps = ("touch begun", wait, "echo done > new.txt; test -s new.txt || rm -f new.txt begun")
        made = home.told("create", "work", "--headless", "--prompt", orders(*steps))
        wait_for((Path(made["worktree"]) / "begun").exists, "its work", home.describe)
        end = cause("full", home.fleet.home / "worktrees")
        go.touch()
        wait_for(
            lambda: any("waits for free disk space" in line["event"] for line in home.log_lines()), "it", home.describe
        )
        end()
        home.wait_status(made["task"], "closed")
        assert [run["ending"] for run in home.runs(made["task"])] == ["released", "finished"]
        assert home.task(made["task"])["failures"] == 0
        home.fleet.ok("run", "stop")


def test_command_names_the_disk_when_the_home_is_read_only(home: Terminals) -> None:
    with small_disk(home.fleet.home, "24m"):
        remount(home.fleet.home, "ro")
        assert f"disk: {home.fleet.home}: Read-only" in home.fleet("doctor").out
        for words in (("run", "start"), ("tasks",), ("bd", "create", "x"), ("create", "work", "--prompt", "x")):
            refused = home.fleet(*words)
            assert refused.code == 1 and "bug" not in refused.err, (words, refused)
            assert "read-only" in refused.err.lower() and str(home.fleet.home) in refused.err, (words, refused)
        remount(home.fleet.home, "rw")
        assert home.fleet.ok("tasks") == ""


def test_backup_is_made_when_the_disk_of_the_home_is_full(home: Terminals) -> None:
    """A full disk is when a backup is needed most; temporary files are beside the backup."""
    with small_disk(home.fleet.home, "24m") as fill_up:
        home.start()
        task = home.told("bd", "create", "kept")["id"]
        fill_up()
        file = home.fleet.user / "home.backup"
        home.fleet.ok("backup", str(file))
        assert [path.name for path in home.fleet.user.glob("*backup*")] == [file.name]
        assert f"disk: {home.fleet.home}: No space" in home.fleet("doctor").out
        (home.fleet.home / "filler").unlink()
        home.stop()
    elsewhere = str(home.fleet.home.with_name("restored"))
    home.fleet.ok("restore", str(file), FLEET_HOME=elsewhere)
    assert task in home.fleet.ok("bd", "list", FLEET_HOME=elsewhere)


def test_supervisor_is_seen_when_its_home_became_read_only_for_others(home: Terminals) -> None:
    home.fleet.ok("run", "start")
    folder = str(home.fleet.home)
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        assert home.fleet("run", "start").err.startswith("error: a supervisor is already running here")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
    home.fleet.ok("run", "stop")
