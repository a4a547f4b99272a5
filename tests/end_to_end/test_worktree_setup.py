"""Preparation of a worktree for its agent: files, commands and ports; and what prevents a worktree."""

import os
import signal
import stat
from datetime import datetime
from pathlib import Path

import pytest

from projects import at_work_on, set_up, write_project
from repositories import commit
from supervised import environment as process_environment
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]


def environment(home: Terminals, branch: str) -> dict[str, str]:
    """Return the environment of a branch's agent once its program runs."""
    found: dict[str, str] = {}

    def looked() -> bool:
        for pid in home.agents():
            pairs = dict(os.fsdecode(word).partition("=")[::2] for word in process_environment(pid))
            if pairs.get("FLEET_BRANCH") == branch:
                found.update(pairs)
        return bool(found)

    wait_for(looked, f"an agent of {branch}", home.describe)
    return found


def test_credential_files_are_copied_for_their_owner_only(home: Terminals) -> None:
    commit(home.repo, ".gitignore", ".env\nconfig/*.key\n")
    (home.repo / ".env").write_text("TOKEN=1\n")
    (home.repo / ".env").chmod(0o644)
    (home.repo / "config").mkdir()
    (home.repo / "config" / "master.key").write_text("key\n")
    set_up(home, credential_files=[".env", "config/master.key", "not/there"])
    tree = Path(home.told("create", "work", "--prompt", "work")["worktree"])
    for name, text in ((".env", "TOKEN=1\n"), ("config/master.key", "key\n")):
        assert (tree / name).read_text() == text
        assert stat.S_IMODE((tree / name).stat().st_mode) == 0o600
    assert not (tree / "not").exists()


def test_credential_file_that_is_a_link_is_not_followed(home: Terminals) -> None:
    secret = home.fleet.user / "secret"
    secret.write_text("of somebody else\n")
    (home.repo / "link").symlink_to(secret)
    set_up(home, credential_files=["link"])
    made = home.told("create", "work", "--prompt", "work")
    (run,) = home.told("runs", made["task"])
    assert any("not copied: link" in flag for flag in run["flags"]), "and its run says so"
    assert not os.path.lexists(Path(made["worktree"], "link"))
    copies = [path for path in Path(made["worktree"]).rglob("*") if path.is_file()]
    assert copies and "of somebody else\n" not in [path.read_text() for path in copies]


def test_ignored_files_named_by_worktreeinclude_are_copied(home: Terminals) -> None:
    commit(home.repo, ".gitignore", "local/\n*.cache\n")
    commit(home.repo, ".worktreeinclude", "local/*.json\n")
    (home.repo / "local").mkdir()
    for name in ("local/one.json", "local/two.txt", "big.cache"):
        (home.repo / name).write_text(f"{name}\n")
    tree = Path(home.told("create", "work", "--prompt", "work")["worktree"])
    assert (tree / "local" / "one.json").read_text() == "local/one.json\n"
    assert not (tree / "local" / "two.txt").exists() and not (tree / "big.cache").exists()


def test_setup_commands_run_in_order_with_a_log_before_the_agent(home: Terminals) -> None:
    shown = 'echo "$FLEET_BRANCH $FLEET_PORT $PORT" > told'
    lines = ["echo one >> order; echo said on stderr >&2", "echo two >> order", f"{shown}; echo three >> order"]
    set_up(home, commands=lines)
    made = home.told("create", "work", "--prompt", "work")
    tree, task = Path(made["worktree"]), made["task"]
    assert (tree / "order").read_text() == "one\ntwo\nthree\n"
    branch, port, same = (tree / "told").read_text().split()
    assert (branch, port) == ("work", same) and int(port) >= 1024
    logs = home.fleet.home / "tasks" / task / "setup"
    assert (logs / "1" / "stdout").read_text() == "said on stderr\n"
    (run,) = home.told("runs", task)
    assert datetime.fromisoformat(run["started_at"]).timestamp() >= int((tree / "told").stat().st_mtime)
    # A second run of the same task finds the worktree unchanged.
    home.fleet.ok("done", "work")
    home.wait_status(task, "closed")
    wait_for(lambda: home.fleet("retry", "work").code == 0, "its agent to be gone", home.describe)
    home.wait_listed("work", "idle")
    assert (tree / "order").read_text() == "one\ntwo\nthree\n"


