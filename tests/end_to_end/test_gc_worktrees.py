"""`fleet gc` for worktrees and saved work: removes what is no longer needed, and names everything that stays."""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from repositories import IDENTITY, run_git
from terminals import Terminals, home

__all__ = ["home"]


def finished(home: Terminals, *branches: str, prompt: str = "work") -> dict[str, str]:
    """Create tasks whose agents have finished and whose worktrees remain. Return their ids by branch."""
    words = [f"{branch}:{prompt}" for branch in branches]
    tasks = {row["branch"]: str(row["task"]) for row in home.told("multi", "--headless", *words)}
    home.wait_all(list(tasks.values()), "closed", "blocked")
    assert home.agents() == []
    return tasks


def collected(home: Terminals, *words: str) -> dict[str, dict[str, Any]]:
    """Return the rows of `fleet gc` about worktrees and saved work, by name."""
    return {row["name"]: row for row in home.told("gc", "--yes", *words)["worktrees"]}


def everything(home: Terminals) -> tuple[Any, ...]:
    refs = run_git(home.repo, "for-each-ref")
    return refs, home.worktrees(), home.rows("select * from workspaces"), home.listed("--all")


def save_by_hand(home: Terminals, ref: str, day: str) -> None:
    """Save work with the given date."""
    tree = run_git(home.repo, "rev-parse", "HEAD^{tree}")
    done = subprocess.run(
        ["git", "commit-tree", tree, "-m", "saved"],
        cwd=home.repo,
        env=os.environ | IDENTITY | {"GIT_COMMITTER_DATE": f"{day}T12:00:00Z"},
        capture_output=True,
        text=True,
        check=True,
    )
    run_git(home.repo, "update-ref", ref, done.stdout.strip())


def test_gc_removes_a_merged_worktree_and_keeps_an_unmerged_one(home: Terminals) -> None:
    finished(home, "merged", "unmerged")
    run_git(home.repo, "merge", "--quiet", "--no-edit", "merged")
    before = everything(home)
    planned = collected(home, "--dry-run")
    assert {name: (row["goes"], row["removed"]) for name, row in planned.items()} == {
        "merged": (True, False),
        "unmerged": (False, False),
    }
    assert "merged into main" in planned["merged"]["why"]
    assert everything(home) == before, "a dry run changes nothing"

    out = home.fleet.ok("gc", "--yes")
    assert "removed worktree merged" in out and "kept worktree unmerged" in out and "--finished" in out
    (tree,) = home.worktrees()
    assert set(home.listed()) == {"unmerged"} and Path(tree).exists()
    assert home.branches() == {"merged", "unmerged"}, "branches stay"
    assert collected(home).keys() == {"unmerged"}

    assert collected(home, "--finished")["unmerged"]["removed"]
    assert home.worktrees() == set() and home.branches() == {"merged", "unmerged"}
    assert collected(home, "--finished") == {}
    assert home.fsck() == ""


def test_gc_saves_uncommitted_files_of_a_merged_worktree_first(home: Terminals) -> None:
    finished(home, "work")
    run_git(home.repo, "merge", "--quiet", "--no-edit", "work")
    (tree,) = home.worktrees()
    Path(tree, "afterwards.txt").write_text("typed by a person\n")
    (row,) = home.told("gc", "--yes")["worktrees"]
    assert row["removed"] and home.worktrees() == set()
    for command in row["commands"]:
        home.typed(command)
    found = [path.read_text() for path in home.repo.parent.glob("**/afterwards.txt")]
    assert "typed by a person\n" in found


def test_gc_keeps_worktrees_of_running_and_blocked_tasks(home: Terminals) -> None:
    home.told("create", "alive", "--prompt", "work")
    home.told("create", "stuck", "--prompt", "work\ndemo: exit=3")
    (row,) = home.rows_of_branch("stuck")
    home.wait_status(row["id"], "blocked")
    home.wait_alive("alive")
    assert collected(home, "--finished") == {}
    assert len(home.worktrees()) == 2 and home.sessions() == {"ai_alive"}


