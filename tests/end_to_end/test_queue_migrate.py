"""A queue moved whole between the home's file, PostgreSQL and beads: compared, sealed, and resumed after a kill."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import HOUR, a_task
from fleet.assembly import open_fleet
from fleet.core.errors import QueueMoved
from fleet.core.filter import Filter, Lane
from fleet.core.task import Caller
from fleet.home import Home
from fleet.settings.queue import SQLITE
from fleet.store import transfer
from fleet.store.sqlite.store import SqliteStore
from postgres import server
from program import Program
from supervised import Supervised, wait_for

TEXT = "quotes ' \" $(x) ünï 🚀 \u2028 tab\t end"
STORY = ("tasks", "edges", "labels", "comments", "runs", "receipts", "config")


@pytest.fixture
def home(fleet: Program) -> Program:
    """Return a home with dependent tasks, comments, labels, and a run with its receipt."""
    fleet.ok("init", "--home", "--permissions", "skip")
    first = fleet.ok("bd", "q", "first ' \" $(x) ünï 🚀").strip()
    second = fleet.ok("bd", "create", "second", "-d", TEXT, "--deps", first, "-l", "a,b", "--json")
    fleet.ok("bd", "comment", json.loads(second)["id"], TEXT)
    fleet.ok("bd", "update", first, "--set-metadata", "own=1", "--priority", "0")
    supervised = Supervised(fleet)
    done = json.loads(fleet.ok("bd", "create", "work", "--coder", "demo", "--json"))["id"]
    supervised.start()
    wait_for(lambda: supervised.task(done)["status"] == "closed", "the work", supervised.describe)
    supervised.stop()
    return fleet


def contents(home: Program, queue: str | None = None) -> dict[str, Any]:
    with open_fleet(Home(home.env["FLEET_HOME"]), queue=queue) as fleet:
        return {name: found for name, found in transfer.contents(fleet.store.connection).items()}


def shown(home: Program) -> list[dict[str, Any]]:
    listed = json.loads(home.ok("bd", "list", "--all", "--json", "--limit", "0"))
    return [
        json.loads(home.ok("show", each["id"], "--json"))[0] for each in sorted(listed, key=lambda each: each["id"])
    ]


def test_queue_moves_to_postgresql_and_back_whole(home: Program) -> None:
    url = server().make_database()
    before, seen = contents(home), shown(home)
    told = json.loads(home.ok("queue", "migrate", "sqlite", url, "--json"))
    assert told["moved"] and told["tables"]["tasks"] == 3 and told["tables"]["runs"] >= 1
    assert url not in json.dumps(told)
    after = contents(home, url)
    assert {name: after[name] for name in before if name not in ("config", "tasks")} == {
        name: found for name, found in before.items() if name not in ("config", "tasks")
    }
    assert shown(home) == seen
    metadata = [each["metadata"] for each in json.loads(home.ok("bd", "list", "--all", "--json"))]
    (pin,) = {each["fleet.requires"] for each in metadata}
    assert pin.startswith(f'["host:{seen[0]["host"]}@'), "they are about a directory"
    assert json.loads(home.ok("queue", "--json")) | {"statuses": 0} == {
        "kind": "postgresql", "shared": True, "moved": False, "tasks": 3, "statuses": 0,
    }  # fmt: skip
    home.ok("bd", "create", "made there")
    back = home("queue", "migrate", "-", "sqlite", stdin=f"{url}\n")
    assert back.code == 0, back
    assert "fleet.db.before-" in back.out and "4 tasks" in back.out
    assert len(shown(home)) == 4 and json.loads(home.ok("queue", "--json"))["kind"] == "sqlite"
    again = home("queue", "migrate", "sqlite", url)
    assert again.code == 0 and "fleet_before_" in again.out, "what was moved away from there makes room"


def test_old_queue_cannot_be_written_after_the_move(home: Program) -> None:
    path = Home(home.env["FLEET_HOME"]).database
    late = SqliteStore(path)
    home.ok("queue", "migrate", server().make_database())
    with pytest.raises(QueueMoved):
        late.config.set("x", "y")
    (task, *_) = late.tasks.find(Filter())
    with pytest.raises(QueueMoved), late.atomic():
        late.tasks.save(task.replace(title="late"))
    late.close()


@pytest.mark.parametrize("version", beads.VERSIONS)
def test_queue_moves_to_beads_and_back_whole(home: Program, version: str) -> None:
    home.env["FLEET_BD"] = beads.program(version)
    seen = shown(home)
    told = json.loads(home.ok("queue", "migrate", "beads", "--json"))
    assert told["moved"] and told["tables"]["tasks"] == 3
    real = subprocess.run(
        [beads.program(version), "list", "--all", "--json", "--limit", "0"],
        env=os.environ | {"BEADS_DIR": f"{home.env['FLEET_HOME']}/.beads"}, cwd=home.env["FLEET_HOME"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert {each["title"] for each in json.loads(real.stdout)} == {each["title"] for each in seen}
    assert json.loads(home.ok("queue", "--json"))["kind"] == "beads"
    told = json.loads(home.ok("queue", "migrate", "beads", "sqlite", "--json"))
    assert told["moved"] and shown(home) == seen


def test_killed_move_is_resumed(home: Program) -> None:
    url = server().make_database()
    with open_fleet(Home(home.env["FLEET_HOME"])) as fleet, fleet.store.atomic():
        for number in range(3 * transfer.PART):
            fleet.store.tasks.add(a_task(id=f"many-{number:05}"))
    before = contents(home)
    process = subprocess.Popen(
        [*home.argv, "queue", "migrate", url], env=home.env, cwd=home.cwd, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("tasks: ")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert json.loads(home.ok("queue", "--json"))["kind"] == "sqlite", "nothing was switched"
    home.ok("bd", "create", "made meanwhile", "--id", "many-99999", "--force")
    done = home("queue", "migrate", url)
    assert done.code == 0, done
    assert contents(home)["tasks"].rows == before["tasks"].rows + 1


def test_move_is_refused_while_a_supervisor_runs_or_over_other_tasks(home: Program, tmp_path: Path) -> None:
    url = server().make_database()
    (tmp_path / "other").mkdir()
    other = Program(tmp_path / "other")
    other.env["FLEET_QUEUE"] = url
    other.ok("init", "--home", "--permissions", "skip")
    other.ok("bd", "create", "somebody else's")
    refused = home("queue", "migrate", url)
    assert refused.code != 0 and "postgresql already contains other tasks" in refused.err
    assert "Traceback" not in refused.err and url not in refused.err
    for words, said in (
        (("queue", "migrate", "sqlite"), "already"),
        (("queue", "migrate", "beads", "sqlite"), "already"),
        (("queue", "migrate", "postgresql://nobody/x", "sqlite"), "already"),
        (("queue", "migrate", "elsewhere"), "not the name of a queue"),
        (("queue", "migrate", "a", "b", "c"), "too many"),
        (("queue", "migrate", "postgresql://ada:secret@127.0.0.1:1/none"), "a password on the command line"),
        (("queue", "migrate", "postgresql://127.0.0.1:1/none?password=secret"), "a password on the command line"),
        (("queue", "migrate", "postgresql://127.0.0.1:1/none"), "cannot be reached"),
    ):
        told = home(*words)
        assert told.code != 0 and said in told.err, told
    home.ok("run", "start")
    told = home("queue", "migrate", url)
    assert told.code != 0 and "a supervisor is running" in told.err
    home.ok("run", "stop")
    dry = home("queue", "migrate", "--dry-run", server().make_database())
    assert dry.code == 0 and "they would go from sqlite to postgresql" in dry.out
    assert json.loads(home.ok("queue", "--json"))["kind"] == SQLITE


def test_move_is_refused_when_an_agent_calls(home: Program) -> None:
    with open_fleet(Home(home.env["FLEET_HOME"])) as fleet:
        fleet.store.tasks.add(a_task(id="many-1"))
        (claim,) = fleet.store.claims.acquire("here", [Lane(room=1)], room=1, ttl=HOUR)
        token = fleet.store.tokens.issue(
            claim, Caller(task_id=claim.task.id, run_id=f"{claim.task.id}/1", epoch=claim.epoch)
        )
    told = home("queue", "migrate", server().make_database(), FLEET_RUN_TOKEN=token)
    assert told.code != 0 and "move the queue" in told.err, told
    assert json.loads(home.ok("queue", "--json"))["kind"] == SQLITE