def test_failing_setup_blocks_an_interactive_task_and_shows_the_end_of_the_log(home: Terminals) -> None:
    set_up(home, commands=["echo fine", "printf 'the %s words of it\\n' last; exit 3", "touch never"])
    result = home.fleet("create", "work", "--prompt", "work")
    assert result.code == 1
    for words in ("exit code 3", "the last words of it"):
        assert words in result.out
    (task,) = home.rows_of_branch("work")
    assert task["status"] == "blocked" and "the last words of it" in task["reason"]
    assert home.runs(task["id"]) == [] and home.sessions() == set() and home.agents() == []
    assert home.listed()["work"]["status"] == "failed"
    assert "the last words of it" in home.fleet.ok("logs", "work")
    # Once repaired, the task can be retried.
    set_up(home, commands=["touch ready"])
    home.fleet.ok("retry", "work")
    home.wait_listed("work", "idle")
    (tree,) = home.worktrees()
    assert Path(tree, "ready").exists() and not Path(tree, "never").exists()


def test_failing_setup_is_retried_for_a_headless_task_and_then_blocks_it(home: Terminals) -> None:
    count = home.fleet.user / "attempts"
    home.set("limits.retry_limit=2")
    set_up(home, commands=[f"echo x >> {count}; exit 1"])
    home.fleet("create", "work", "--prompt", "work", "--headless", "--no-wait")
    (task,) = home.rows_of_branch("work")
    found = home.wait_status(task["id"], "blocked")
    assert count.read_text() == "x\nx\n" and "failed twice" in found["reason"]
    assert home.agents() == []


def test_setup_command_has_a_timeout_and_none_of_its_processes_survive(home: Terminals) -> None:
    noted = home.fleet.user / "noted"
    set_up(home, commands=[f"echo x > {noted}; setsid tail -f {noted} & wait"], seconds=1)
    result = home.fleet("create", "work", "--prompt", "work")
    assert result.code == 1 and "did not end within 1 s" in result.out
    assert noted.exists() and at_work_on(noted) == []


@pytest.mark.parametrize("way", ["option", "setting"])
def test_quick_skips_setup_commands_and_copies_files(home: Terminals, way: str) -> None:
    (home.repo / "key").write_text("key\n")
    set_up(home, credential_files=["key"], commands=["touch was-set-up"], quick=way == "setting")
    made = home.told("create", "work", "--prompt", "work", *(["--quick"] if way == "option" else []))
    assert Path(made["worktree"], "key").exists() and not Path(made["worktree"], "was-set-up").exists()


def test_commands_of_a_project_file_run_only_after_trust(home: Terminals) -> None:
    marker = home.fleet.user / "marker"
    write_project(home, f'[setup]\ncommands = ["touch {marker}"]\n')
    result = home.fleet("create", "work", "--prompt", "work")
    assert result.code == 1 and f"touch {marker}" in result.err and "fleet trust" in result.err
    assert home.rows("select id from tasks") == [] and home.branches() == set()
    # A task queued in another way stops before the commands too.
    home.fleet.ok("bd", "create", "queued", "--workspace", "worktree", "--cwd", str(home.repo))
    home.fleet.ok("run", "start")
    (task,) = home.rows("select * from tasks")
    found = home.wait_status(task["id"], "blocked")
    assert "not trusted" in found["reason"] and "fleet trust" in found["reason"] and not marker.exists()
    home.fleet.ok("trust")
    home.told("create", "work", "--prompt", "work")
    assert marker.exists()


