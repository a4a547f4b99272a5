"""The real claude and codex in terminals of fleet: from `fleet create` to the end of their work."""

import hashlib
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from command_watch import watched
from model_server import Turn
from real.terminals_through_fleet import Open, RealTerminals, opened
from real.through_fleet import HELD
from repositories import run_git
from terminals import LEAVE, Screen

__all__ = ["opened"]

pytestmark = pytest.mark.soak("clis")
CLIS = ("claude", "codex")
BEGIN, DONE = Turn(text="I begin.", shell="pwd > made && echo fine"), Turn(text="Well done.")
HOLD = Turn(text="I begin.", shell=HELD)
#: Characters with a meaning for a shell, an option parser or a terminal.
NASTY = "-dash 'one' \"two\" `id` $(touch hurt) ${HOME} \\n %s ünï 😀 !! #x\n--help\n\n  last line"
LONG = "".join(f"{number}: a 'word' or \"two\" $(touch hurt)\n" for number in range(500)).strip()
#: Tokens of two answers, and the maximum context. Codex counts cache writes as input.
USED = {"claude": ([200, 60, 2000, 40], 1120), "codex": ([240, 60, 2000, 0], 1150)}


def held(home: RealTerminals, branch: str = "x", prompt: str = "make it so") -> tuple[str, Path]:
    """Start an agent that waits within a command. Return its task and its directory."""
    key = home.agent(branch, "-p", prompt)
    place = home.worktree(branch)
    home.wait((place / "begun").exists, "the agent's command to run")
    return key, place


@pytest.mark.parametrize("cli", CLIS)
def test_agent_in_a_terminal_works_on_its_prompt_visibly(cli: str, opened: Open) -> None:
    home = opened(cli, HOLD, DONE)
    home.price(input=3, output=15, cache_read=0.3, cache_write=3.75)
    key = home.agent("x", "-p", NASTY)
    place = home.worktree("x")
    home.wait((place / "begun").exists, "the agent's command to run")
    home.wait_listed("x", "working")
    (place / "go").touch()
    row = home.wait_listed("x", "idle")
    assert (home.said().count(NASTY), (place / "hurt").exists()) == (1, False)
    tokens, context = USED[cli]
    assert (home.used(key), row["tokens"]) == (tokens, sum(tokens))
    run = home.runs(key)[0]
    assert (run["context_peak"], run["tool_calls"]) == (context, 1)
    assert row["cost_usd"] == pytest.approx(0.00225 if cli == "claude" else 0.00222)
    assert "Well done." in home.fleet.ok("logs", "x")
    screen = Screen(home, "attach", "x")
    screen.wait_for("Well done.")
    screen.press(LEAVE)
    assert screen.end() == 0
    assert home.listed()["x"]["status"] == "idle"


@pytest.mark.parametrize("cli", CLIS)
def test_prompts_are_in_no_command_line(cli: str, opened: Open) -> None:
    home, secret = opened(cli, HOLD, DONE, Turn(text="That too.")), "the-plan-that-nobody-is-to-see"
    with watched(secret) as found:
        home.fleet.ok("create", "x", "-", stdin=f"{secret}\nand more")
        place = home.worktree("x")
        home.wait((place / "begun").exists, "the agent's command to run")
        assert home.heard_of(secret) == 1
        (place / "go").touch()
        home.wait_listed("x", "idle")
        assert home.prompt("x", f"also {secret}")["state"] == "delivered"
    assert found == []


@pytest.mark.parametrize("cli", CLIS)
def test_prompt_is_delivered_once_when_the_supervisor_is_killed_at_its_start(cli: str, opened: Open) -> None:
    home = opened(cli, DONE, Turn(text="That too."))
    for number in range(4):
        branch, text = f"x{number}", f"make it so {number}\nin two lines"
        home.fleet.ok("create", branch, "-", stdin=text)
        kept = partial(home.rows, "select * from messages where text like ?", f"%{text}%")
        home.wait(kept, "its prompt on record")
        time.sleep(number / 2)
        os.kill(home.supervisor(), signal.SIGKILL)
        home.fleet.ok("run", "start")
        home.wait_listed(branch, "idle")
        assert home.said().count(text) == 1  # codex also asks for a title, and quotes the text there


@pytest.mark.parametrize("cli", CLIS)
def test_prompt_that_begins_like_a_command_is_a_prompt(cli: str, opened: Open) -> None:
    home = opened(cli, DONE)
    home.fleet.ok("create", "x", "-", stdin="!touch hurt")
    home.wait_listed("x", "idle")
    home.wait_told("!touch hurt")
    home.wait_listed("x", "idle")
    heard = [text for text in home.said() if text.lstrip().startswith("Your prompt:")]  # codex quotes it for a title
    assert len(heard) == 1 and "!touch hurt" in heard[0]
    assert not (home.worktree("x") / "hurt").exists()


