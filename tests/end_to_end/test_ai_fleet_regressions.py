"""Regressions: the eleven defects that were found in ai-fleet must not occur in fleet."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from program import Program
from repositories import big_repository, make_repository, run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]


def test_tmux_is_driven_by_its_own_command(home: Terminals) -> None:
    """In ai-fleet, a newer library left a session and a branch behind, and no agent; its tests passed."""
    made = home.told("create", "fix-42", "--prompt", "write failing test")
    home.wait_alive("fix-42")
    assert home.sessions() == {made["session"]} == {"ai_fix-42"}
    assert "write failing test" in home.screen("ai_fix-42")
    assert run_git(Path(made["worktree"]), "branch", "--show-current") == "fix-42"
    lock = Path(__file__).parents[2] / "requirements.lock"
    assert "libtmux" not in lock.read_text()


def test_failing_tmux_leaves_no_session_and_is_reported(home: Terminals, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "tmux"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'lost server' >&2; exit 1\n")
    broken.chmod(0o755)
    home.fleet.env["PATH"], good = f"{broken.parent}:{home.fleet.env['PATH']}", home.fleet.env["PATH"]
    home.fleet("create", "fix-42", "--prompt", "write failing test")
    row = home.wait_listed("fix-42", "failed")
    assert "tmux" in home.task(row["task"])["reason"]
    home.fleet.env["PATH"] = good
    home.fleet.ok("kill", "fix-42", "--delete-branch")
    assert (home.sessions(), home.worktrees(), home.branches()) == (set(), set(), set())


@pytest.mark.parametrize("prompt", ["x'; touch PWNED; echo 'y", "don't break", '"$(touch PWNED)`touch PWNED`"'])
def test_no_shell_interprets_a_prompt(home: Terminals, prompt: str) -> None:
    """In ai-fleet, a quote in a prompt ran commands or left a shell waiting, and success was reported."""
    made = home.told("create", "quoted", "--prompt", prompt)
    home.wait_alive("quoted")
    assert home.heard(made["task"])[0].startswith(prompt)
    assert list(home.fleet.cwd.parents[1].rglob("PWNED")) == []


def test_similar_branch_names_share_nothing(home: Terminals) -> None:
    """In ai-fleet, `a/b` and `a-b` got one worktree and one session."""
    names = ["a/b", "a-b", "a.b", "a_b"]
    made = {name: home.told("create", name, "--prompt", f"work on {name}") for name in names}
    home.wait_alive(*names)
    assert len({row["worktree"] for row in made.values()}) == len(home.sessions()) == len(names)
    for name, row in made.items():
        assert run_git(Path(row["worktree"]), "branch", "--show-current") == name
        assert f"work on {name}" in home.screen(row["session"])


def test_repositories_of_the_same_name_share_nothing(home: Terminals, tmp_path: Path) -> None:
    """In ai-fleet, the second repository's agent worked in the first one's worktree."""
    other = make_repository(tmp_path / "elsewhere" / home.repo.name)
    one = home.told("create", "con1", "--prompt", "first")
    two = home.told("create", "con1", "--prompt", "second", cwd=other)
    wait_for(lambda: len(home.sessions()) == 2, "both sessions", home.describe)
    assert one["worktree"] != two["worktree"] and one["session"] != two["session"]
    for row, repo in ((one, home.repo), (two, other)):
        common = run_git(Path(row["worktree"]), "rev-parse", "--path-format=absolute", "--git-common-dir")
        assert common == str(repo / ".git")
    assert [row["repo"] for row in home.told("list")] == [str(home.repo)]
    home.fleet.ok("kill", "con1", cwd=other)
    assert set(home.listed()) == {"con1"} and home.sessions() == {one["session"]}


def test_agents_with_a_slash_in_the_branch_stay_listed(home: Terminals) -> None:
    """In ai-fleet, the first `list` forgot running agents, and `kill` with a glob found none of them."""
    home.told("fanout", "2", "feat/x", "--prompt", "same")
    home.told("multi", "feat/y:different", "fix/z:another")
    names = {"feat/x-A1", "feat/x-A2", "feat/y", "fix/z"}
    home.wait_alive(*names)
    for _ in range(2):
        assert set(home.listed()) == names
    killed = home.told("kill", "feat/*", "--force")
    assert {row["branch"] for row in killed} == names - {"fix/z"}
    assert set(home.listed()) == {"fix/z"} and len(home.sessions()) == 1


def test_branch_name_may_contain_a_dot(home: Terminals) -> None:
    """In ai-fleet, tmux refused the session, and the branch was left behind."""
    made = home.told("create", "v1.2", "--prompt", "release")
    home.wait_alive("v1.2")
    assert home.sessions() == {made["session"]} and home.branches() == {"v1.2"}
    home.fleet.ok("prompt", "v1.2", "and again")
    wait_for(lambda: "and again" in home.heard(made["task"]), "it to be heard", home.describe)


def test_agent_whose_session_ended_stays_listed(home: Terminals) -> None:
    """In ai-fleet, one `list` dropped the agent, and its work stayed in a worktree that was not listed."""
    made = home.told("create", "lost", "--prompt", "work")
    home.wait_alive("lost")
    (Path(made["worktree"]) / "unsaved.txt").write_text("three hours of work\n")
    home.tmux("kill-session", "-t", "=ai_lost")
    row = home.wait_listed("lost", "failed", "finished")
    assert row["worktree"] == made["worktree"]
    assert "lost" in home.typed("fleet list")
    assert "work" in home.typed("fleet logs lost")
    assert len(home.runs(made["task"])) == 1  # and no agent was started again
    (killed,) = home.told("kill", "lost")
    assert home.worktrees() == set()
    held = [ref for ref in [*killed["saved"], "refs/heads/lost"] if has(home, ref, "unsaved.txt")]
    assert held, killed


def test_kill_loses_no_work(home: Terminals) -> None:
    """In ai-fleet, -f deleted uncommitted files and -d deleted commits, without a question and without a copy."""
    made = home.told("create", "precious", "--prompt", "work")
    home.wait_alive("precious")
    tree = Path(made["worktree"])
    (tree / "committed.txt").write_text("committed\n")
    run_git(tree, "add", "committed.txt")
    run_git(tree, "commit", "--quiet", "--message=work")
    tip = run_git(tree, "rev-parse", "HEAD")
    (tree / "file1.txt").write_text("changed\n")
    (tree / "untracked.txt").write_text("untracked\n")
    (killed,) = home.told("kill", "precious", "--force", "--delete-branch")
    assert killed["removed"] and killed["branch_deleted"]
    assert (home.worktrees(), home.branches(), home.agents()) == (set(), set(), [])
    assert tip in run_git(home.repo, "log", "--format=%H", "--glob=refs/fleet/*").splitlines()
    assert [ref for ref in killed["saved"] if has(home, ref, "untracked.txt")]
    for command in killed["commands"]:
        home.typed(command)
    found = [place for place in (home.repo, *map(Path, home.worktrees())) if (place / "untracked.txt").exists()]
    assert found, killed
    names = ("file1.txt", "untracked.txt", "committed.txt")
    assert [(found[0] / name).read_text() for name in names] == ["changed\n", "untracked\n", "committed\n"]


def test_agent_ends_before_its_worktree_is_removed(home: Terminals) -> None:
    """In ai-fleet, the worktree was removed while the agent still wrote into it."""
    made = home.told("create", "busy", "--prompt", "demo: steps=100000 pause=0.001")
    wait_for(lambda: list(Path(made["worktree"]).glob("demo-*")), "its first step", home.describe)
    home.fleet.ok("kill", "busy", "--force")
    assert home.agents() == []
    time.sleep(0.3)
    assert not Path(made["worktree"]).exists()


@pytest.fixture
def crowded(fleet: Program) -> Iterator[Terminals]:
    """Yield a repository of 2,000 files."""
    made = Terminals(fleet, big_repository(fleet.cwd / "repo"))
    yield made
    made.stop()
    assert made.agents() == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("crowd", [20, pytest.param(60, marks=pytest.mark.soak("load"))])
def test_concurrent_creates_lose_nothing(crowded: Terminals, crowd: int) -> None:
    """In ai-fleet, agents created at the same time lost each other's records, or failed."""
    home, names = crowded, [f"crowd-{number}" for number in range(crowd)]
    words = ["create", "--json", "--prompt", "work"]
    started = [spawn(home, *words, name) for name in names]
    told = [(process.communicate(timeout=240), process.returncode) for process in started]
    assert [each for each in told if each[1] != 0] == []
    wait_for(lambda: len(home.sessions()) == crowd, "all sessions", home.describe, 120)
    rows = home.listed()
    assert set(rows) == home.branches() == set(names)
    assert home.worktrees() == {row["worktree"] for row in rows.values()}
    assert len({row["worktree"] for row in rows.values()}) == crowd
    assert home.fsck() == ""
    assert [tree for tree in home.worktrees() if run_git(Path(tree), "status", "--porcelain", "-uno")] == []
    home.told("kill", "crowd-*", "--force", "--delete-branch")
    assert (home.worktrees(), home.branches(), home.sessions()) == (set(), set(), set())


