"""`fleet create`, `fanout` and `multi`: where an agent starts, which coder works, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from program import Result
from projects import orders, use_shell_coder, write_project
from repositories import commit, run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

LATER = """
[coders.later]
argv = ["later-cli"]
program = "later-cli"
"""

#: Command lines that are wrong in themselves, and parts of their error messages.
WRONG = [
    (("fanout", "3", "x", "--agents", "shell:2", "-p", "work"), "--agents names 2 agents, but the count is 3"),
    (("fanout", "--agents", "shell:x", "-p", "work"), "invalid --agents"),
    (("fanout", "0", "-p", "work"), "0 agents at once"),
    (("fanout", "101", "-p", "work"), "101 agents at once"),
    (("fanout", "-p", "work"), "needs a number of agents"),
    (("fanout", "x", "-p", "work"), "'x' is not a number of agents"),
    (("fanout", "x", "y", "-p", "work"), "'x' is not a number of agents"),
    (("fanout", "2", "x", "work"), "'work' is an extra argument"),
    (("create", "a b", "-p", "work"), "' ' is not allowed in it"),
    (("create", "x", "-p", "work", "--base", "nowhere"), "'nowhere' is not a commit"),
    (("create", "x", "-p", "work", "-a", "nobody"), "unknown coder 'nobody'"),
    (("create", "x", "--headless"), "x has no prompt"),
    (("create", "--", "x", "-p", "work"), "'-p' is an extra argument after the branch"),
    (("multi", "x"), "'x' is not BRANCH:PROMPT"),
    (("multi", "x:work", "x:more"), "branch 'x' is named twice"),
]


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts."""
    use_shell_coder(at_home)
    return at_home


def create(home: Terminals, branch: str, *steps: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """Create a headless agent on a branch and wait for its end. Return the answer of `create`."""
    made: dict[str, Any] = home.told("create", branch, "--headless", "--prompt", orders(*steps), *options)
    home.wait_status(made["task"], "closed", "blocked")
    return made


def refused(home: Terminals, *words: str) -> Result:
    """Run a command that must fail without creating a task. Return its result."""
    before = home.rows("select id from tasks")
    result = home.fleet(*words)
    assert result.code and result.err.startswith("error: "), result
    assert home.rows("select id from tasks") == before
    return result


def test_agent_starts_at_the_named_base(home: Terminals) -> None:
    base = run_git(home.repo, "rev-parse", "HEAD")
    commit(home.repo, "later.txt", "not there yet\n")
    run_git(home.repo, "tag", "old", base)
    made = create(home, "work", "test ! -e later.txt", "echo new > new.txt", options=("--base", "old"))
    assert home.task(made["task"])["status"] == "closed", home.describe()
    assert run_git(home.repo, "rev-parse", "work~") == base
    assert home.fleet.ok("diff", "work", "--name-only").split() == ["new.txt"]


def test_create_continues_an_existing_branch_and_says_so(home: Terminals) -> None:
    run_git(home.repo, "branch", "work")
    commit(home.repo, "later.txt", "not on the branch\n")
    words = ("create", "work", "--headless", "--prompt", orders("test ! -e later.txt", "echo new > new.txt"))
    result = home.fleet(*words)
    assert result.code == 0 and "branch work already existed and is continued" in result.err
    (task,) = home.rows_of_branch("work")
    assert home.wait_status(task["id"], "closed", "blocked")["status"] == "closed", home.describe()
    assert run_git(home.repo, "rev-parse", "work~") == run_git(home.repo, "rev-parse", "main~")


def test_base_is_refused_when_the_branch_exists(home: Terminals) -> None:
    run_git(home.repo, "branch", "work")
    result = refused(home, "create", "work", "--headless", "--prompt", "work", "--base", "main")
    assert result.code == 2 and "branch 'work' already exists" in result.err and "omit --base" in result.err


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("there", "wanted"), [("fix-auth", "fix-auth/sub/x"), ("fix-auth/sub/x", "fix-auth")])
def test_create_names_the_branch_that_blocks_a_new_branch(
    home: Terminals, there: str, wanted: str, packed: bool
) -> None:
    run_git(home.repo, "branch", there)
    run_git(home.repo, "branch", "fix-auth2/sub")
    if packed:
        run_git(home.repo, "pack-refs", "--all")
    result = refused(home, "create", wanted, "--headless", "--prompt", "work")
    assert result.code == 2 and f"branch {there!r} is in the way of {wanted!r}" in result.err


