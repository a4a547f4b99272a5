"""`fleet list --repair`: manual changes and interrupted operations are repaired and reported."""

import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from projects import at_work_on, set_up
from repositories import commit, files_below, run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]

NOTHING = "nothing to repair\n"


def repaired(home: Terminals) -> str:
    """Return the messages of a repair. A second repair must find nothing."""
    result = home.fleet("list", "--repair", "--json")
    assert result.code == 0, result
    again = home.fleet("list", "--repair", "--json")
    assert (again.code, again.err) == (0, NOTHING), (result, again)
    assert home.fsck() == ""
    return result.err


def said_of(home: Terminals) -> str:
    """Return the messages of a repair that leaves something to a person."""
    result = home.fleet("list", "--repair", "--json")
    assert result.code == 0, result
    return result.err


def end_supervisor(home: Terminals) -> None:
    """Kill the supervisor; its agents survive."""
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")


def finished(home: Terminals, branch: str = "work") -> Path:
    """Finish a task whose worktree remains. Return the worktree."""
    made = home.told("create", branch, "--prompt", "work")
    home.wait_alive(branch)
    home.fleet.ok("done", branch)
    wait_for(lambda: home.runs(made["task"])[-1]["ended_at"], "its end", home.describe)
    assert home.sessions() == set() and home.agents() == []
    return Path(made["worktree"])


def half_removed(home: Terminals) -> list[str]:
    """Return the branches whose worktrees are half removed."""
    rows = home.rows("select branch from workspaces where removing_at is not null and removed_at is null")
    return [str(row["branch"]) for row in rows]


def can_be_made_again(home: Terminals, branch: str = "work") -> None:
    """Check that a new agent on the same branch works normally."""
    made = home.told("create", branch, "--prompt", "work")
    assert made["status"] == "running" and home.worktrees() == {made["worktree"]}
    home.wait_alive(branch)
    home.fleet.ok("kill", branch, "--force")
    assert home.worktrees() == set() and home.sessions() == set()


def test_repair_does_nothing_when_all_is_well(home: Terminals) -> None:
    finished(home, "over")
    home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    before = home.worktrees(), home.sessions(), home.branches(), home.agents()
    assert repaired(home) == NOTHING
    assert (home.worktrees(), home.sessions(), home.branches(), home.agents()) == before


@pytest.mark.parametrize("way", ["folder", "git", "both and branch"])
def test_repair_forgets_a_worktree_that_was_removed_by_hand(home: Terminals, way: str) -> None:
    tree = finished(home)
    tip = run_git(home.repo, "rev-parse", "work")
    if way == "folder":
        shutil.rmtree(tree)
    else:
        run_git(home.repo, "worktree", "unlock", str(tree), check=False)
        run_git(home.repo, "worktree", "remove", "--force", str(tree))
    if way == "both and branch":
        run_git(home.repo, "branch", "--delete", "--force", "work")
    said = repaired(home)
    assert "work" in said and "gone" in said
    assert home.worktrees() == set() and home.listed() == {}
    if way != "both and branch":
        assert run_git(home.repo, "rev-parse", "work") == tip, "its commits stay on its branch"
    can_be_made_again(home)


def test_work_of_a_worktree_is_saved_when_its_branch_was_deleted(home: Terminals) -> None:
    tree = finished(home)
    tip = commit(tree, "own.txt", "committed by a person\n")
    run_git(home.repo, "update-ref", "-d", "refs/heads/work")
    (tree / "more.txt").write_text("not lost\n")
    home.fleet.ok("list", "--repair")
    home.fleet.ok("kill", "work", "--force")
    refs = run_git(home.repo, "for-each-ref", "--format=%(refname)", "refs/fleet").splitlines()
    assert any(run_git(home.repo, "show", f"{ref}:more.txt", check=False) == "not lost" for ref in refs)
    assert run_git(home.repo, "for-each-ref", "--contains", tip, "refs/fleet"), "nor what was on the branch"
    assert home.fsck() == "" and repaired(home) == NOTHING
    can_be_made_again(home)


def test_killed_session_is_settled_by_the_supervisor_and_can_be_retried(home: Terminals) -> None:
    task = home.told("create", "work", "--prompt", "demo: hang=middle")["task"]
    wait_for(lambda: len(home.heard(task)) == 1, "its start", home.describe)
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")
    home.tmux("kill-server")
    wait_for(lambda: home.agents() == [], "its end", home.describe)
    # Its shim ends a moment after its agent.
    wait_for(lambda: task in home.fleet("list", "--repair", "--json").err, "it to be named", home.describe)
    assert "fleet run start" in home.fleet("list", "--repair", "--json").err
    home.fleet.ok("run", "start")
    home.wait_status(task, "blocked")
    repaired(home)
    home.fleet.ok("retry", "work")
    wait_for(lambda: home.sessions() == {"ai_work"}, "it again", home.describe)


