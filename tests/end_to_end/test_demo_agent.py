"""The demo agent as a real process, on a task of a real queue, in each way that it can be steered."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import NOON
from fleet.coders.base import Command, Order
from fleet.coders.demo.adapter import DemoCoder
from fleet.coders.prompt import prompt_for
from fleet.core.event import Event, Kind
from fleet.core.filter import Lane
from fleet.core.task import Caller, Task
from fleet.home import Home
from fleet.store.sqlite.store import SqliteStore
from fleet.supervisor.task_folder import TaskFolder
from program import Program
from supervised import wait_for


class Ended:
    """One run of the agent: its exit code and the events that its coder parses from its output."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.events: list[Event] = [event for line in out.splitlines() for event in DemoCoder().parse(line)]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


class Desk:
    """A home, a claimed task, and the agent that works on the task."""

    def __init__(self, fleet: Program, description: str) -> None:
        fleet.furnish(("init", "--permissions", "user"))
        told = fleet.ok("bd", "create", "do it", "-d", description, "--json")
        self.home = Home(str(fleet.home))
        self.store = SqliteStore(self.home.database)
        self.cwd = fleet.cwd
        self.key = json.loads(told)["id"]
        self.folder = TaskFolder(self.home, self.key)
        self.folder.make(run=1)
        (claim,) = self.store.claims.acquire("host", [Lane(room=1)], room=1, ttl=timedelta(minutes=5))
        self.token = self.store.tokens.issue(claim, Caller(task_id=self.key, run_id=f"{self.key}/1", epoch=claim.epoch))
        self.env = fleet.env | {
            "PATH": f"{self.home.bin}:{fleet.env['PATH']}",
            "FLEET_TASK_ID": self.key,
            "FLEET_TASK_DIR": self.folder.path,
            "FLEET_ARTIFACT_DIR": self.folder.artifacts,
            "FLEET_RUN_TOKEN": self.token,
            "BEADS_ACTOR": f"{self.key}/1",
        }

    @property
    def task(self) -> Task:
        return self.store.tasks.get(self.key)

    def command(self, **order: Any) -> Command:
        prompt = prompt_for(self.home, self.task)
        return DemoCoder().command(Order(task=self.task, prompt=prompt, **order))

    def run(self, **order: Any) -> Ended:
        agent = self.start(**order)
        out, err = agent.communicate(timeout=60)
        return Ended(agent.returncode, out, err)

    def start(self, **order: Any) -> "subprocess.Popen[str]":
        command = self.command(**order)
        pipe = subprocess.PIPE
        agent = subprocess.Popen(
            command.argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=self.cwd, env=self.env | command.env
        )
        assert agent.stdin
        agent.stdin.write(command.stdin)
        agent.stdin.close()
        agent.stdin = None
        return agent

    def artifact(self, name: str) -> str:
        return Path(self.folder.artifacts, name).read_text("utf-8")


@pytest.fixture
def desk(fleet: Program, request: pytest.FixtureRequest) -> Iterator[Desk]:
    made = Desk(fleet, request.param)
    yield made
    made.store.close()


