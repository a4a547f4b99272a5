"""A demo: real agents work through a dozen sample tasks on a sample repository, in a separate home."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control import homes, settings, supervisor
from fleet.actions.tasks import questions
from fleet.actions.tasks.tasks import Draft, create
from fleet.assembly import open_fleet
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.run import Ending
from fleet.core.task import Status
from fleet.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.assembly import Fleet
    from fleet.core.run import Question, Run
    from fleet.core.task import Task

SLOTS = 4
PATIENCE_SECONDS = 50.0
PAUSE_SECONDS = 0.2
ANSWER = "Blue: it is the colour of the sea."
FAILS, ASKS = "flaky", "colour"

#: Name, title, priority, names of the tasks it needs, and options of the demo agent.
TASKS: tuple[tuple[str, str, int, tuple[str, ...], str], ...] = (
    ("schema", "Lay out the tables", 0, (), "steps=5 pause=0.2"),
    (FAILS, "Find out why the clock test fails on Mondays", 0, (), "steps=3 pause=0.2 fail=1"),
    (ASKS, "Choose the colour of the buttons", 1, (), 'steps=3 pause=0.2 ask="Which colour shall the buttons have?"'),
    ("migrate", "Write the migrations", 1, ("schema",), "steps=4 pause=0.2"),
    ("api", "Serve the tasks over HTTP", 1, ("schema",), "steps=6 pause=0.2"),
    ("login", "Log in with a token", 1, ("api",), "steps=4 pause=0.2"),
    ("page", "Show the tasks on a page", 2, ("api", ASKS), "steps=5 pause=0.2"),
    ("search", "Search titles and comments", 2, ("migrate",), "steps=4 pause=0.2"),
    ("export", "Export everything as JSONL", 2, ("migrate",), "steps=3 pause=0.2"),
    ("typos", "Correct the spelling in the guide", 4, (), "steps=2 pause=0.2"),
    ("guide", "Write the guide for newcomers", 3, ("page", "login"), "steps=3 pause=0.2"),
    ("release", "Release 1.0", 1, ("guide", "search", "export", FAILS, "typos"), "steps=2 pause=0.2"),
)


class DemoSnapshot(NamedTuple):
    """A snapshot of the demo: each task with its last run."""

    tasks: list[tuple[Task, Run | None]]
    at_once: int  # agents running now
    answered: Question | None  # the question, once answered


class Summary(NamedTuple):
    """The result of the demo."""

    faults: list[str]  # expectations that were not met; empty on success
    seconds: float
    closed: int
    runs: list[Run]
    at_once: int  # peak number of concurrent agents
    answered: Question | None


class Demo:
    """A demo, with its home and repository in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.home = Home(f"{folder}/home")
        self.repo = f"{folder}/repo"
        self.ids: dict[str, str] = {}

    def make(self) -> None:
        """Create the repository, the home and the tasks. Raises FleetError if git is missing."""
        _make_repository(self.repo)
        homes.init(self.home, permissions="user")
        settings.change(self.home, [f"max_concurrent={SLOTS}"], cwd=self.repo, project=False)
        with open_fleet(self.home) as fleet:
            for name, title, priority, needs, steering in TASKS:
                self.ids[name] = self._add(fleet, title, priority, needs, steering)

    def play(self, tell: Callable[[DemoSnapshot], None]) -> Summary:
        """Start a supervisor, answer questions, and wait until every task has closed or the time runs out.

        Stops the supervisor in any case.
        """
        began, at_once = time.monotonic(), 0
        supervisor.start(self.home)
        try:
            with open_fleet(self.home) as fleet:
                while True:
                    look = self._look(fleet)
                    at_once = max(at_once, look.at_once)
                    tell(look)
                    self._answer(fleet)
                    over = all(task.status == Status.CLOSED for task, _ in look.tasks)
                    if over or time.monotonic() - began > PATIENCE_SECONDS:
                        return self._summary(fleet, look, time.monotonic() - began, at_once)
                    time.sleep(PAUSE_SECONDS)
        finally:
            supervisor.stop(self.home, stop_agents=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _add(self, fleet: Fleet, title: str, priority: int, needs: tuple[str, ...], steering: str) -> str:
        fields = {"title": title, "description": f"{title}.\n\ndemo: {steering}", "priority": priority}
        ties = tuple(("blocks", self.ids[name], "{}") for name in needs)
        draft = Draft(fields={**fields, "coder": "demo", "cwd": self.repo}, needs=ties)
        return create(fleet.store, draft, actor="demo")[0].id

    def _look(self, fleet: Fleet) -> DemoSnapshot:
        with fleet.store.snapshot():
            found = {task.id: task for task in fleet.store.tasks.find(Filter(ids=tuple(self.ids.values())), sort="id")}
            last = {key: runs[-1] if (runs := fleet.store.runs.of_task(key)) else None for key in found}
            answered = [each for each in fleet.store.questions.find() if each.answered_at]
        return DemoSnapshot(
            tasks=[(found[key], last[key]) for key in self.ids.values() if key in found],
            at_once=sum(run is not None and run.is_live for run in last.values()),
            answered=answered[0] if answered else None,
        )

    def _answer(self, fleet: Fleet) -> None:
        for asked in questions.questions(fleet):
            questions.answer(fleet, asked.question.id, ANSWER, by="demo")

    def _summary(self, fleet: Fleet, look: DemoSnapshot, seconds: float, at_once: int) -> Summary:
        faults = [f"{task.id} is {task.status}: {task.reason}" for task, _ in look.tasks if task.status != "closed"]
        endings = [run.ending for run in fleet.store.runs.of_task(self.ids[FAILS])]
        if endings[:2] != [Ending.FAILED, Ending.FINISHED]:
            faults.append(f"{self.ids[FAILS]} should have failed and been run again, but: {', '.join(endings)}")
        if look.answered is None:
            faults.append(f"{self.ids[ASKS]} should have asked something")
        runs = [run for key in self.ids.values() for run in fleet.store.runs.of_task(key)]
        closed = sum(task.status == Status.CLOSED for task, _ in look.tasks)
        return Summary(faults, seconds, closed, runs, at_once, look.answered)


def _make_repository(path: str) -> None:
    os.makedirs(path)  # noqa: PTH103 - paths are plain strings here, as in the home
    with open(f"{path}/README.md", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write("# sample\n\nA small project for agents to work in.\n")
    # Ignore the user's own git settings, hooks and signing keys.
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=fleet demo", "-c", "user.email=demo@fleet.invalid")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-q", "-m", "A sample")):
        try:
            done = subprocess.run(["git", *words], cwd=path, env=env, capture_output=True, text=True, check=False)
        except OSError as error:
            raise FleetError(f"cannot start git: {error.strerror}", hint="install git") from error
        if done.returncode:
            raise FleetError(f"git {' '.join(words)} failed: {done.stderr.strip()}")