def test_changed_hook_or_filter_prevents_new_worktrees_until_trust(home: Terminals) -> None:
    home.told("create", "before", "--prompt", "work")
    marker = home.fleet.user / "marker"
    hook = home.repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    result = home.fleet("create", "work", "--prompt", "work")
    assert result.code == 1 and "post-checkout" in result.err and "fleet trust" in result.err
    assert home.branches() == {"before"} and not marker.exists()
    home.wait_alive("before")
    home.fleet.ok("trust")
    home.told("create", "work", "--prompt", "work")
    assert not marker.exists(), "trust lets git be used; no hook is run all the same"
    with (home.repo / ".git" / "config").open("a") as config:
        config.write(f'[filter "x"]\n\tsmudge = touch {marker}; cat\n')
    result = home.fleet("create", "more", "--prompt", "work")
    assert result.code == 1 and "filter.x" in result.err and home.branches() == {"before", "work"}


def test_ports_belong_to_one_agent_and_are_returned(home: Terminals) -> None:
    home.set("ports.base=23000", "ports.count=4")
    home.fleet.ok("multi", "one:work", "two:work")
    home.wait_alive("one", "two")
    blocks = {}
    for branch in ("one", "two"):
        env = environment(home, branch)
        first = int(env["FLEET_PORT"])
        assert env["PORT"] == env["FLEET_PORT_BASE"] == str(first) and env["FLEET_PORT_COUNT"] == "4"
        blocks[branch] = set(range(first, first + 4))
        assert home.listed()[branch]["ports"] == [first, first + 3]
    assert not blocks["one"] & blocks["two"] and min(blocks["one"] | blocks["two"]) >= 23000
    home.fleet.ok("kill", "one")
    home.told("create", "three", "--prompt", "work")
    assert int(environment(home, "three")["PORT"]) == min(blocks["one"])
    assert int(environment(home, "two")["PORT"]) == min(blocks["two"])


def test_teardown_commands_run_before_a_worktree_is_removed(home: Terminals) -> None:
    torn = home.fleet.user / "torn"
    lines = [f'cat left > {torn}; echo "$FLEET_BRANCH $PORT" >> {torn}', "exit 1", f"echo last >> {torn}"]
    set_up(home, teardown=lines)
    made = home.told("create", "work", "--prompt", "work")
    Path(made["worktree"], "left").write_text("by the agent\n")
    port = home.listed()["work"]["ports"][0]
    assert not torn.exists()
    home.fleet.ok("kill", "work")
    assert torn.read_text() == f"by the agent\nwork {port}\nlast\n"
    assert not Path(made["worktree"]).exists()


def test_next_supervisor_repeats_a_setup_when_the_first_was_killed_in_it(home: Terminals) -> None:
    noted, go = home.fleet.user / "noted", home.fleet.user / "go"
    set_up(home, commands=[f"echo x >> {noted}; echo x >> attempts; test -e {go} || tail -f {noted}"])
    home.fleet.ok("create", "work", "--prompt", "work", "--no-wait")
    wait_for(noted.exists, "the setup to begin", home.describe)
    os.kill(home.status()["pid"], signal.SIGKILL)
    go.touch()
    wait_for(lambda: not home.status()["running"], "its end", home.describe)
    home.fleet.ok("run", "start")
    home.wait_listed("work", "idle")
    (tree,) = home.worktrees()
    assert Path(tree, "attempts").read_text() == "x\n", "what the first attempt wrote is gone"
    assert noted.read_text() == "x\nx\n" and at_work_on(noted) == []


def test_kill_ends_a_setup_at_once(home: Terminals) -> None:
    noted = home.fleet.user / "noted"
    set_up(home, commands=[f"echo x >> {noted}; tail -f {noted}"])
    home.fleet.ok("create", "work", "--prompt", "work", "--no-wait")
    wait_for(noted.exists, "the setup to begin", home.describe)
    (killed,) = home.told("kill", "work")
    assert killed["removed"] and home.worktrees() == set() and home.agents() == []
    assert at_work_on(noted) == []
    (task,) = home.rows_of_branch("work")
    assert (task["status"], task["reason"]) == ("blocked", "stopped by hand")
