"""`bd close` by a live run on its own task is a hand-in: fleet answers as bd does, and only fleet settles the task."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from fleet.core.filter import Lane
from fleet.core.task import Caller, Claim, Status, Verdict
from fleet.store.sqlite.store import SqliteStore
from program import Program

TTL = timedelta(minutes=5)


class Run:
    """A claimed task with a run's token, and a task that depends on it."""

    def __init__(self, fleet: Program) -> None:
        self.task = json.loads(fleet.ok("bd", "create", "do it", "-p", "0", "--json"))["id"]
        self.waiting = json.loads(fleet.ok("bd", "create", "then this", "--deps", self.task, "--json"))["id"]
        self.store = SqliteStore(str(fleet.home / "fleet.db"))
        (self.claim,) = self.store.claims.acquire("host-1", [Lane(room=1)], room=1, ttl=TTL)
        self.token = self.store.tokens.issue(self.claim, caller(self.claim))

    def ready(self, fleet: Program) -> list[str]:
        return [row["id"] for row in json.loads(fleet.ok("bd", "ready", "--json"))]


def caller(claim: Claim) -> Caller:
    return Caller(task_id=claim.task.id, run_id=f"{claim.task.id}/1", epoch=claim.epoch)


@pytest.fixture
def run(fleet: Program) -> Iterator[Run]:
    made = Run(fleet)
    yield made
    made.store.close()


def test_close_of_its_own_task_is_recorded_as_a_hand_in_and_closes_nothing(fleet: Program, run: Run) -> None:
    answer = json.loads(fleet.ok("bd", "close", run.task, "-r", "all done", "--json", FLEET_RUN_TOKEN=run.token))
    assert [(row["id"], row["status"], row["close_reason"]) for row in answer] == [(run.task, "closed", "all done")]
    task = run.store.tasks.get(run.task)
    assert (task.status, task.hand_in_reason, task.closed_at) == (Status.IN_PROGRESS, "all done", None)
    assert task.handed_in_at is not None
    assert run.ready(fleet) == []


def test_dependent_task_is_ready_once_the_hand_in_is_settled(fleet: Program, run: Run) -> None:
    fleet.ok("bd", "close", run.task, FLEET_RUN_TOKEN=run.token)
    run.store.claims.settle(run.claim, Verdict(status=Status.CLOSED, reason="verified"))
    assert run.ready(fleet) == [run.waiting]


def test_made_up_token_cannot_close_a_task_that_another_actor_holds(fleet: Program, run: Run) -> None:
    ended = fleet("bd", "close", run.task, FLEET_RUN_TOKEN="0" * 64, BEADS_ACTOR="someone")
    assert (ended.code, run.store.tasks.get(run.task).status) == (1, Status.IN_PROGRESS)
    assert 'assignee is "host-1", actor is "someone"' in ended.err


def test_token_is_worthless_once_the_task_was_claimed_again(fleet: Program, run: Run) -> None:
    run.store.claims.release(run.claim)
    run.store.claims.acquire("host-2", [Lane(room=1)], room=1, ttl=TTL)
    assert fleet("bd", "close", run.task, FLEET_RUN_TOKEN=run.token, BEADS_ACTOR="agent").code == 1
    assert run.store.tasks.get(run.task).handed_in_at is None


def test_token_survives_a_restart_of_the_supervisor(fleet: Program, run: Run) -> None:
    run.store.claims.adopt(run.task, "host-1", epoch=run.claim.epoch, ttl=TTL)
    fleet.ok("bd", "close", run.task, FLEET_RUN_TOKEN=run.token, BEADS_ACTOR="agent")
    assert run.store.tasks.get(run.task).handed_in_at is not None


def test_task_created_by_a_run_records_its_creator(fleet: Program, run: Run) -> None:
    child = json.loads(fleet.ok("bd", "create", "found on the way", "--json", FLEET_RUN_TOKEN=run.token))["id"]
    assert run.store.tasks.get(child).made_by == run.task
    assert run.store.tasks.get(run.waiting).made_by == ""


def test_person_can_close_a_task_with_force_while_the_agent_works(fleet: Program, run: Run) -> None:
    fleet.ok("bd", "close", run.task, "--force", "-r", "not needed", BEADS_ACTOR="alice")
    assert run.store.claims.settle(run.claim, Verdict(status=Status.OPEN, reason="again")).status == Status.CLOSED