def test_branches_of_one_call_may_not_block_each_other(home: Terminals) -> None:
    result = refused(home, "multi", "--headless", "a/b:work", "a:work")
    assert result.code == 2 and "branch 'a' is in the way of 'a/b'" in result.err


def test_fanout_spreads_agents_over_coders(home: Terminals) -> None:
    made = home.told("fanout", "--agents", "shell:2,demo:1", "jwt", "--headless", "--prompt", orders("true"))
    assert [(row["branch"], row["coder"]) for row in made] == [
        ("jwt-A1", "shell"),
        ("jwt-A2", "shell"),
        ("jwt-A3", "demo"),
    ]
    for row in made:
        home.wait_status(row["task"], "closed", "blocked")
    runs = {row["branch"]: home.told("runs", row["task"])[0]["coder"] for row in made}
    assert runs == {"jwt-A1": "shell", "jwt-A2": "shell", "jwt-A3": "demo"}
    agreed = home.told("fanout", "2", "two", "--agents", "shell,demo", "--headless", "--prompt", orders("true"))
    assert [row["coder"] for row in agreed] == ["shell", "demo"]
    unnamed = home.told("fanout", "--agents", "shell:1", "--headless", "--prompt", orders("true"))
    assert unnamed[0]["branch"].startswith("fanout-")


def test_wrong_command_line_exits_with_2(home: Terminals) -> None:
    for words, said in WRONG:
        result = refused(home, *words)
        assert (result.code, said in result.err) == (2, True), (words, result)


def test_branch_names_must_fit_the_projects_pattern(home: Terminals) -> None:
    write_project(home, '[project]\nbranch_pattern = ["feat/*", "fix-*"]\n')
    result = refused(home, "create", "other", "--headless", "--prompt", "work")
    assert result.code == 2 and "does not fit project.branch_pattern: feat/*, fix-*" in result.err
    made = create(home, "feat/login", "echo new > new.txt")
    assert home.task(made["task"])["status"] == "closed", home.describe()


@pytest.mark.parametrize("root", ["../trees", "~/trees", "{user}/trees"])
def test_worktrees_are_in_the_projects_folder(home: Terminals, root: str) -> None:
    root = root.format(user=home.fleet.user)
    write_project(home, f'[project]\nworktree_root = "{root}"\n')
    home.fleet.ok("trust")
    made = create(home, "feat/login", "pwd > where.txt")
    place = Path(str((home.repo / root).resolve()) if root.startswith(".") else root.replace("~", str(home.fleet.user)))
    assert Path(made["worktree"]).resolve().is_relative_to(place.resolve())
    assert run_git(home.repo, "show", "feat/login:where.txt") == str(Path(made["worktree"]).resolve())
    home.fleet.ok("kill", "feat/login")
    assert home.worktrees() == set() and not Path(made["worktree"]).exists()


def test_create_reports_a_missing_coder_at_once_and_its_task_waits(home: Terminals) -> None:
    settings = home.fleet.home / "runtime.toml"
    settings.write_text(settings.read_text() + LATER)
    for number in (1, 2):  # by the second time the supervisor has tried it
        result = home.fleet("create", f"work{number}", "--headless", "--prompt", "work", "-a", "later")
        assert result.code == 0, result
        assert "later is not installed: no program 'later-cli' is on the PATH" in result.out
        assert "fleet tasks" not in result.out, "it was not waited for"
    waiting = [{"status": "open", "failures": 0}] * 2
    wait_for(lambda: home.rows("select status, failures from tasks") == waiting, "both to wait", home.describe)
    found = home.wait_listed("work1", "queued")
    assert found["reason"] is None or "not installed" in found["reason"]


def test_create_names_the_next_command_when_the_branch_has_a_task(home: Terminals) -> None:
    again = ("create", "work", "--headless", "--prompt", "again")
    first = home.told("create", "work", "--headless", "--prompt", orders("sleep 300"))["task"]
    assert f"fleet attach {first}" in refused(home, *again).err
    home.fleet.ok("interrupt", first)
    home.wait_status(first, "blocked")
    said = refused(home, *again).err
    assert f"fleet retry {first}" in said and "fleet kill" in said and "fleet attach" not in said
    home.fleet.ok("kill", "work")
    second = create(home, "work", "echo new > new.txt")["task"]
    said = refused(home, *again).err
    assert f"fleet merge {second}" in said and "fleet kill" in said and "fleet attach" not in said
    home.fleet.ok("kill", "work")
    assert home.told("create", "work", "--headless", "--prompt", orders("true"))["task"] != second