def test_killed_create_leaves_a_known_agent(home: Terminals) -> None:
    """In ai-fleet, a killed `create` left an unknown session, into which a second `create` typed its command."""
    home.told("create", "earlier", "--prompt", "work")  # starts the supervisor for the next command
    process = spawn(home, "create", "halfway", "--prompt", "work")
    wait_for(lambda: home.rows_of_branch("halfway") or process.poll() is not None, "its task", home.describe)
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    home.wait_alive("halfway")
    before = home.screen("ai_halfway")
    again = home.fleet("create", "halfway", "--prompt", "something else")
    assert again.code != 0 and "halfway" in again.err
    assert len(home.rows_of_branch("halfway")) == 1
    assert home.screen("ai_halfway") == before and "something else" not in before
    assert len(home.sessions()) == len(home.worktrees()) == 2
    home.fleet.ok("kill", "halfway")
    assert home.sessions() == {"ai_earlier"} and len(home.worktrees()) == 1


def test_end_of_an_agent_is_noticed_and_its_output_kept(home: Terminals) -> None:
    """In ai-fleet, the end of an agent was not noticed, and its output went with its session."""
    made = home.told("create", "ends", "--prompt", "demo: steps=1 close")
    row = home.wait_listed("ends", "finished")
    assert (row["worktree"], home.agents()) == (made["worktree"], [])
    assert home.task(made["task"])["status"] == "closed"
    assert "Step 1 of 1" in home.typed("fleet logs ends -n 500")
    # Its leftovers are on its branch.
    assert f"demo-{made['task']}.md" in run_git(home.repo, "ls-tree", "--name-only", "ends")


