"""`fleet prompt` and `fleet interrupt`: messages arrive, whatever the agent or the supervisor does."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fleet.assembly import open_fleet
from fleet.core.run import BY_TOOL, Message, Question, Run
from fleet.core.task import Caller, Status, Verdict
from fleet.home import Home
from fleet.supervisor.collision_radar import AUTHOR
from live_runs import Records, in_background, records
from supervised import Supervised, home, wait_for

__all__ = ["home", "records"]

LISTENING, RESUMING, LATER = (f"workers.steered:{name}Coder" for name in ("Listening", "Resuming", "Later"))
TEXT = 'use "blue",\nnot red 🎨'


class Talk:
    """A supervised home whose agents accept messages."""

    def __init__(self, home: Supervised, coder: str) -> None:
        home.set(f"coder={coder}")
        self.home, self.fleet = home, home.fleet
        self.go = home.fleet.user / "go"

    def begin(self, do: str = "wait") -> str:
        """Create a task whose agent works until the file `go` exists."""
        self.home.start()
        task = self.home.create(f"{do} until={self.go}")
        self.wait_heard("prompt", 1)
        wait_for(lambda: self.home.runs(task)[0]["tool_calls"], "its first tool", self.home.describe)
        return task

    def tell(self, *words: str, wait: float = 20, stdin: str = "") -> dict[str, Any]:
        """Return the JSON answer of `fleet prompt` or `fleet interrupt`."""
        said: dict[str, Any] = json.loads(self.fleet.ok(*words, "--wait", str(wait), "--json", stdin=stdin))
        return said

    def heard(self, what: str) -> list[dict[str, Any]]:
        """Return what agents received: prompts, messages, orders to stop, or ends of stdin."""
        path = Path(f"{self.home.audit}.heard")
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["what"] == what]

    def wait_heard(self, what: str, count: int) -> list[dict[str, Any]]:
        wait_for(lambda: len(self.heard(what)) >= count, f"{count} times {what!r} heard", self.home.describe)
        return self.heard(what)

    def message(self) -> dict[str, Any]:
        """Return the only message in the database."""
        (row,) = self.home.rows("select * from messages")
        return row

    def finish(self, task: str) -> None:
        """Let the agent end, and check that the task is closed without a failure."""
        self.go.touch()
        found = self.home.wait_status(task, "closed")
        assert (found["failures"], found["continues"]) == (0, 0)


def test_message_reaches_a_listening_agent_while_it_works(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    home.set("supervisor.poll_seconds=60")  # a message wakes the supervisor
    task = talk.begin()
    said = talk.tell("prompt", task, TEXT)
    assert (said["state"], said["way"], said["run"]) == ("delivered", "now", f"{task}/1")
    [message] = talk.heard("message")
    assert (message["text"], message["run"]) == (TEXT, f"{task}/1")
    row = talk.message()
    assert row["run"] == f"{task}/1" and row["carried_at"] is None
    assert row["queued_at"] <= row["sent_at"] <= row["delivered_at"]
    talk.finish(task)
    assert len(home.runs(task)) == 1 and len(talk.heard("message")) == 1


def test_message_to_an_agent_in_a_tool_is_sent_and_read_after_it(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    task = talk.begin("deaf")
    out = talk.fleet.ok("prompt", task, "hurry", "--wait", "2")
    assert out.startswith(f"{task}: sent to {task}/1 at ") and "after its current tool" in out
    assert talk.message()["sent_at"] and not talk.message()["delivered_at"]
    talk.finish(task)
    assert talk.message()["delivered_at"] and [each["text"] for each in talk.heard("message")] == ["hurry"]
    assert len(home.runs(task)) == 1


def test_collision_messages_of_fleet_start_no_new_run(home: Supervised) -> None:
    talk = Talk(home, LATER)
    task = talk.begin()
    with open_fleet(Home(str(home.fleet.home))) as opened:
        opened.store.messages.add(
            Message(id="c-1", task_id=task, author=AUTHOR, text="b collides", queued_at=opened.store.now())
        )
    talk.finish(task)
    assert len(home.runs(task)) == 1 and not talk.message()["carried_at"]


def test_agent_that_waits_for_a_person_does_not_count_as_silent(home: Supervised) -> None:
    home.set("watchdog.silence_seconds=8", "watchdog.wall_seconds=8", "limits.retry_limit=1")
    talk = Talk(home, LATER)
    task = talk.begin()
    with open_fleet(Home(str(home.fleet.home))) as opened:
        asked = Question(
            id="q-1", task_id=task, run_id=f"{task}/1", asked_at=opened.store.now(), text="red?", source=BY_TOOL
        )
        opened.store.questions.ask(asked)
        home.wait_status(home.create(f"wait until={talk.go}"), "blocked")  # began later and waits for nothing
        assert home.runs(task)[0]["ended_at"] is None
        opened.store.questions.answer("q-1", "blue", by="ada")
    wait_for(lambda: home.runs(task)[0]["ended_at"] is not None, "its end", home.describe)
    assert home.runs(task)[0]["ending"] in ("stalled", "timed_out"), "once it is answered, it is as any other"


def test_agent_that_cannot_listen_is_stopped_and_resumed_with_the_message(home: Supervised) -> None:
    talk = Talk(home, RESUMING)
    task = talk.begin()
    said = talk.tell("prompt", task, TEXT)
    assert (said["state"], said["run"]) == ("carried", f"{task}/2")
    first, second = talk.wait_heard("prompt", 2)
    assert second["session"] == home.runs(task)[0]["session"] and not first["session"]
    assert TEXT in second["text"] and TEXT not in first["text"]
    talk.finish(task)
    assert [run["ending"] for run in home.runs(task)] == ["interrupted", "finished"]


def test_message_goes_to_the_next_run_when_the_agent_takes_none(home: Supervised) -> None:
    talk = Talk(home, LATER)
    task = talk.begin()
    out = talk.fleet.ok("prompt", task, TEXT, "--wait", "3600")
    assert "accepts no message while working: its next run gets it" in out
    assert home.runs(task)[0]["ended_at"] is None, "there is nothing to wait for"
    assert len(talk.heard("prompt")) == 1 and talk.message()["sent_at"] is None
    talk.finish(task)
    first, second = talk.heard("prompt")
    assert TEXT in second["text"] and TEXT not in first["text"]
    assert [run["ending"] for run in home.runs(task)] == ["finished", "finished"]
    assert talk.message()["carried_at"] and talk.message()["run"] == f"{task}/2"


def test_message_after_the_final_output_is_not_lost(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    home.start()
    task = home.create(f"ok linger={talk.go}")
    talk.wait_heard("end", 1)  # the agent accepts no message any more, and still runs
    said = talk.tell("prompt", task, TEXT, wait=1)
    assert said["state"] == "queued" and said["run"] == f"{task}/1"
    talk.finish(task)
    assert [TEXT in prompt["text"] for prompt in talk.heard("prompt")] == [False, True]
    assert talk.message()["run"] == f"{task}/2"


def test_open_task_gets_the_message_with_its_next_run(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    task = home.create("ok")
    done = talk.fleet("prompt", task, TEXT)
    assert (
        done.out == f"{task}: kept; it is open, and its next run gets it\n" and "no supervisor is running" in done.err
    )
    home.start()
    talk.finish(task)
    assert TEXT in talk.heard("prompt")[0]["text"] and talk.message()["run"] == f"{task}/1"


@pytest.mark.parametrize("coder", [LISTENING, RESUMING, LATER])
def test_interrupted_task_waits_for_a_prompt(home: Supervised, coder: str) -> None:
    talk = Talk(home, coder)
    task = talk.begin("wait stops=slowly")
    out = talk.fleet.ok("interrupt", task, "--wait", "20")
    assert (
        f"{task}: interrupted; it is blocked (interrupted manually; run `fleet prompt` to give it instructions)" in out
    )
    assert home.wait_status(task, "blocked")["failures"] == 0
    talk.go.touch()
    said = talk.tell("prompt", task, TEXT)
    assert (said["state"], said["run"]) == ("carried", f"{task}/2")
    talk.finish(task)
    assert [run["ending"] for run in home.runs(task)] == ["interrupted", "finished"]
    prompts = talk.heard("prompt")
    assert TEXT in prompts[1]["text"]
    assert bool(prompts[1]["session"]) == (coder != LATER)


def test_interrupt_with_a_message_stops_the_tool_and_continues_the_same_run(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    task = talk.begin()
    said = talk.tell("interrupt", task, TEXT)
    assert (said["state"], said["interrupts"], said["run"]) == ("delivered", True, f"{task}/1")
    assert len(talk.heard("stop")) == 1 and talk.heard("message")[0]["text"] == TEXT
    talk.finish(task)
    assert len(home.runs(task)) == 1


def test_interrupt_with_a_message_stops_an_agent_that_takes_none(home: Supervised) -> None:
    talk = Talk(home, LATER)
    task = talk.begin()
    said = talk.tell("interrupt", task, TEXT)
    assert (said["state"], said["run"]) == ("carried", f"{task}/2")
    talk.finish(task)
    assert TEXT in talk.heard("prompt")[-1]["text"]


def test_sent_message_survives_its_supervisor(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    task = talk.begin("deaf")
    assert talk.tell("prompt", task, TEXT, wait=2)["state"] == "sent"
    home.kill()
    talk.go.touch()
    talk.wait_heard("message", 1)
    home.start()
    talk.finish(task)
    assert [each["text"] for each in talk.heard("message")] == [TEXT] and talk.message()["delivered_at"]
    assert len(home.runs(task)) == 1, "it was seen to arrive: nothing runs again for it"


def test_unread_message_of_a_dead_agent_goes_to_the_next_run(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    task = talk.begin("deaf")
    assert talk.tell("prompt", task, TEXT, wait=2)["state"] == "sent"
    home.kill()
    for pid in home.agents():
        os.kill(pid, signal.SIGKILL)
    home.start()
    home.wait_status(task, "closed")
    assert talk.heard("message") == [] and TEXT in talk.heard("prompt")[-1]["text"]
    assert talk.message()["carried_at"] and talk.message()["run"] == f"{task}/2"


def test_queued_message_survives_its_supervisor(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    task = talk.begin()
    home.kill()
    done = talk.fleet("prompt", task, TEXT)
    assert "gets it as soon as possible" in done.out and "no supervisor is running" in done.err
    home.start()
    wait_for(lambda: talk.message()["delivered_at"], "its delivery", home.describe)
    talk.finish(task)
    assert [each["text"] for each in talk.heard("message")] == [TEXT] and len(home.runs(task)) == 1


def test_long_message_arrives_whole(home: Supervised) -> None:
    talk = Talk(home, LISTENING)
    task = talk.begin()
    text = "é" * (32 * 1024 - 2) + "end"
    assert talk.tell("prompt", task, stdin=text)["state"] == "delivered"
    assert talk.heard("message")[0]["text"] == text
    talk.finish(task)


def blocked(records: Records, **said: Any) -> str:
    """Return a task that needs a person after its first run."""
    task = records.create("a task")
    claim, run = records.begin(task)
    verdict = Verdict(status=Status.BLOCKED, reason="failed twice", failures=2)
    records.end(claim, run, "failed", verdict, **said)
    return task


def messages(records: Records) -> list[Message]:
    return records.store.messages.find()


def test_blocked_task_is_reopened_by_a_message(records: Records) -> None:
    task = blocked(records)
    out = records.fleet.ok("prompt", task.removeprefix("fleet-"), "try", "again", BEADS_ACTOR="ada")
    assert out == f"{task}: kept; it is open, and its next run gets it\n"
    found = records.store.tasks.get(task)
    assert (found.status, found.failures) == (Status.OPEN, 0)
    [message] = messages(records)
    assert (message.task_id, message.text, message.author) == (task, "try again", "ada")
    assert message.state == "queued" and not message.interrupts


def test_task_with_a_question_stays_blocked_and_the_message_is_kept(records: Records) -> None:
    task = blocked(records)
    records.ask(task, "Which colour?", "q7")
    out = records.fleet.ok("prompt", task, "hurry")
    assert "`fleet answer q7 TEXT`" in out
    assert records.store.tasks.get(task).status == Status.BLOCKED and len(messages(records)) == 1
    records.fleet.ok("answer", "q7", "blue")
    assert records.store.tasks.get(task).status == Status.OPEN and messages(records)[0].state == "queued"


def test_message_is_refused_when_no_agent_can_receive_it(records: Records) -> None:
    task = records.create("a task")
    for words, said in (
        (("interrupt", task, "now"), "is not running"),
        (("interrupt", task), "is not running"),
        (("prompt", "nope", "hello"), "no task 'nope'"),
    ):
        done = records.fleet(*words)
        assert done.code == 1 and said in done.err and "hint:" in done.err
    records.fleet.ok("bd", "close", task)
    done = records.fleet("prompt", task, "hello")
    assert done.code == 1 and "is closed" in done.err and f"fleet retry {task}" in done.err
    assert messages(records) == []


def test_glob_is_refused_when_it_fits_several_tasks(records: Records) -> None:
    records.create("one")
    records.create("two")
    done = records.fleet("prompt", "fleet-*", "hello")
    assert done.code == 2 and "matches 2 tasks" in done.err and messages(records) == []


def test_prompt_without_a_text_opens_the_editor(records: Records) -> None:
    task = blocked(records)
    editor = records.fleet.user / "editor"
    editor.write_text('#!/bin/sh\n{ printf "written\\nby hand\\n"; cat "$1"; } > "$1.new"; mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    ours, theirs = pty.openpty()
    argv, env = [*records.fleet.argv, "prompt", task], records.fleet.env | {"EDITOR": str(editor)}
    done = subprocess.run(argv, env=env, stdin=theirs, capture_output=True, timeout=60)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 0, done
    assert [message.text for message in messages(records)] == ["written\nby hand"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("a\0b", "NUL"),
        ("é" * 32 * 1024 + "x", "65537 bytes; the maximum is 65536"),
    ],
)
def test_invalid_message_is_refused_and_changes_nothing(records: Records, text: str, said: str) -> None:
    task = blocked(records)
    done = records.fleet("prompt", task, stdin=text)
    assert done.code == 1 and said in done.err
    assert messages(records) == [] and records.store.tasks.get(task).status == Status.BLOCKED


def running(records: Records) -> tuple[str, Run, str]:
    """Return a task with a live run, the run, and its token."""
    task = records.create("a task")
    claim, run = records.begin(task)
    return task, run, records.store.tokens.issue(claim, Caller(task_id=task, run_id=run.id, epoch=claim.epoch))


@pytest.mark.parametrize("verb", ["prompt", "interrupt"])
def test_prompt_and_interrupt_are_refused_when_an_agent_calls(records: Records, verb: str) -> None:
    task, _, _ = running(records)
    _, _, token = running(records)
    done = records.fleet(verb, task, "stop that", FLEET_RUN_TOKEN=token)
    assert done.code == 1 and "an agent may not" in done.err and messages(records) == []


def test_message_is_on_record_before_the_command_waits(records: Records) -> None:
    task, run, _ = running(records)
    with in_background(records.fleet, "prompt", task, "hello", "--wait", "0", "--json") as program:
        said = json.loads(program.communicate(timeout=30)[0])
    [message] = messages(records)
    assert (said["id"], said["state"], said["run"], said["supervisor"]) == (message.id, "queued", run.id, False)