def steered(words: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("desk", [f"Make it nice.\n{words}\n"], indirect=True, ids=[words or "plain"])


@steered("")
def test_demo_agent_works_like_an_agent_and_hands_in(desk: Desk) -> None:
    ended = desk.run(model="demo-9")
    assert ended.code == 0, ended.err
    assert ended.events[0].kind == Kind.SESSION_STARTED
    assert (ended.events[0].data["model"], ended.events[0].data["cwd"]) == ("demo-9", str(desk.cwd))
    assert (ended.events[-1].kind, ended.events[-1].ok) == (Kind.RESULT, True)
    used, results = ended.of(Kind.TOOL_USE), ended.of(Kind.TOOL_RESULT)
    assert [event.tool for event in used] == ["write", "read", "list", "write", "bd"]
    assert [(event.tool_id, event.ok) for event in results] == [(event.tool_id, True) for event in used]
    usage = ended.of(Kind.USAGE)
    assert [event.usage.input for event in usage if event.usage] == [1200, 2400, 3600]
    assert all(event.context and event.window and event.context < event.window for event in usage)
    assert "completed" in desk.artifact("PLAN_AND_STATUS.md")
    assert desk.artifact("KNOWLEDGE.md").startswith("- ")
    assert (desk.cwd / f"demo-{desk.key}.md").read_text() == f"step 1 of {desk.key}\n"
    result = desk.folder.result_json()
    assert result is not None and result.status == "completed"
    assert desk.task.hand_in_reason == "the demo agent took its steps"


@steered("demo: steps=5 pause=0 lines=300")
def test_demo_agent_takes_the_given_steps_and_prints_the_given_lines(desk: Desk) -> None:
    ended = desk.run()
    assert len(ended.of(Kind.USAGE)) == 5
    assert [event.text for event in ended.of(Kind.TEXT) if event.text.startswith("line ")][-1] == "line 300"


@steered("demo: pause=0 fail=2")
def test_demo_agent_fails_as_often_as_told(desk: Desk) -> None:
    for _ in range(2):
        ended = desk.run()
        assert (ended.code, ended.events[-1].ok) == (1, False)
        assert ended.of(Kind.ERROR)
        assert desk.task.handed_in_at is None
    ended = desk.run()
    assert (ended.code, ended.events[-1].ok) == (0, True)
    assert "Going on from PLAN_AND_STATUS.md" in ended.of(Kind.TEXT)[0].text


@steered('demo: pause=0 ask="Which colour, dear?"')
def test_demo_agent_asks_and_continues_after_the_answer(desk: Desk) -> None:
    for _ in range(2):
        assert desk.run().code == 0
        assert desk.folder.open_questions()[0] == ["Which colour, dear?\n\nThe demo agent was told to ask this."]
        assert (desk.task.status, desk.task.notes) == ("blocked", "QUESTION: Which colour, dear?")
        assert desk.task.handed_in_at is None
        assert desk.folder.result_json() is None
    assert desk.folder.append_answer("Which colour, dear?", "Blue.\nOf course.", NOON)
    ended = desk.run()
    assert "The answer is: Blue.\nOf course." in [event.text for event in ended.of(Kind.TEXT)]
    assert "Blue." in desk.artifact("KNOWLEDGE.md")
    assert desk.folder.result_json() is not None


@steered("demo: pause=0 limit=2")
def test_demo_agent_meets_a_limit_until_the_limit_ends(desk: Desk) -> None:
    ended = desk.run()
    (limited,) = ended.of(Kind.LIMIT)
    assert (ended.code, ended.events[-1].ok) == (1, False)
    assert limited.limit and limited.limit.kind == "rate" and limited.limit.resets_at
    left = limited.limit.resets_at - datetime.now(UTC)
    assert left <= timedelta(seconds=2)
    time.sleep(max(0, left.total_seconds()) + 0.05)
    assert desk.run().code == 0


@steered("demo: pause=0 context=95")
def test_demo_agent_reports_the_given_context_size(desk: Desk) -> None:
    assert {(event.context, event.window) for event in desk.run().of(Kind.USAGE)} == {(190_000, 200_000)}


@steered("demo: pause=0 exit=3")
def test_demo_agent_exits_with_the_given_code(desk: Desk) -> None:
    ended = desk.run()
    assert (ended.code, ended.of(Kind.RESULT)) == (3, [])
    assert "ends badly" in ended.err


@steered("demo: pause=0 noclose")
def test_demo_agent_leaves_the_task_unclosed_when_told(desk: Desk) -> None:
    assert desk.run().code == 0
    assert desk.task.handed_in_at is None
    assert desk.folder.result_json() is not None


@steered("demo: idle")
def test_demo_agent_claims_success_without_work_when_told(desk: Desk) -> None:
    ended = desk.run()
    assert (ended.code, ended.events[-1].ok, ended.of(Kind.TOOL_USE)) == (0, True, [])
    assert desk.folder.result_json() is None


@steered("demo: pause=0 silent=1.5")
def test_demo_agent_is_silent_for_a_while_when_told(desk: Desk) -> None:
    began = time.monotonic()
    assert desk.run().code == 0
    assert time.monotonic() - began > 1.5


def catches_sigterm(pid: int) -> bool:
    """Return True if a process handles SIGTERM itself."""
    caught = Path(f"/proc/{pid}/status").read_text("utf-8").partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("desk", "last"),
    [
        ("demo: hang=start", None),
        ("demo: hang=middle", Kind.USAGE),
        ("demo: hang=result pause=0", Kind.RESULT),
    ],
    indirect=["desk"],
    ids=["start", "middle", "result"],
)
def test_demo_agent_hangs_at_the_given_point_and_stops_on_a_signal(desk: Desk, last: str | None, number: int) -> None:
    agent = desk.start()
    assert agent.stdout
    seen = ""
    if last is None:
        wait_for(lambda: catches_sigterm(agent.pid), "its start")
    while last is not None and f'"type": "{last}"' not in seen:
        seen += agent.stdout.readline()
    assert agent.poll() is None
    agent.send_signal(number)
    out, err = agent.communicate(timeout=60)
    ended = Ended(agent.returncode, seen + out, err)
    assert ended.code == 128 + number, err
    assert (ended.events[-1].kind, ended.events[-1].ok) == (Kind.RESULT, False)


@steered('demo: steps=x ask="unended pause=-5')
def test_demo_agent_ignores_steering_that_makes_no_sense(desk: Desk) -> None:
    assert desk.run().code == 0


@steered("demo: pause=0")
def test_demo_agent_resumes_a_session(desk: Desk) -> None:
    assert desk.run(session="demo-earlier").events[0].session == "demo-earlier"


@steered("demo: pause=0")
def test_demo_agent_reports_a_missing_bd_and_ends(desk: Desk) -> None:
    desk.env["PATH"] = "/nonexistent"
    ended = desk.run()
    assert (ended.of(Kind.TOOL_RESULT)[-1].tool, ended.of(Kind.TOOL_RESULT)[-1].ok) == ("bd", False)
    assert ended.events[-1].kind == Kind.RESULT


def test_demo_agent_imports_only_the_standard_library(tmp_path: Path) -> None:
    look = "import sys; import fleet.coders.demo.agent; print(*[m for m in sys.modules if m in " + repr(
        ("subprocess", "msgspec", "click", "apsw", "asyncio", "typing")
    )
    done = subprocess.run([sys.executable, "-P", "-c", look + "])"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("", "")