@pytest.mark.parametrize("cli", CLIS)
def test_five_agents_of_one_prompt_all_reply(cli: str, opened: Open) -> None:
    home = opened(cli, BEGIN, DONE)
    home.agent("x", "-p", "be the first")  # a codex without a database fails beside others that create it
    home.wait_listed("x", "idle")
    home.fleet.ok("fanout", "5", "f", "-p", "make it so")
    home.wait(lambda: home.said().count("make it so") == 5, "five prompts at the model")
    for number in range(1, 6):
        place = Path(home.wait_listed(f"f-A{number}", "idle")["worktree"])
        assert (place / "made").read_text().strip() == str(place)


@pytest.mark.parametrize("cli", CLIS)
def test_message_arrives_once_and_unchanged_during_work_and_after_it(cli: str, opened: Open) -> None:
    home = opened(cli, HOLD, DONE, Turn(text="That too."), Turn(text="And that."))
    key, place = held(home)
    home.prompt("x", f"first: {NASTY}", wait=0)
    home.wait(lambda: home.message_state(key) == "sent", "the first message to be sent")
    assert home.heard_of("first:") == 0
    (place / "go").touch()
    home.wait(lambda: home.message_state(key) == "delivered", "the first message to be delivered")
    home.wait_listed("x", "idle")
    assert home.prompt("x", f"second: {NASTY}")["state"] == "delivered"
    home.wait_listed("x", "idle")
    assert home.prompt("x", LONG)["state"] == "delivered"
    for text in (f"first: {NASTY}", f"second: {NASTY}", LONG):
        home.wait_told(text)
    home.wait_listed("x", "idle")
    assert [home.heard_of(text) for text in ("first: -dash", "second: -dash", "499: a 'word'")] == [1, 1, 1]
    assert not (place / "hurt").exists()


@pytest.mark.parametrize("cli", CLIS)
def test_message_to_a_starting_agent_is_not_lost(cli: str, opened: Open) -> None:
    home = opened(cli, BEGIN, DONE, Turn(text="That too."))
    key = home.agent("x", "-p", "make it so")
    home.prompt("x", "this as well", wait=0)
    home.wait_told("this as well")
    home.wait(lambda: home.message_state(key) == "delivered", "the message to be delivered")
    home.wait_listed("x", "idle")
    assert (home.heard_of("make it so"), home.heard_of("this as well")) == (1, 1)


@pytest.mark.parametrize("cli", CLIS)
def test_message_is_not_appended_to_typed_input_of_a_person(cli: str, opened: Open) -> None:
    home = opened(cli, DONE, Turn(text="That too."), Turn(text="And that."))
    key = home.agent("x", "-p", "make it so")
    home.wait_listed("x", "idle")
    home.press("x", "-l", "half a thought")
    home.wait_shown("x", "half a thought")
    assert home.prompt("x", "this as well", wait=2)["state"] == "queued"
    home.press("x", "Enter")
    home.wait(lambda: home.message_state(key) == "delivered", "the message to be delivered")
    said = [text for text in home.said() if text in ("half a thought", "this as well")]
    said = said[-2:] if cli == "codex" else said  # codex may send earlier messages to its model once more
    assert said == ["half a thought", "this as well"]


#: The turn that makes each CLI ask. Codex asks if the model itself wants to leave the sandbox.
ASKS = {
    "claude": Turn(text="I begin.", shell="touch made"),
    "codex": Turn(
        tool="exec_command",
        arguments={"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to make it"},
    ),
}


@pytest.mark.parametrize("cli", CLIS)
def test_nothing_is_typed_into_a_permission_question(cli: str, opened: Open) -> None:
    home = opened(cli, ASKS[cli], DONE, Turn(text="That too."))
    home.set("permissions=user")
    if cli == "codex":
        home.set('coders.codex.flags=["--ask-for-approval=on-request"]')
    key = home.agent("x", "-p", "make it so")
    place = Path(home.wait_listed("x", "waiting for you")["worktree"])
    told = home.fleet.ok("prompt", "x", "this as well", "--wait", "4")  # longer than typing takes
    assert "queued" in told and "question" in told
    shown = home.screen("ai_x")
    assert "touch made" in shown and "this as well" not in shown
    assert (home.message_state(key), (place / "made").exists()) == ("queued", False)
    home.press("x", "Enter")
    home.wait((place / "made").exists, "the tool to run")
    home.wait_told("this as well")
    home.wait(lambda: home.message_state(key) == "delivered", "the message to be delivered")
    home.wait_listed("x", "idle")
    assert home.heard_of("this as well") == 1


