"""A moved home keeps its worktrees, agents and claims, and uncommitted work is not lost."""

import logging
import os
import random
import shutil
import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from projects import orders, use_shell_coder
from repositories import run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

log = logging.getLogger(__name__)

CUT = str(Path(__file__).parents[1] / "workers" / "cut")
FEW = 4
EDITED, NEW = "edited, not committed\n", "not even known to git\n"


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts."""
    use_shell_coder(at_home)
    at_home.set("limits.retry_limit=1", "supervisor.claim_seconds=600")
    return at_home


def made(home: Terminals, *steps: str) -> tuple[str, Path]:
    """Create a headless agent on branch `work` that runs these steps. Return its task and worktree."""
    row = home.told("create", "work", "--headless", "--prompt", orders(*steps))
    wait_for(home.worktrees, "the worktree", home.describe)
    return str(row["task"]), Path(home.worktrees().pop())


def edit(tree: Path) -> None:
    """Change a tracked file and create a new one."""
    (tree / "file1.txt").write_text(EDITED)
    (tree / "new.txt").write_text(NEW)


def end_supervisor(home: Terminals) -> None:
    """Stop the supervisor; its agents survive."""
    home.fleet.ok("run", "stop")


def move(home: Terminals, name: str = "moved") -> Path:
    """Move the home. Return its new place."""
    place = home.fleet.home.with_name(name)
    home.fleet.home.rename(place)
    home.fleet.home = place
    home.fleet.env["FLEET_HOME"] = str(place)
    return place


def contents(home: Terminals) -> list[str]:
    """Return the content of both files on the branch and in saved work."""
    refs = run_git(home.repo, "for-each-ref", "--format=%(refname)", "refs/heads/work", "refs/fleet/saved").split()
    names = [f"{ref}:{name}" for ref in refs for name in ("file1.txt", "new.txt")]
    return [run_git(home.repo, "show", name, check=False) + "\n" for name in names]


def again(home: Terminals) -> None:
    """Retry the task."""
    home.fleet.ok("retry", "work")
    home.fleet("run", "start")


def failed_and_edited(home: Terminals) -> tuple[str, Path]:
    """Return a task whose agent has failed, and its worktree, which a person changed since."""
    task, tree = made(home, "exit 3")
    home.wait_status(task, "blocked")
    edit(tree)
    return task, tree


@pytest.mark.parametrize("first", ["repair", "retry"])
def test_uncommitted_work_survives_when_the_home_was_moved(home: Terminals, first: str) -> None:
    task, tree = failed_and_edited(home)
    end_supervisor(home)
    moved = move(home) / tree.relative_to(home.fleet.home.with_name("home"))
    if first == "repair":
        assert home.fleet("list", "--repair", "--json").code == 0
        assert (moved / "file1.txt").read_text() == EDITED and (moved / "new.txt").read_text() == NEW
        assert home.worktrees() == {str(moved)}
    again(home)
    wait_for(lambda: len(home.runs(task)) == 2 and home.runs(task)[1]["ended_at"], "its second run", home.describe)
    assert home.runs(task)[1]["workspace"] == str(moved)
    assert (moved / "file1.txt").read_text() == EDITED and (moved / "new.txt").read_text() == NEW
    assert run_git(moved, "status", "--porcelain") == "", "it was committed as what the run left"
    assert EDITED in contents(home) and NEW in contents(home)
    assert home.worktrees() == {str(moved)} and home.fsck() == ""


@pytest.mark.parametrize("kills", [FEW, pytest.param(0, marks=pytest.mark.soak("kills"))])
def test_killed_relocation_is_finished_by_the_next_command(home: Terminals, kills: int) -> None:
    """A few random points; the soak variant uses every point. The home moves again before each."""
    seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    log.info("FLEET_SEED=%s", seed)
    task, tree = failed_and_edited(home)
    end_supervisor(home)
    inside, report = tree.relative_to(home.fleet.home), home.fleet.user / "count"
    move(home)
    home.fleet.ok("list", "--repair", PYTHONPATH=CUT, CUT_AT="0", CUT_COUNT=str(report))
    points = list(range(1, int(report.read_text()) + 1))
    assert len(points) > 3
    killed = []
    for point in sorted(random.Random(seed).sample(points, kills)) if kills else points:
        place = move(home, f"moved-{point}")
        cut = home.fleet("list", "--repair", PYTHONPATH=CUT, CUT_AT=str(point))
        assert cut.code in (0, -signal.SIGKILL), (point, cut)
        killed.append(cut.code != 0)
        home.fleet.ok("list", "--repair")
        moved = place / inside
        assert home.worktrees() == {str(moved)} and run_git(moved, "branch", "--show-current") == "work", point
        assert (moved / "file1.txt").read_text() == EDITED and (moved / "new.txt").read_text() == NEW, point
        assert home.fsck() == "" and home.listed("--all")["work"]["worktree"] == str(moved), point
    assert any(killed), "it was killed, and did not just end"
    again(home)
    wait_for(lambda: len(home.runs(task)) == 2 and home.runs(task)[1]["ended_at"], "its second run", home.describe)
    assert EDITED in contents(home) and NEW in contents(home)


def test_kill_saves_uncommitted_work_when_the_home_was_moved(home: Terminals) -> None:
    failed_and_edited(home)
    end_supervisor(home)
    move(home)
    home.fleet.ok("kill", "work", "--force")
    assert EDITED in contents(home) and NEW in contents(home)
    assert home.worktrees() == set() and home.listed() == {}


def test_agents_continue_when_the_home_was_moved_under_them(home: Terminals) -> None:
    """Their shims, working directories and environments still have the old path."""
    go = home.fleet.user / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.1; done"
    task, tree = made(home, "echo half > file1.txt", "touch begun", wait, f"printf '{NEW[:-1]}\\n' > new.txt")
    wait_for((tree / "begun").exists, "its work", home.describe)
    end_supervisor(home)
    place = move(home)
    home.fleet.ok("run", "start")
    wait_for(lambda: any("adopted" in line["event"] for line in home.log_lines()), "its adoption", home.describe)
    go.touch()
    assert home.wait_status(task, "closed")["finding"] == "unverified"
    assert [run["ending"] for run in home.runs(task)] == ["finished"]
    assert NEW in contents(home) and "half\n" in contents(home)
    assert home.worktrees() == {str(place / tree.relative_to(home.fleet.home.with_name("home")))}
    assert home.told("runs", task)[0]["flags"] == []
    old = place.with_name("home")
    assert old.is_symlink(), "what agents were given still leads to the home"
    home.fleet.ok("run", "restart")
    wait_for(lambda: not os.path.lexists(old), "the link to be removed with the last of them", home.describe)


def test_claims_are_taken_back_at_once_when_the_home_was_moved(home: Terminals) -> None:
    """The claims last for ten minutes here, much longer than the test."""
    task, tree = made(home, "touch begun", "sleep 300")
    wait_for((tree / "begun").exists, "its work", home.describe)
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")
    for pid in home.agents():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: home.agents() == [], "its end", home.describe)
    move(home)
    home.fleet.ok("run", "start")
    wait_for(lambda: home.runs(task)[0]["ended_at"], "its run to be settled", home.describe)


def test_copy_of_a_home_is_refused_while_the_original_exists(home: Terminals) -> None:
    """Both homes would have the same tasks, worktrees and agents."""
    _, tree = failed_and_edited(home)
    end_supervisor(home)
    original = home.fleet.home
    copy = original.with_name("copy")
    shutil.copytree(original, copy, symlinks=True, ignore=shutil.ignore_patterns("wake"))
    for words in (("run", "foreground"), ("list", "--repair"), ("kill", "work", "--force")):
        refused = home.fleet(*words, FLEET_HOME=str(copy))
        assert refused.code != 0 and f"is a copy of {original}" in refused.err, (words, refused)
    assert (tree / "new.txt").read_text() == NEW and home.worktrees() == {str(tree)}


def test_home_can_move_back_after_a_move(home: Terminals) -> None:
    task, tree = failed_and_edited(home)
    end_supervisor(home)
    before = home.fleet.home
    move(home)
    home.fleet.ok("list", "--repair")
    home.fleet.home.rename(before)
    home.fleet.home, home.fleet.env["FLEET_HOME"] = before, str(before)
    home.fleet.ok("list", "--repair")
    assert home.worktrees() == {str(tree)} and run_git(tree, "branch", "--show-current") == "work"
    again(home)
    wait_for(lambda: len(home.runs(task)) == 2 and home.runs(task)[1]["ended_at"], "its second run", home.describe)
    assert EDITED in contents(home) and NEW in contents(home)


def test_repair_keeps_a_worktree_when_its_folder_is_invisible(home: Terminals) -> None:
    """A missing folder may be on a disk that is not mounted."""
    task, tree = failed_and_edited(home)
    end_supervisor(home)
    root = home.fleet.home / "worktrees"
    away = root.rename(root.with_name("away"))
    said = home.fleet("list", "--repair", "--json")
    assert said.code == 0 and f"{tree} cannot be seen" in said.err
    again(home)
    reason = home.wait_status(task, "blocked")["reason"]
    assert "cannot be seen" in reason and not root.exists()
    away.rename(root)
    again(home)
    wait_for(lambda: EDITED in contents(home), "its second run", home.describe)
    assert NEW in contents(home)


def test_folder_at_the_place_of_a_new_worktree_is_saved_first(home: Terminals) -> None:
    """Whatever the record says, the folder may hold the only copy of something."""
    task, tree = failed_and_edited(home)
    end_supervisor(home)
    with closing(sqlite3.connect(home.fleet.home / "fleet.db", isolation_level=None)) as database:
        database.execute("update workspaces set removing_at = 1, removed_at = 1")
    again(home)
    wait_for(lambda: len(home.runs(task)) == 2 and home.runs(task)[1]["ended_at"], "its second run", home.describe)
    assert EDITED in contents(home) and NEW in contents(home)
    assert home.worktrees() == {str(tree)}