def test_worktree_that_could_not_be_removed_can_be_used_again(home: Terminals) -> None:
    commit(home.repo, ".gitignore", "data\n")
    home.set("saving.ignored_mb=0")
    made = home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    data = Path(made["worktree"], "data")
    data.write_text("precious\n")
    result = home.fleet("kill", "work")
    assert result.code == 1 and "its worktree stays" in result.err and "--without-ignored" in result.err
    assert data.read_text() == "precious\n" and home.sessions() == set()
    assert repaired(home) == NOTHING
    home.fleet.ok("retry", "work")
    home.wait_listed("work", "idle")
    assert home.sessions() == {"ai_work"} and data.read_text() == "precious\n"
    home.fleet.ok("kill", "work", "--without-ignored")
    assert home.worktrees() == set() and not data.exists()


def test_repair_closes_a_dead_session(home: Terminals) -> None:
    finished(home)
    home.tmux("new-session", "-d", "-s", "ai_left", "-x", "80", "-y", "24", "sleep 300")
    home.tmux("set-option", "-t", "=ai_left:", "remain-on-exit", "on")
    home.tmux("new-session", "-d", "-s", "mine", "sleep 300")
    home.tmux("respawn-pane", "-k", "-t", "=ai_left:", "true")
    wait_for(lambda: home.sessions() == {"mine"}, "it to be dead", home.describe)
    assert "ai_left" in home.tmux("list-sessions")
    assert "session ai_left: closed" in repaired(home)
    assert "ai_left" not in home.tmux("list-sessions") and home.sessions() == {"mine"}
    home.tmux("kill-session", "-t", "=mine")


def test_repair_removes_a_worktree_that_was_never_finished(home: Terminals) -> None:
    noted = home.fleet.user / "noted"
    set_up(home, commands=[f"echo x > {noted}; tail -f {noted}"])
    task = home.told("create", "work", "--prompt", "work", "--no-wait")["task"]
    wait_for(noted.exists, "the setup to begin", home.describe)
    assert home.fleet("list", "--repair", "--json").err == NOTHING, "somebody is at it"
    assert len(home.worktrees()) == 1
    set_up(home, commands=["exit 1"])
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")
    home.fleet.ok("run", "start")
    home.wait_status(task, "blocked")
    assert "work: removed its unfinished worktree" in repaired(home)
    assert home.worktrees() == home.branches() == set()
    set_up(home, commands=[])
    can_be_made_again(home)


@pytest.mark.parametrize("root", ["", "../trees"])
def test_repair_names_and_keeps_a_foreign_worktree_in_fleets_folder(home: Terminals, root: str) -> None:
    if root:
        home.fleet.ok("config", "set", "--project", f"project.worktree_root={root}")
        home.fleet.ok("trust", "--yes")
    tree = finished(home).resolve()
    beside = home.repo.parent / "beside"
    for stranger in (tree.with_name("stranger"), beside):
        run_git(home.repo, "worktree", "add", "--quiet", str(stranger))
    said = said_of(home)
    assert str(tree.with_name("stranger")) in said and "git worktree remove" in said
    assert str(beside) not in said, "where people keep theirs is no place of fleet's"
    assert tree.with_name("stranger").exists() and tree.exists()


def test_repair_names_and_keeps_a_live_session_without_a_task(home: Terminals) -> None:
    finished(home)
    for name in ("ai_ghost", "mine"):
        home.tmux("new-session", "-d", "-s", name, "sleep 300")
    said = said_of(home)
    assert "session ai_ghost: lives, and is no task's here" in said and "kill-session" in said and "mine" not in said
    assert home.sessions() == {"ai_ghost", "mine"}
    (command,) = [part for part in said.split("`") if "kill-session" in part]
    home.typed(command)
    assert home.sessions() == {"mine"} and repaired(home) == NOTHING


def test_repair_recreates_a_branch_deleted_below_its_worktree(home: Terminals) -> None:
    tree = finished(home)
    left = run_git(home.repo, "rev-parse", "work")
    assert left != run_git(home.repo, "rev-parse", "main"), "fleet committed what the agent left"
    run_git(home.repo, "update-ref", "-d", "refs/heads/work")
    assert f"work: its branch was gone, made it again at {left[:12]}" in repaired(home)
    assert run_git(home.repo, "rev-parse", "work") == left
    tip = commit(tree, "own.txt", "committed by a person\n")
    run_git(home.repo, "update-ref", "-d", "refs/heads/work")
    assert f"made it again at {tip[:12]}" in repaired(home)
    assert run_git(home.repo, "rev-parse", "work") == tip and run_git(tree, "status", "--porcelain") == ""