@pytest.mark.parametrize("cli", CLIS)
def test_first_question_of_a_user_login_is_left_to_the_user(cli: str, opened: Open) -> None:
    home = opened(cli, DONE, own=False)  # no tool: codex would create /tmp/.git in its sandbox
    home.set("permissions=user")
    before = {path: path.read_bytes() for path in home.settings_of_the_user()}
    home.agent("x", "-p", "make it so")
    home.wait_listed("x", "waiting for you")
    assert "trust this folder" in home.screen("ai_x").lower()
    assert home.said() == []
    assert {path: path.read_bytes() for path in before if b"hasTrustDialogAccepted" in path.read_bytes()} == {}
    home.press("x", "Enter")
    home.wait_told("make it so")


CLOSES = Turn(shell='bd close "$FLEET_TASK_ID" --reason "it was made"')


@pytest.mark.parametrize("cli", CLIS)
def test_agent_that_closes_its_task_is_ended_after_its_last_word(cli: str, opened: Open) -> None:
    home = opened(cli, BEGIN, CLOSES, DONE)
    key = home.agent("x", "-p", "make it so")
    task = home.wait_status(key, "closed", "blocked")
    assert (task["status"], task["close_reason"]) == ("closed", "it was made")
    (run,) = home.runs(key)
    assert (run["ending"], run["tool_calls"]) == ("finished", 2)
    served = [request for request in home.scenario.turns() if request.status == 200 and request.turn is not None]
    assert len(served) == 3
    assert "Well done." in (home.fleet.home / "tasks" / key / "events.jsonl").read_text("utf-8")
    assert home.used(key) == {"claude": [300, 90, 3000, 60], "codex": [360, 90, 3000, 0]}[cli]
    assert home.sessions() == set() and home.agents() == []
    assert run_git(home.repo, "show", "x:made").endswith("/x")
    assert home.listed("--all")["x"]["status"] == "finished"


@pytest.mark.parametrize("cli", CLIS)
def test_task_is_done_when_a_person_says_so_and_killed_work_is_kept(cli: str, opened: Open) -> None:
    home = opened(cli, Turn(text="I begin.", shell=f"touch kept; {HELD}"), DONE)
    done, _ = held(home, "done")
    killed, _ = held(home, "killed")
    home.fleet.ok("done", "done")
    home.fleet.ok("kill", "killed", "--yes")
    assert home.wait_status(done, "closed")["close_reason"] == "closed manually"
    assert home.wait_status(killed, "blocked")["reason"].startswith("stopped by hand")
    home.wait(lambda: home.sessions() == set() and home.agents() == [], "their terminals to go")
    assert "kept" in run_git(home.repo, "ls-tree", "--name-only", "done").splitlines()
    saved = run_git(home.repo, "for-each-ref", "--format=%(refname)", f"refs/fleet/saved/{killed}").splitlines()
    assert any("kept" in run_git(home.repo, "ls-tree", "-r", "--name-only", ref) for ref in saved)


@pytest.mark.parametrize("cli", CLIS)
def test_agent_survives_when_its_supervisor_is_killed(cli: str, opened: Open) -> None:
    home = opened(cli, HOLD, DONE, Turn(text="That too."))
    key, place = held(home)
    home.wait_listed("x", "working")
    agents = set(home.agents())
    os.kill(home.supervisor(), signal.SIGKILL)
    (place / "go").touch()
    home.wait_shown("x", "Well done.")
    home.fleet.ok("run", "start")
    home.wait_listed("x", "idle")
    assert home.prompt("x", "this as well")["state"] == "delivered"
    tokens, _ = USED[cli]
    home.wait(lambda: home.used(key) == [each * 3 // 2 for each in tokens], "each answer's tokens to be counted once")
    (run,) = home.runs(key)
    assert (run["tool_calls"], home.heard_of("this as well")) == (1, 1)
    assert set(home.clis()) <= agents


@pytest.mark.parametrize("cli", CLIS)
def test_prompt_of_any_length_arrives_unchanged(cli: str, opened: Open, tmp_path: Path) -> None:
    long = "a 'word' or \"two\" $(touch hurt)\n" * 6_500
    assert len(long) > 200_000
    place = "$FLEET_HOME/tasks/$FLEET_TASK_ID/runs/1/prompt.md"
    home = opened(cli, Turn(shell=f'sha256sum < "{place}"'), DONE)
    given = tmp_path / "prompt"
    given.write_text(long)
    key = home.agent("x", "--prompt-file", str(given))
    home.wait_told(hashlib.sha256(long.strip().encode()).hexdigest())
    assert any(f"/tasks/{key}/runs/1/prompt.md" in text for text in home.said())
