"""Agents in terminals: how their tasks end, what fleet types to them, and that they outlive their supervisor."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from repositories import commit, make_repository, run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]


WAYS = ("carried", "delivered", "sent")


def create(home: Terminals, *demo: str, branch: str = "work") -> str:
    """Create an agent in a terminal, steered by lines for the demo coder. Return its task."""
    prompt = "\n".join(["work", *(f"demo: {words}" for words in demo)])
    return str(home.told("create", branch, "--prompt", prompt)["task"])


def run_of(home: Terminals, task: str) -> dict[str, Any]:
    """Return the last run of a task from `fleet runs`."""
    found: list[dict[str, Any]] = home.told("runs", task)
    return found[-1]


def messages(home: Terminals, task: str) -> list[tuple[str, str]]:
    """Return the messages to a task's agent other than its prompt, and the state of each."""
    rows = home.rows("select * from messages where task = ? and id not like '%/%' order by queued_at", task)
    return [(row["text"], next((way for way in WAYS if row[f"{way}_at"]), "queued")) for row in rows]


def press(home: Terminals, *keys: str, branch: str = "work") -> None:
    """Press keys in an agent's terminal, as an attached person does."""
    home.tmux("send-keys", "-t", f"=ai_{branch}:", *keys)


def test_done_closes_the_task_commits_leftovers_and_removes_the_session(home: Terminals) -> None:
    task = create(home)
    home.wait_alive("work")
    assert home.task(task)["status"] == "in_progress"
    assert home.fleet.ok("done", "work") == "work: closed: unverified – no verify command\n"
    assert not run_of(home, task)["live"], "`done` waited for its end"
    found = home.task(task)
    assert (found["status"], found["close_reason"]) == ("closed", "closed manually")
    assert home.sessions() == set() and home.tmux("list-sessions") == "" and home.agents() == []
    run = run_of(home, task)
    assert run["ending"] == "finished" and run["leftover"] == run_git(home.repo, "rev-parse", "work")
    assert run_git(home.repo, "diff", "--name-only", "main", "work") == f"demo-{task}.md"
    assert "took" in home.fleet.ok("logs", "work") or "work" in home.fleet.ok("logs", "work")
    assert home.listed()["work"]["status"] == "finished", "its worktree is still there"


def test_agent_that_closes_its_task_is_ended_and_judged(home: Terminals) -> None:
    task = create(home, "close")
    found = home.wait_status(task, "closed")
    assert (found["close_reason"], found["finding"]) == ("the demo agent took its steps", "unverified")
    assert home.sessions() == set() and home.agents() == []
    assert run_of(home, task)["leftover"] == run_git(home.repo, "rev-parse", "work")


@pytest.mark.parametrize("turn", ["ended", "interrupted"])
def test_task_is_verified_and_closed_when_its_session_is_left_with_changes(home: Terminals, turn: str) -> None:
    steps = "demo: hang=middle" if turn == "interrupted" else "work"
    home.told("create", "work", "--prompt", steps, "--verify", "test -e demo-*.md")
    (row,) = home.rows_of_branch("work")
    if turn == "interrupted":
        (tree,) = home.worktrees()
        wait_for(Path(tree, f"demo-{row['id']}.md").exists, "its first step", home.describe)
        press(home, "C-c")
    home.wait_alive("work")
    press(home, "exit", "Enter")
    found = home.wait_status(row["id"], "closed", "blocked")
    assert (found["status"], found["finding"]) == ("closed", "verified"), found
    run = run_of(home, row["id"])
    assert run["leftover"] == run_git(home.repo, "rev-parse", "work") and run["verified"] == "passed"


def test_task_is_blocked_when_its_session_is_left_without_changes(home: Terminals) -> None:
    task = create(home, "idle")
    home.wait_alive("work")
    press(home, "exit", "Enter")
    found = home.wait_status(task, "closed", "blocked")
    assert found["status"] == "blocked" and "ended without changes" in found["reason"]
    assert len(home.runs(task)) == 1 and home.sessions() == set()


def test_task_is_blocked_and_not_verified_when_its_session_fails(home: Terminals) -> None:
    home.told("create", "work", "--prompt", "work\ndemo: exit=3", "--verify", "true")
    (row,) = home.rows_of_branch("work")
    found = home.wait_status(row["id"], "closed", "blocked")
    assert found["status"] == "blocked" and "exit code 3" in found["reason"]
    run = run_of(home, row["id"])
    assert (run["ending"], run["exit_status"], run["verify"]) == ("failed", 3, None)


def test_killed_agent_shows_the_size_of_its_work_when_it_committed_last(home: Terminals) -> None:
    create(home)
    home.wait_alive("work")
    commit(Path(home.listed()["work"]["worktree"]), "late.txt", "one\ntwo\nthree\n")
    home.fleet.ok("kill", "work", "--yes")
    diff = home.listed("--all")["work"]["diff"]
    assert diff["files"] == 2 and diff["added"] > 3, "its own file and the last commit"


def test_lost_session_blocks_its_task_until_retry(home: Terminals) -> None:
    task = create(home, "hang=middle")
    wait_for(lambda: len(home.heard(task)) == 1, "its start", home.describe)
    home.tmux("kill-server")
    home.wait_status(task, "blocked")
    assert home.agents() == [] and home.listed()["work"]["status"] == "failed"
    # Another agent comes and works meanwhile; the task of the lost session stays blocked.
    create(home, branch="other")
    home.wait_alive("other")
    assert len(home.runs(task)) == 1 and home.task(task)["status"] == "blocked"
    home.fleet.ok("retry", "work")
    wait_for(lambda: home.sessions() == {"ai_work", "ai_other"}, "it again", home.describe)
    first, second = home.runs(task)
    assert second["workspace"] == first["workspace"] and home.branches() == {"work", "other"}, "it goes on there"


