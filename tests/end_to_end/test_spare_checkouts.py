"""Spare checkouts of a supervisor: made when it is quiet, used by what comes next, gone when it goes."""

from pathlib import Path

from fleet.home import Home
from fleet.wake import announce
from repositories import run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]


def spares(home: Terminals) -> list[Path]:
    """The spare checkouts that are whole."""
    found = (home.fleet.home / "worktrees").glob("*/.gone-*/index")
    return [path.parent for path in found if (path.parent / "tree").is_dir()]


def worktree(home: Terminals, branch: str) -> Path:
    return Path(home.listed("--all")[branch]["worktree"])


def create(home: Terminals, branch: str) -> Path:
    home.told("create", branch, "--headless", "--prompt", "demo: steps=600 pause=0.1")
    return worktree(home, branch)


def test_the_next_agents_get_what_was_made_before_they_were_wanted(home: Terminals) -> None:
    del home.fleet.env["FLEET_WARM"]
    first = create(home, "one")
    wait_for(lambda: len(spares(home)) == 5, "five spare checkouts", home.describe)
    ready = {(folder / "tree" / "file1.txt").stat().st_ino for folder in spares(home)}
    assert (first / "file1.txt").stat().st_ino not in ready
    second = create(home, "two")
    assert (second / "file1.txt").stat().st_ino in ready
    assert run_git(second, "status", "--porcelain", "--untracked-files=no") == ""
    assert run_git(second, "branch", "--show-current") == "two"
    home.fleet.ok("kill", "two", "--yes")
    assert spares(home), "a sweep passes by what is held"
    home.fleet.ok("kill", "one", "--yes")
    home.fleet.ok("run", "stop")
    assert spares(home) == []


def test_what_is_announced_in_vain_does_no_harm(home: Terminals) -> None:
    """Anybody who may write to the home can announce: only a look comes of it, where agents work already."""
    del home.fleet.env["FLEET_WARM"]
    create(home, "one")
    wait_for(lambda: len(spares(home)) == 5, "five spare checkouts", home.describe)
    supervisor = Home(str(home.fleet.home))
    for directory in ("/", "/nowhere", "relative", str(home.repo), str(home.repo / "deeper"), "\udcff"):
        for _ in range(20):
            announce(supervisor, directory)
    second = create(home, "two")
    assert run_git(second, "status", "--porcelain", "--untracked-files=no") == ""
    assert not [line for line in home.log_lines() if line["level"] not in ("info", "debug")]
    assert spares(home)
