"""The status words of `fleet list`, from the observed state of an agent."""

from pathlib import Path
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, a_task
from contract.store_builders import a_run, a_workspace, removed
from fleet.actions.tasks.names import ANYWHERE
from fleet.actions.worktrees.rows import AgentRow, rows
from fleet.assembly import Fleet
from fleet.core.filter import Lane
from fleet.core.run import Run
from fleet.core.task import HEADLESS, INTERACTIVE, WORKTREE, Status, Verdict
from fleet.core.workspace import Workspace
from fleet.home import Home
from fleet.store.sqlite.store import SqliteStore

LONG_AGO = NOON - HOUR


def status(run: dict[str, Any] | None = None, *, asks: bool = False, **task: Any) -> str:
    """Return the status word of a task with this last run."""
    return a_row(run, asks=asks, **task).status


def a_row(run: dict[str, Any] | None = None, *, asks: bool = False, **task: Any) -> AgentRow:
    found = a_task(**task)
    given = {"started_at": LONG_AGO, **(run or {})}
    made = None if run is None else Run(id=f"{found.id}/1", task_id=found.id, number=1, epoch=1, owner="o", **given)
    return AgentRow(found, made, None, asks, NOON)


@pytest.mark.parametrize(
    ("task", "word"),
    [
        ({"status": Status.OPEN}, "queued"),
        ({"status": Status.DEFERRED}, "queued"),
        ({"status": Status.IN_PROGRESS}, "starting"),
        ({"status": Status.HOOKED}, "starting"),
        ({"status": Status.CLOSED}, "finished"),
        ({"status": Status.BLOCKED, "reason": "failed twice"}, "failed"),
        ({"status": Status.BLOCKED, "reason": "stopped by hand"}, "stopped"),
        ({"status": Status.BLOCKED, "reason": "stopped by hand: no use"}, "stopped"),
    ],
)
def test_task_without_an_agent_shows_its_own_status(task: dict[str, Any], word: str) -> None:
    assert status(**task) == word
    assert status({"ended_at": NOON, "screen": "question"}, **task) == word, "a run that is over says nothing"


def test_task_that_needs_an_answer_is_waiting_for_you() -> None:
    assert status(asks=True, status=Status.BLOCKED, reason="the agent asked a question") == "waiting for you"
    assert status(asks=True, status=Status.BLOCKED, reason="stopped by hand") == "stopped"
    assert status(asks=True, status=Status.OPEN) == "queued"


@pytest.mark.parametrize("mode", [INTERACTIVE, HEADLESS])
@pytest.mark.parametrize(
    ("run", "word"),
    [
        ({}, "starting"),
        ({"first_event_at": LONG_AGO, "last_event_at": NOON}, "working"),
        ({"screen": "busy"}, "working"),
        ({"screen": "question"}, "waiting for you"),
        ({"screen": "question", "first_event_at": NOON, "last_event_at": NOON}, "waiting for you"),
        ({"first_event_at": LONG_AGO, "last_event_at": LONG_AGO}, "working"),
        ({"first_event_at": LONG_AGO, "last_event_at": LONG_AGO, "cpu_pct": 0.4}, "idle"),
        ({"first_event_at": LONG_AGO, "last_event_at": LONG_AGO, "cpu_pct": 40.0}, "working"),
        ({"first_event_at": LONG_AGO, "last_event_at": NOON - MINUTE / 2, "cpu_pct": 0.4}, "working"),
    ],
)
def test_status_of_an_agent_follows_from_its_run(mode: str, run: dict[str, Any], word: str) -> None:
    assert status(run, status=Status.IN_PROGRESS, mode=mode) == word


def test_agent_in_a_terminal_is_idle_when_its_turn_ended() -> None:
    heard = {"first_event_at": LONG_AGO, "last_event_at": NOON, "result_at": NOON}
    assert status(heard, status=Status.IN_PROGRESS, mode=INTERACTIVE) == "idle"
    assert status(heard, status=Status.IN_PROGRESS, mode=HEADLESS) == "working", "it is about to end"