def test_silence_does_not_end_an_agent_in_a_terminal(home: Terminals) -> None:
    home.set(*(f"watchdog.{what}_seconds=1" for what in ("first_event", "silence", "wall", "result_grace")))
    task = create(home, "hang=middle")
    done = create(home, branch="done")
    home.wait_alive("done")
    headless = home.told("create", "headless", "--headless", "--prompt", "demo: hang=middle")["task"]
    wait_for(lambda: home.runs(headless)[0]["ending"], "a silent headless one to be ended", home.describe)
    assert [home.runs(key)[0]["ending"] for key in (task, done)] == ["", ""]
    assert home.sessions() >= {"ai_work", "ai_done"}


def test_agents_outlive_their_supervisor_and_the_next_one_reaches_them(home: Terminals) -> None:
    task = create(home)
    home.wait_alive("work")
    before = home.agents()
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")
    home.fleet.ok("prompt", "work", "said meanwhile", "--wait", "0")
    assert home.agents() == before and home.sessions() == {"ai_work"}
    home.fleet.ok("run", "start")
    wait_for(lambda: messages(home, task) == [("said meanwhile", "delivered")], "its arrival", home.describe)
    assert home.heard(task)[1:] == ["said meanwhile"] and len(home.runs(task)) == 1
    home.fleet.ok("done", "work")
    home.wait_status(task, "closed")
    wait_for(lambda: home.sessions() == set(), "its end", home.describe)


def test_each_message_is_delivered_when_supervisors_replace_each_other(home: Terminals) -> None:
    task = create(home)
    home.wait_alive("work")
    texts = [f"message {number}" for number in range(6)]
    for text in texts:  # arrives about when one supervisor stops reading
        home.fleet.ok("prompt", "work", text, "--wait", "0")
        home.fleet.ok("run", "restart")
    delivered = [(text, "delivered") for text in texts]
    wait_for(lambda: messages(home, task) == delivered, "their arrival", home.describe)
    assert home.heard(task)[1:] == texts and len(home.runs(task)) == 1


def test_message_is_sent_and_arrives_unchanged(home: Terminals) -> None:
    task = create(home)
    home.wait_alive("work")
    text = "two lines,\n$(touch owned) `touch owned`; \"quoted\" 'so' \\ and ünï"
    told = home.told("prompt", "work", text, "--wait", "20")
    assert (told["state"], told["text"]) == ("delivered", text)
    assert home.heard(task)[1:] == [text]
    assert told["sent_at"] and told["sent_at"] <= told["delivered_at"]
    # A message of the maximum length, then a longer one.
    long = "word " * 13_000
    assert home.told("prompt", "work", "--wait", "30", stdin=long)["state"] == "delivered"
    assert home.heard(task)[2].strip() == long.strip()
    result = home.fleet("prompt", "work", stdin="x" * 200_000)
    assert result.code != 0 and "200000" in result.err and len(messages(home, task)) == 2


def test_nothing_is_typed_into_a_dialog(home: Terminals) -> None:
    task = create(home, "question")
    home.wait_listed("work", "waiting for you")
    told = home.told("prompt", "work", "y", "--wait", "1")
    assert told["state"] == "queued"
    assert "y/n" in home.screen("ai_work").strip()[-10:], "the question still stands"
    (tree,) = home.worktrees()
    assert not Path(tree, f"demo-{task}.md").exists()
    press(home, "y")
    wait_for(lambda: messages(home, task) == [("y", "delivered")], "it after the answer", home.describe)
    assert home.heard(task)[1:] == ["y"] and Path(tree, f"demo-{task}.md").exists()
    home.wait_listed("work", "idle")


def test_two_repositories_can_have_the_same_branch_at_the_same_time(home: Terminals) -> None:
    other = make_repository(home.fleet.user / "elsewhere" / "repo")
    create(home)
    home.fleet.ok("create", "work", "--prompt", "for the other", cwd=other)
    wait_for(lambda: len(home.sessions()) == 2, "both", home.describe)
    assert set(home.listed()) == {"work"} and set(home.listed(cwd=other)) == {"work"}
    rows = home.told("list", "--all-projects")
    assert len({row["worktree"] for row in rows}) == len({row["session"] for row in rows}) == 2
    outside = home.fleet("prompt", "work", "which one?", cwd=home.fleet.user)
    assert outside.code == 2 and all(row["task"] in outside.err for row in rows)
    home.wait_alive("work")
    home.fleet.ok("kill", "work", cwd=other)
    assert home.listed()["work"]["status"] == "idle" and home.listed(cwd=other) == {}


@pytest.mark.parametrize("count", [20])
def test_interactive_agents_take_no_slots(home: Terminals, count: int) -> None:
    home.set("max_concurrent=3")
    home.fleet.ok("fanout", str(count), "many", "--prompt", "demo: steps=1")
    wait_for(lambda: len(home.sessions()) == count, "all to run", home.describe)
    assert {row["status"] for row in home.listed().values()} <= {"starting", "working", "idle"}
    home.fleet.ok("kill", "many-*", "--force")
    assert home.sessions() == set() and home.worktrees() == set()
