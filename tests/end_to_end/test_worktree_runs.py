"""Headless agents in worktrees: the record of their runs, fleet's commits for them, and verification."""

import json
from pathlib import Path
from typing import Any

import pytest

from projects import NAME, orders, use_shell_coder
from repositories import commit, run_git
from supervised import wait_for
from terminals import Screen, Terminals
from terminals import home as at_home

__all__ = ["at_home"]


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts."""
    use_shell_coder(at_home)
    return at_home


def made(home: Terminals, *steps: str, options: tuple[str, ...] = ()) -> str:
    """Create a headless agent on branch `work` that runs these steps. Return its task."""
    home.told("create", "work", "--headless", "--prompt", orders(*steps), *options)
    (task,) = home.rows_of_branch("work")
    return str(task["id"])


def run_of(home: Terminals, task: str) -> dict[str, Any]:
    """Return the last run of a task from `fleet runs`."""
    found: list[dict[str, Any]] = home.told("runs", task)
    return found[-1]


def test_run_records_branch_and_base_and_fleet_commits_its_leftovers(home: Terminals) -> None:
    base = run_git(home.repo, "rev-parse", "HEAD")
    hook = home.repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {home.fleet.user}/hooked\nexit 1\n")
    hook.chmod(0o755)
    task = made(home, "echo changed > file1.txt", "echo new > 'a new file'", "rm file2.txt")
    assert home.wait_status(task, "closed")["finding"] == "unverified"
    run = run_of(home, task)
    assert (run["branch"], run["base_commit"], run["flags"]) == ("work", base, [])
    assert run["diff"]["files"] == 3
    tip = run_git(home.repo, "rev-parse", "work")
    assert run["leftover"] == tip and run_git(home.repo, "rev-parse", "work~") == base
    names = run_git(home.repo, "diff", "--name-status", "work~", "work").splitlines()
    assert names == ["A\ta new file", "M\tfile1.txt", "D\tfile2.txt"]
    assert run_git(home.repo, "log", "-1", "--format=%an %cn", "work") == "fleet fleet"
    assert not (home.fleet.user / "hooked").exists(), "no hook is asked"
    (tree,) = home.worktrees()
    assert run_git(Path(tree), "status", "--porcelain") == "", "the worktree agrees with its branch"
    assert run_git(home.repo, "status", "--porcelain") == "" and (home.repo / "file2.txt").exists()


def test_work_that_the_agent_committed_is_not_committed_again(home: Terminals) -> None:
    who = "git -c user.name=agent -c user.email=agent@example.invalid"
    task = made(home, "echo x > file1.txt", f"{who} commit --quiet --all --message='my own'")
    home.wait_status(task, "closed")
    assert run_of(home, task)["leftover"] is None
    assert run_git(home.repo, "log", "--format=%an %s", "main..work") == "agent my own"


def test_leftovers_of_a_killed_agent_are_saved_and_not_committed(home: Terminals) -> None:
    base = run_git(home.repo, "rev-parse", "HEAD")
    task = made(home, "echo half > file1.txt", "touch begun", "sleep 300")
    (tree,) = home.worktrees()
    wait_for(Path(tree, "begun").exists, "its work", home.describe)
    (killed,) = home.told("kill", "work")
    assert run_git(home.repo, "rev-parse", "work") == base
    assert run_of(home, task)["leftover"] is None
    assert run_git(home.repo, "show", f"{killed['saved'][0]}:file1.txt") == "half"


def test_work_of_an_interrupted_agent_stays_uncommitted_for_its_next_run(home: Terminals) -> None:
    base = run_git(home.repo, "rev-parse", "HEAD")
    task = made(home, "test -e again || { touch again; echo half > file1.txt; sleep 300; }")
    (tree,) = home.worktrees()
    wait_for(lambda: Path(tree, "file1.txt").read_text() == "half\n", "its work", home.describe)
    home.fleet.ok("interrupt", task)
    home.wait_status(task, "blocked")
    assert run_git(home.repo, "rev-parse", "work") == base
    assert run_of(home, task)["ending"] == "interrupted" and run_of(home, task)["leftover"] is None
    home.fleet.ok("retry", task)
    home.wait_status(task, "closed")
    assert run_git(home.repo, "show", "work:file1.txt") == "half"


def test_work_stays_uncommitted_when_only_stderr_reports_a_limit(home: Terminals) -> None:
    settings = home.fleet.home / "runtime.toml"
    output, limit = f"[coders.{NAME}.output]\n", 'limit = { contains = "Too Many Requests" }\n'
    settings.write_text(settings.read_text().replace(output, output + limit))
    first = "touch again; echo half > file1.txt; echo Too Many Requests >&2; exit 1"
    task = made(home, f"test -e again || {{ {first}; }}")
    home.wait_status(task, "closed")
    limited, last = home.told("runs", task)
    assert (limited["ending"], limited["leftover"]) == ("rate_limited", None)
    assert last["leftover"] and run_git(home.repo, "show", "work:file1.txt") == "half"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("echo all is well; test -e new.txt", 0, "passed"),
        ("echo it is not; exit 4", 4, "failed: 4"),
        ("sleep 60", None, "failed: did not end within 1 s"),
    ],
)
def test_result_of_verify_is_recorded_with_the_run(
    home: Terminals, command: str, status: int | None, said: str
) -> None:
    (home.repo / ".fleet").mkdir()
    (home.repo / ".fleet" / "config.toml").write_text("[verify]\nseconds = 1\n[findings]\nverify_retries = 0\n")
    task = made(home, "echo new > new.txt", options=("--verify", command))
    assert home.wait_status(task, "closed", "blocked")["status"] == ("blocked" if status != 0 else "closed")
    run = run_of(home, task)
    assert run["finding"] == ("verified" if status == 0 else "failed_verify")
    assert run["verify"]["command"] == command and run["verify"]["status"] == status
    assert run["verify"]["commit"] == run_git(home.repo, "rev-parse", "work") == run["leftover"]
    assert run["verified"] == said
    assert run["verify"]["tail"] == command.partition("echo ")[2].partition(";")[0]
    assert home.agents() == [] and not list((home.fleet.home / "verify").iterdir())


def test_work_of_a_coder_without_a_final_message_is_verified(at_home: Terminals) -> None:
    use_shell_coder(at_home, has_last_word=False)
    task = made(at_home, "echo new > new.txt", options=("--verify", "test -e new.txt"))
    at_home.wait_status(task, "closed", "blocked")
    assert run_of(at_home, task)["ending"] == "finished" and run_of(at_home, task)["verified"] == "passed"


def test_verify_sees_only_committed_files_and_leaves_the_worktree_alone(home: Terminals) -> None:
    commit(home.repo, ".gitignore", "build/\n")
    command = "test -e tracked && test ! -e build && test ! -e .git/index.lock && touch by-verify && echo seen"
    task = made(home, "touch tracked", "mkdir build", "touch build/out", options=("--verify", command))
    home.wait_status(task, "closed", "blocked")
    run = run_of(home, task)
    assert (run["verified"], run["verify"]["tail"]) == ("passed", "seen"), run
    (tree,) = home.worktrees()
    assert Path(tree, "build", "out").exists() and not Path(tree, "by-verify").exists()


def test_verify_command_of_the_project_runs_once_it_is_trusted(home: Terminals) -> None:
    task = made(home, "touch new")
    home.wait_status(task, "closed")
    assert run_of(home, task)["verify"] is None
    (home.repo / ".fleet").mkdir()
    (home.repo / ".fleet" / "config.toml").write_text('[verify]\ncommand = "echo by the project"\n')
    home.fleet.ok("retry", task)
    wait_for(lambda: len(home.runs(task)) == 2, "its second run", home.describe)
    home.wait_status(task, "closed")
    run = run_of(home, task)
    assert run["verify"] is None and any("not trusted" in flag for flag in run["flags"])
    assert run["finding"] == "unverified"
    home.fleet.ok("trust")
    home.fleet.ok("retry", task)
    wait_for(lambda: len(home.runs(task)) == 3, "its third run", home.describe)
    home.wait_status(task, "closed")
    assert run_of(home, task)["verified"] == "passed" and run_of(home, task)["verify"]["tail"] == "by the project"


#: Ways in which an agent may plant commands for the next user of git; @ is the file that the commands would leave.
ATTACKS = {
    "config": "git config core.fsmonitor 'touch @'",
    "filter": "git config filter.x.clean 'touch @; cat' && echo '* filter=x' > .gitattributes && echo x > file1.txt",
    "hook": "H=$(git rev-parse --git-common-dir)/hooks; mkdir -p $H; "
    "for each in pre-commit post-checkout post-index-change reference-transaction; do "
    "printf '#!/bin/sh\\ntouch @\\n' > $H/$each; chmod +x $H/$each; done; echo x > file1.txt",
    "commondir": "D=$(git rev-parse --git-dir); cp -r $(git rev-parse --git-common-dir) ../own; "
    "git config --file ../own/config core.fsmonitor 'touch @'; realpath ../own > $D/commondir; echo x > file1.txt",
    "pointer": "git init --quiet ../own; git --git-dir ../own/.git config core.fsmonitor 'touch @'; "
    'echo "gitdir: $(realpath ../own/.git)" > .git; echo x > file1.txt',
    "folder": "rm .git; git init --quiet .; git config core.fsmonitor 'touch @'; echo x > file1.txt",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_agent_that_tampers_with_git_is_flagged_and_its_commands_never_run(home: Terminals, attack: str) -> None:
    marker = home.fleet.user / "marker"
    task = made(home, "echo work > new.txt", ATTACKS[attack].replace("@", str(marker)), options=("--verify", "true"))
    home.wait_status(task, "closed", "blocked")
    run = run_of(home, task)
    assert run["flags"] and run["finding"] == "out_of_scope", run
    home.fleet("diff", "work")
    home.fleet.ok("list")
    home.fleet("create", "next", "--headless", "--prompt", "do: true")
    home.fleet("kill", "work", "--force")
    home.fleet("gc", "--finished", "--yes")
    home.fleet("list", "--repair")
    assert not marker.exists()
    held = run_git(home.repo, "log", "--all", "--format=", "--name-only").splitlines()
    assert "new.txt" in held, "and its work is not lost"
    run_git(home.repo, "fsck", "--full", "--no-dangling")


def test_queued_task_can_have_a_worktree_with_a_branch_named_after_it(home: Terminals) -> None:
    words = ("bd", "create", "queued", "-d", orders("echo x > new.txt"), "--workspace", "worktree")
    task = json.loads(home.fleet.ok(*words, "--cwd", str(home.repo), "--json"))["id"]
    home.fleet.ok("run", "start")
    home.wait_status(task, "closed")
    assert home.branches() == {f"fleet/{task}"}
    assert run_of(home, task)["branch"] == f"fleet/{task}" and set(home.listed()) == {f"fleet/{task}"}
    assert run_git(home.repo, "show", f"fleet/{task}:new.txt") == "x"


def test_project_can_make_its_agents_headless(home: Terminals) -> None:
    (home.repo / ".fleet").mkdir()
    (home.repo / ".fleet" / "config.toml").write_text('[agent]\nmode = "headless"\n')
    assert home.told("create", "work", "--prompt", "do: true")["session"] is None
    (task,) = home.rows_of_branch("work")
    home.wait_status(task["id"], "closed", "blocked")
    assert task["mode"] == "headless" and home.sessions() == set()


def test_diff_shows_uncommitted_work_and_cannot_control_the_terminal(home: Terminals) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r"
    task = made(home, "while test ! -e go; do sleep 0.05; done")
    (tree,) = home.worktrees()
    Path(tree, "file1.txt").write_text(f"a line with {evil} in it\n")
    for name in ("-rf", "two\nlines", "esc\x1b[31m", "ünï", '"quoted"'):
        Path(tree, name).write_text(f"{name}\n")
    Path(tree, b"not-\xff-utf8".decode(errors="surrogateescape")).write_text("x\n")
    for words in ((), ("--stat",), ("--name-only",)):
        out = home.fleet.ok("diff", "work", *words)
        assert "file1.txt" in out and "ünï" in out and "lines" in out
        assert not {char for char in out if not char.isprintable()} - {"\n"}, words
    assert "a line with " in home.fleet.ok("diff", task)
    screen = Screen(home, "diff", "work")
    screen.wait_for("file1.txt")
    screen.press(b"q")
    screen.end()
    assert b"\x1b]0;" not in screen.seen and b"\x1b[2J" not in screen.seen and b"\x9b" not in screen.seen
    Path(tree, "go").touch()
    home.wait_status(task, "closed")
