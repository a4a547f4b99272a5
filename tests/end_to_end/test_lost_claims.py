"""A task that is taken from its agent or deleted: fleet ends the agent and records the end of its run."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import beads
from beads_home import BeadsHome
from postgres_home import SharedHome, shared
from program import Program
from supervised import CODER, Supervised, home, wait_for

__all__ = ["home", "shared"]

DELETED, TAKEN = "its task was deleted", "its claim was lost"


@pytest.fixture
def in_beads(fleet: Program) -> Iterator[BeadsHome]:
    made = BeadsHome(fleet, beads.NEW)
    yield made
    made.stop()


def at_work(home: Supervised) -> str:
    """Start a task whose agent prints continuously, in a home without room for another. Return its id."""
    home.set("max_concurrent=1")
    home.start()
    key = home.create("talk seconds=60 rate=2")
    home.wait_started(1)
    return key


def is_over(home: Supervised, key: str, reason: str) -> None:
    """Check that a run was ended on record, that every command agrees, and that its slot is free."""
    wait_for(lambda: home.runs(key)[0]["ended_at"], "the run's end on record", home.describe)
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"], run["finding"]) == ("lost", reason, "infra_error")
    wait_for(lambda: home.agents() == [], "the agent to be gone")
    assert home.status()["agents"] == 0
    next_one = home.create("ok")
    home.wait_status(next_one, "closed")
    assert [row["run"] for row in json.loads(home.fleet.ok("tasks", "--json")) if row["run"]] == []
    assert "0 agents running" in home.fleet("doctor").out
    assert "Traceback" not in (home.fleet.user / "supervisor.out").read_text()


def test_run_ends_and_the_queue_can_be_moved_when_its_task_is_deleted(home: Supervised) -> None:
    key = at_work(home)
    home.fleet.ok("bd", "delete", key, "--force")
    is_over(home, key, DELETED)
    home.stop()
    home.fleet.ok("queue", "migrate", "beads", "--dry-run")


def test_run_ends_when_its_task_is_deleted_on_a_shared_queue(shared: SharedHome) -> None:
    key = at_work(shared)
    shared.fleet.ok("bd", "delete", key, "--force")
    is_over(shared, key, DELETED)


def test_run_ends_when_its_task_went_to_another_host(shared: SharedHome) -> None:
    key = at_work(shared)
    with psycopg.connect(shared.url) as link:
        link.execute("update fleet.tasks set claim_owner = 'another', epoch = epoch + 1 where id = %s", (key,))
    is_over(shared, key, TAKEN)
    assert shared.task(key)["claim_owner"] == "another"


def test_run_ends_when_a_person_takes_its_task_in_beads(in_beads: BeadsHome) -> None:
    key = at_work(in_beads)
    in_beads.fleet.ok("bd", "update", key, "--assignee", "ada", "--force")
    is_over(in_beads, key, TAKEN)
    assert in_beads.shown(key)["assignee"] == "ada"


def test_run_ends_when_its_task_is_deleted_before_the_agent_starts(home: Supervised, tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = json.dumps(["sh", "-c", f"until [ -e {told} ]; do sleep 0.05; done; echo secret"])
    with (home.fleet.home / "runtime.toml").open("a", encoding="utf-8") as file:
        file.write(f'\n[[accounts]]\nname = "slow"\ncoder = "{CODER}"\nsecrets = {{A_KEY = {command}}}\n')
    home.start()
    key = home.create("ok")
    wait_for(lambda: home.runs(key), "the run to be begun", home.describe)
    home.fleet.ok("bd", "delete", key, "--force")
    told.touch()
    is_over(home, key, DELETED)
    assert [note[1] for note in home.notes("start")].count(key) == 0