def test_gc_removes_the_worktree_of_a_deleted_task_and_keeps_its_work(home: Terminals) -> None:
    tasks = finished(home, "work")
    (tree,) = home.worktrees()
    Path(tree, "left.txt").write_text("left\n")
    home.fleet.ok("bd", "delete", tasks["work"], "--force")
    (row,) = home.told("gc", "--yes")["worktrees"]
    assert (row["why"], row["removed"]) == ("its task was deleted", True)
    assert home.worktrees() == set() and home.branches() == {"work"}
    (ref,) = run_git(home.repo, "for-each-ref", "--format=%(refname)", "refs/fleet/saved").splitlines()
    assert run_git(home.repo, "show", f"{ref}:left.txt") == "left"


def test_gc_removes_saved_work_when_it_is_old_enough(home: Terminals) -> None:
    task = home.told("create", "work", "--prompt", "work")["task"]
    home.wait_alive("work")
    home.fleet.ok("kill", "work")
    (fresh,) = run_git(home.repo, "for-each-ref", "--format=%(refname)", "refs/fleet/saved").splitlines()
    old, unknown = f"refs/fleet/saved/{task}/77", "refs/fleet/saved/of-a-task-that-is-gone/1"
    for ref in (old, unknown):
        save_by_hand(home, ref, "2020-01-01")
    planned = collected(home, "--dry-run")
    assert planned.keys() == {old, unknown} and "90 days" in planned[old]["why"]
    assert {row["removed"] for row in collected(home).values()} == {True}
    left = run_git(home.repo, "for-each-ref", "--format=%(refname)", "refs/fleet/saved").splitlines()
    assert left == [fresh]
    assert collected(home) == {}
    # Saved work younger than the setting stays.
    save_by_hand(home, old, "2020-01-01")
    home.set("saving.days=36500")
    assert collected(home) == {}


def test_gc_removes_tips_of_deleted_branches_when_they_are_old_enough(home: Terminals) -> None:
    for branch in ("old", "fresh"):
        home.told("create", branch, "--prompt", "work")
    home.wait_alive("old", "fresh")
    gone = {each["branch"]: each["branch_kept"] for each in home.told("kill", "old", "fresh", "--delete-branch")}
    by_hand = "refs/fleet/deleted/of-nobody/0123456789ab"
    save_by_hand(home, by_hand, "2020-01-01")
    assert collected(home) == {}, "a tip may be older than its branch's end"
    age(home, "old", days=91)
    planned = collected(home, "--dry-run")
    assert planned.keys() == {gone["old"]} and planned[gone["old"]]["why"] == "deleted more than 90 days ago"
    assert f"removed deleted branch {gone['old']}" in home.fleet.ok("gc", "--yes")
    left = run_git(home.repo, "for-each-ref", "--format=%(refname)", "refs/fleet/deleted").splitlines()
    assert left == sorted([gone["fresh"], by_hand]) and collected(home) == {}


def age(home: Terminals, branch: str, *, days: int) -> None:
    """Simulate that so many days passed since the worktree of a branch was removed."""
    with closing(sqlite3.connect(f"{home.fleet.home}/fleet.db", timeout=30)) as database, database:
        micros = days * 24 * 3600 * 10**6
        database.execute("update workspaces set removed_at = removed_at - ? where branch = ?", (micros, branch))


@pytest.mark.parametrize("what", ["gc", "list --repair"])
def test_cleaning_up_is_refused_when_an_agent_calls(home: Terminals, what: str) -> None:
    home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    pid = home.agents()[-1]
    pairs = (word.partition("=")[::2] for word in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    home.fleet.env |= {name: value for name, value in pairs if name.startswith("FLEET_RUN_")}
    result = home.fleet(*what.split())
    for name in ("FLEET_RUN_ID", "FLEET_RUN_TOKEN"):
        del home.fleet.env[name]
    assert result.code != 0 and "agent" in result.err, result