def test_repair_names_a_deleted_branch_whose_commit_is_ambiguous(home: Terminals) -> None:
    tree = finished(home)
    run_git(tree, "checkout", "--quiet", "--orphan", "fresh")
    run_git(tree, "commit", "--quiet", "--message=unrelated")
    run_git(home.repo, "update-ref", "-d", "refs/heads/work")
    run_git(tree, "symbolic-ref", "HEAD", "refs/heads/work")
    said = said_of(home)
    assert "work: its branch was gone, and it was at one of" in said and "git branch work COMMIT" in said
    assert "work" not in home.branches()


def test_repair_names_a_closed_task_whose_agent_is_still_alive(home: Terminals) -> None:
    home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    end_supervisor(home)
    task = home.listed()["work"]["task"]
    home.fleet.ok("bd", "close", task, "--force")  # starts no supervisor, unlike `fleet done`
    said = said_of(home)
    assert "work: closed, and its agent goes on; `fleet run start` ends it" in said and home.sessions() == {"ai_work"}
    home.fleet.ok("run", "start")
    wait_for(lambda: home.sessions() == set() and home.agents() == [], "its end", home.describe)
    wait_for(lambda: home.runs(task)[-1]["ended_at"], "its settling", home.describe)
    repaired(home)


def test_repair_names_an_agent_whose_folder_is_gone(home: Terminals) -> None:
    made = home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    shutil.rmtree(made["worktree"])
    said = said_of(home)
    assert "work: its folder is gone, and its agent goes on; `fleet kill work` stops it" in said
    home.fleet.ok("kill", "work")
    assert home.sessions() == home.worktrees() == set()
    can_be_made_again(home)


def test_repair_creates_no_refs_for_a_missing_worktree_that_was_never_finished(home: Terminals) -> None:
    set_up(home, commands=["exit 1"])
    made = home.told("create", "work", "--prompt", "work", "--no-wait")
    home.wait_status(made["task"], "blocked")
    (tree,) = home.worktrees()
    shutil.rmtree(tree)
    assert repaired(home) == "work: removed its unfinished worktree\n"
    assert home.worktrees() == home.branches() == set()
    assert run_git(home.repo, "for-each-ref", "refs/fleet") == ""


def test_repair_completes_a_removal_that_was_cut_short_in_teardown(home: Terminals) -> None:
    noted, go = home.fleet.user / "noted", home.fleet.user / "go"
    set_up(home, teardown=[f"echo x >> {noted}; test -e {go} || tail -f {noted}"])
    tree = finished(home)
    (tree / "left.txt").write_text("left\n")
    process = subprocess.Popen([*home.fleet.argv, "kill", "work"], cwd=home.repo, env=home.fleet.env)
    wait_for(noted.exists, "teardown to begin", home.describe)
    process.kill()
    process.wait()
    assert half_removed(home) == ["work"] and tree.exists()
    go.touch()
    said = repaired(home)
    assert "work: removed its worktree, its removal had been cut short" in said and "refs/fleet/saved" in said
    assert half_removed(home) == [] and home.worktrees() == set() and not tree.exists()
    assert noted.read_text() == "x\nx\n" and at_work_on(noted) == [], "what the first one ran is ended"
    set_up(home)
    can_be_made_again(home)


@pytest.mark.parametrize("times", [6, pytest.param(40, marks=pytest.mark.soak("kills"))])
def test_repair_completes_a_removal_that_was_cut_short_at_any_moment(home: Terminals, times: int) -> None:
    """The repair itself is also killed at random moments."""
    home.seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(home.seed)
    for number in range(times):
        tree = finished(home)
        (tree / "left.txt").write_text(f"left {number}\n")
        for command in (("kill", "work", "--force"), ("list", "--repair")):
            words, nowhere = [*home.fleet.argv, *command], subprocess.DEVNULL
            process = subprocess.Popen(words, cwd=home.repo, env=home.fleet.env, stdout=nowhere, stderr=nowhere)
            time.sleep(chance.uniform(0.1, 0.7))
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
        home.fleet.ok("list", "--repair")
        assert half_removed(home) == []
        home.fleet("kill", "work", "--force")  # the removal may not have begun
        repaired(home)
        assert home.worktrees() == set() and not tree.exists()
        refs = run_git(home.repo, "for-each-ref", "--format=%(refname)", "refs/fleet/saved").splitlines()
        kept = {run_git(home.repo, "show", f"{ref}:left.txt", check=False) for ref in refs}
        assert f"left {number}" in kept, home.describe()
        assert not [file for file in files_below(home.repo / ".git") if file.suffix == ".lock"]
