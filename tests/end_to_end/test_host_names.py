"""Tasks bound to a home's disk run on that home's host, whatever its name is by then."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from machines import Machine, machine
from postgres import server
from postgres_home import SharedHome
from program import Program, fleet
from repositories import make_repository
from supervised import Supervised, wait_for

__all__ = ["fleet", "machine"]

MACHINE = socket.gethostname()


@pytest.fixture
def home(fleet: Program) -> Iterator[SharedHome]:
    made = SharedHome(fleet, server().make_database())
    yield made
    fleet("run", "stop", "--stop-agents")


def owner(home: Supervised, key: str) -> str:
    home.wait_status(key, "closed")
    return str(home.runs(key)[-1]["owner"])


def test_pinned_task_follows_its_host_after_a_rename(home: SharedHome) -> None:
    stopped = home.create("ok")
    assert f"requires:    host {MACHINE}\n" in home.fleet.ok("show", stopped)
    assert f"the host that created it, {MACHINE}, is unknown (1 task waits for it)" in home.fleet("tasks").err
    home.fleet.ok("run", "start", "--name", "build7")
    assert owner(home, stopped).startswith("fleet@build7-")
    home.fleet.ok("run", "stop")
    later = home.create("ok")
    assert "requires:    host build7\n" in home.fleet.ok("show", later)
    assert json.loads(home.fleet.ok("show", later, "--json"))[0]["host"] == "build7"
    assert "host build7 was last seen at" in home.fleet("tasks").err
    home.fleet.ok("run", "start", "--name", "build9")
    assert owner(home, later).startswith("fleet@build9-")
    assert "requires:    host build9\n" in home.fleet.ok("show", later)
    assert {row["name"]: row["labels"] for row in json.loads(home.fleet.ok("hosts", "--json"))} == {
        "build7": [],
        "build9": [],
    }
    home.fleet.ok("run", "stop")
    last = home.create("ok")
    told = home.fleet("tasks").err
    assert "host build9 was last seen at" in told and "build7" not in told, "it has one name at a time"
    home.fleet.ok("run", "start")
    assert owner(home, last).startswith(f"fleet@{MACHINE}-")


def test_pinned_task_is_not_taken_by_another_home_of_the_same_name(machine: Callable[..., Machine]) -> None:
    maker, other = machine("maker", start=False), machine("other")
    folder = maker.fleet.user / "plain"
    folder.mkdir()
    key = json.loads(maker.fleet.ok("bd", "create", "stays", "-d", "do: ok", "--json", cwd=folder))["id"]
    other.stop()
    other.fleet.ok("config", "set", "host.name=maker")
    other.name = "maker"
    other.start()
    other.add(free=[])
    other.wait(key)
    assert other.ran() == ["t-free"]
    maker.fleet.ok("run", "start", "--name", "renamed")
    other.wait()
    assert maker.ran() == [key] and "renamed" in maker.hosts()


def test_host_that_a_person_named_stays_the_required_host(home: SharedHome) -> None:
    said, changed = home.create("ok", "--host", MACHINE), home.create("ok")
    home.fleet.ok("bd", "update", changed, "--host", "elsewhere")
    freed = home.create("ok", "--requires", "gpu")
    home.fleet.ok("bd", "update", freed, "--requires", "")
    home.fleet.ok("run", "start", "--name", "build7")
    assert owner(home, freed).startswith("fleet@build7-"), "what else it requires may change"
    told = home.fleet("tasks").err
    assert f"no host is called {MACHINE} (1 task" in told and "no host is called elsewhere (1 task" in told
    assert [home.task(key)["requires"] for key in (said, changed)] == [f'["host:{MACHINE}"]', '["host:elsewhere"]']
    home.fleet.ok("run", "stop")
    home.fleet.ok("run", "start")
    assert owner(home, said).startswith(f"fleet@{MACHINE}-"), "as any task that an older fleet bound to its host"


def test_task_made_before_the_queue_was_shared_runs_on_its_host(fleet: Program) -> None:
    home = Supervised(fleet)
    key, url = home.create("ok"), server().make_database()
    fleet.ok("queue", "migrate", "sqlite", url)
    fleet.ok("run", "start", "--name", "build7")
    try:
        wait_for(lambda: '"closed"' in fleet.ok("bd", "show", key, "--json"), "the work", lambda: fleet("tasks").err)
        assert "requires:    host build7\n" in fleet.ok("show", key)
        late = home.create(f"until file={fleet.user / 'go'}")
        home.wait_started(2)
        fleet.ok("run", "stop", "--stop-agents")
        (fleet.user / "go").touch()
        fleet.ok("queue", "migrate", "-", "sqlite", stdin=f"{url}\n")
        fleet.ok("run", "start")
        home.wait_status(late, "closed")
    finally:
        fleet("run", "stop", "--stop-agents")


def test_supervisor_started_by_a_command_keeps_the_last_host_name(home: SharedHome, tmp_path: Path) -> None:
    home.fleet.ok("run", "start", "--name", "build7")
    home.fleet.ok("run", "stop")
    project = make_repository(tmp_path / "project")
    made = home.fleet("create", "fix", "-p", "do: ok", "--headless", "--no-wait", cwd=project)
    assert made.code == 0 and "stays on this host, build7" in made.err and "supervisor started" in made.err
    (row,) = home.rows("select id from tasks")
    wait_for(lambda: home.runs(row["id"]), "its run", home.describe)
    assert home.runs(row["id"])[0]["owner"].startswith("fleet@build7-")
    home.fleet.ok("run", "stop")
    home.fleet.ok("kill", "fix", cwd=project)
    assert home.rows("select count(*) as n from workspaces where removed_at is null") == [{"n": 0}]