def test_number_of_agents_is_limited(home: Terminals) -> None:
    """In ai-fleet, the number of running agents had no limit."""
    home.set("limits.max_interactive=2")
    home.told("fanout", "4", "few", "--prompt", "work")
    wait_for(lambda: len(home.sessions()) == 2, "two of them", home.describe)
    time.sleep(2.5)  # longer than a poll
    assert len(home.sessions()) == 2
    running = [name for name, row in home.listed().items() if row["session"] in home.sessions()]
    home.fleet.ok("kill", running[0])
    wait_for(lambda: len(home.sessions()) == 2, "the next one", home.describe)


def test_state_of_fleet_is_outside_the_repository(home: Terminals) -> None:
    """In ai-fleet, the state was in the repository, where anyone could commit it."""
    home.told("create", "clean", "--prompt", "work")
    home.wait_alive("clean")
    assert run_git(home.repo, "status", "--porcelain", "--ignored") == ""


def spawn(home: Terminals, *words: str) -> "subprocess.Popen[bytes]":
    """Start a command without waiting."""
    argv = [*home.fleet.argv, *words]
    return subprocess.Popen(
        argv,
        cwd=home.repo,
        env=home.fleet.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def has(home: Terminals, ref: str, name: str) -> bool:
    """Return True if a ref has a file of this name."""
    return name in run_git(home.repo, "ls-tree", "-r", "--name-only", ref, check=False).splitlines()