def test_ready_screen_is_idle_only_when_nothing_was_heard_since() -> None:
    heard = {"first_event_at": LONG_AGO, "last_event_at": LONG_AGO, "screen": "ready"}
    assert status(heard | {"sampled_at": LONG_AGO + MINUTE}, mode=INTERACTIVE) == "idle"
    assert status(heard | {"sampled_at": LONG_AGO - MINUTE}, mode=INTERACTIVE) == "working"
    assert status({"screen": "ready", "sampled_at": NOON}, mode=INTERACTIVE) == "idle", "it was given no prompt"
    assert status({"sampled_at": NOON}, mode=INTERACTIVE) == "starting"


def test_closed_task_shows_the_status_of_its_live_agent() -> None:
    assert status({"first_event_at": NOON, "last_event_at": NOON}, status=Status.CLOSED) == "working"


def test_runtime_is_counted_until_the_end() -> None:
    assert a_row().runtime_seconds is None
    assert a_row({}).runtime_seconds == 3600
    assert a_row({"ended_at": LONG_AGO + MINUTE}).runtime_seconds == 60
    assert a_row({"started_at": NOON + HOUR}).runtime_seconds == 0, "a clock that was turned back"


def test_only_a_live_agent_has_a_session_and_usage() -> None:
    used = {"session_name": "ai_x", "cpu_pct": 3.0, "rss_kb": 2048, "cost_usd": 0.5}
    alive = a_row(used).view()
    assert (alive["session"], alive["cpu_percent"], alive["memory_mb"], alive["cost_usd"]) == ("ai_x", 3.0, 2.0, 0.5)
    over = a_row(used | {"ended_at": NOON}).view()
    assert (over["session"], over["cpu_percent"], over["memory_mb"], over["cost_usd"]) == (None, None, None, 0.5)


def test_removed_worktree_is_shown_without_path_and_ports() -> None:
    row = a_row()
    space = Workspace(
        task_id=row.task.id,
        repo="/r",
        common="/r/.git",
        path="/w",
        branch="b",
        made_at=NOON,
        first_port=20,
        port_count=4,
    )
    there = row._replace(workspace=space).view()
    assert (there["worktree"], there["ports"]) == ("/w", [20, 23])
    gone = row._replace(workspace=space.replace(removed_at=NOON)).view()
    assert (gone["worktree"], gone["ports"]) == (None, None)


class Asked:
    """A store in a file, and the statements that were sent to it."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(str(path / "fleet.db"), make=True)
        self.fleet = Fleet(Home(str(path)), self.store)
        self.statements: list[str] = []
        self.store.connection._db.exec_trace = self._note  # all statements, of any origin

    def _note(self, _: Any, sql: str, __: Any) -> bool:
        self.statements.append(sql)
        return True

    def add(self, count: int) -> None:
        """Add live agents and as many that have ended, with and without their worktree."""
        for _ in range(count):
            for over, standing in ((False, True), (True, True), (True, False)):
                task = a_task(workspace=WORKTREE)
                self.store.tasks.add(task.replace(branch=task.id, repo="/r"))
                (claim,) = self.store.claims.acquire("here", [Lane(room=1)], room=1, ttl=HOUR)
                run = self.fleet.store.runs.begin(claim, a_run())
                self.fleet.store.workspaces.lease(a_workspace(claim.task.id))
                if over:
                    self.fleet.store.runs.end(run)
                    self.store.claims.settle(claim, Verdict(status=Status.CLOSED))
                if not standing:
                    removed(self.fleet.store, claim.task.id)

    def count(self, *, everything: bool) -> tuple[int, int]:
        """Return the number of rows in a list and the number of statements for them."""
        self.statements.clear()
        found = rows(self.fleet, ANYWHERE, everything=everything)
        assert all(row.run for row in found)
        return len(found), len(self.statements)


@pytest.mark.parametrize("everything", [False, True])
def test_list_sends_as_many_statements_for_fifty_agents_as_for_one(tmp_path: Path, everything: bool) -> None:
    asked = Asked(tmp_path)
    asked.add(1)
    few, statements = asked.count(everything=everything)
    asked.add(49)
    assert asked.count(everything=everything) == (few * 50, statements) and statements < 12
    asked.store.close()
