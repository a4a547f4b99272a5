"""Tasks with live runs as a supervisor makes them, created through the store: for tests of what people see."""

import json
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from fleet.core.filter import Filter, Lane
from fleet.core.run import Question, Run
from fleet.core.task import Claim, Task, Verdict
from fleet.home import Home
from fleet.store.sqlite.store import SqliteStore
from program import Program

TTL = timedelta(minutes=5)
OWNER = "fleet@here"


class Records:
    """The database of the program's home, opened beside the program."""

    def __init__(self, fleet: Program) -> None:
        self.fleet = fleet
        fleet.furnish(("init", "--permissions", "user"))
        self.home = Home(str(fleet.home))
        self.store = SqliteStore(self.home.database)

    def create(self, title: str, *words: str) -> str:
        """Create a task with the program. Return its id."""
        return str(json.loads(self.fleet.ok("bd", "create", title, *words, "--json"))["id"])

    def claim(self, task_id: str) -> Claim:
        """Claim a task as a supervisor does."""
        lane = Lane(room=1, where=Filter(ids=(task_id,)))
        (claim,) = self.store.claims.acquire(OWNER, [lane], room=1, ttl=TTL)
        return claim

    def begin(self, task_id: str, **said: Any) -> tuple[Claim, Run]:
        claim = self.claim(task_id)
        given = {"coder": "demo", "model": "", "started_at": self.store.now(), **said}
        begun = self.store.runs.begin(
            claim, Run(id="", task_id=task_id, number=0, epoch=claim.epoch, owner=OWNER, **given)
        )
        return claim, begun

    def end(self, claim: Claim, run: Run, ending: str, verdict: Verdict, **said: Any) -> Task:
        """End a run, and settle its task."""
        self.store.runs.end(run.replace(ended_at=self.store.now(), ending=ending, **said))
        return self.store.claims.settle(claim, verdict)

    def ask(self, task_id: str, text: str, key: str = "q1") -> None:
        """Record a question of an agent."""
        asked_at = self.store.now()
        self.store.questions.ask(Question(id=key, task_id=task_id, asked_at=asked_at, text=text, source="agent"))


@contextmanager
def in_background(fleet: Program, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program in the background of the test, and end it with the block."""
    argv, pipe = [*fleet.argv, *words], subprocess.PIPE
    running = subprocess.Popen(argv, env=fleet.env | env, cwd=fleet.cwd, text=True, stdout=pipe, stderr=pipe)
    with running:
        try:
            yield running
        finally:
            running.kill()


def next_line(stream: Any, seconds: float = 30) -> str:
    """Return the next line of a program's output, which must come in time."""
    ready, _, _ = select.select([stream], [], [], seconds)
    assert ready, "it says nothing"
    return str(stream.readline())


@pytest.fixture
def records(fleet: Program) -> Iterator[Records]:
    """Yield a home with its database open."""
    made = Records(fleet)
    yield made
    made.store.close()
