"""A home whose queue was moved away: every command says so, and the hint leads to a working queue."""

import json
from pathlib import Path

import pytest

from fleet.core.errors import QueueMoved
from postgres import server
from program import Program, Result

FACT, HINT = str(QueueMoved()), QueueMoved.hint


@pytest.fixture
def left(tmp_path: Path) -> Program:
    """Return a home whose queue another home, which shared it, has moved to its own file. A task was ready there."""
    url = server().make_database()
    homes = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        homes.append(Program(tmp_path / name))
        homes[-1].ok("init", "--home", "--permissions", "user", "--queue", "postgresql", stdin=url)
        homes[-1].ok("config", "set", "coder=demo")
    first, second = homes
    first.ok("bd", "create", "a task", "-d", "demo: steps=1 pause=0")
    assert "no supervisor is running" in second("tasks").err
    first.ok("queue", "migrate", "sqlite")
    return second


@pytest.fixture
def sealed(fleet: Program) -> Program:
    """Return a home that uses its own file, although everything was moved from the file."""
    fleet.ok("init", "--home", "--permissions", "user")
    fleet.ok("config", "set", "coder=demo")
    fleet.ok("bd", "create", "a task", "-d", "demo: steps=1 pause=0")
    fleet.ok("queue", "migrate", server().make_database())
    fleet.env["FLEET_QUEUE"] = "sqlite"
    return fleet


@pytest.fixture(params=["left", "sealed"])
def home(request: pytest.FixtureRequest) -> Program:
    """Return each of these homes in turn."""
    found: Program = request.getfixturevalue(request.param)
    return found


def is_refused(told: Result) -> bool:
    return told.code == 1 and told.err == f"error: {FACT}\nhint:  {HINT}\n"


def test_write_to_a_moved_queue_is_refused_in_one_line_with_a_hint(home: Program) -> None:
    told = home("bd", "create", "another")
    assert told.code == 1 and FACT in told.err and "CONTEXT" not in told.err + told.out
    assert len(told.err.splitlines()) <= 2, told.err
    assert is_refused(home("pause"))


def test_no_supervisor_starts_on_a_moved_queue(home: Program) -> None:
    for words in (("run", "start"), ("run",), ("run", "foreground"), ("run", "restart")):
        told = home(*words)
        assert is_refused(told), (words, told)
        assert "started" not in told.out
    assert home("run", "status").code == 1


def test_reading_commands_report_a_moved_queue(home: Program) -> None:
    told = home("tasks")
    assert FACT in told.err and "fleet init --home --queue" in told.err and "run start" not in told.err
    assert FACT in home.ok("queue") and "share" not in home.ok("queue")
    assert json.loads(home.ok("queue", "--json"))["moved"] is True
    checks = json.loads(home("doctor", "--json").out)
    (queue,) = [each for each in checks if each["name"] == "queue"]
    assert (queue["state"], queue["remedy"]) == ("wrong", HINT) and FACT in queue["fact"]


def test_moved_queue_cannot_be_moved_again(left: Program) -> None:
    told = left("queue", "migrate", "sqlite")
    assert told.code == 1 and "were already moved elsewhere" in told.err and "--home --queue" in told.err
    assert "cannot be opened" not in told.err


def test_home_uses_the_new_queue_once_the_old_one_is_not_named(sealed: Program) -> None:
    del sealed.env["FLEET_QUEUE"]
    sealed.ok("bd", "create", "another")
    told = json.loads(sealed.ok("queue", "--json"))
    assert (told["kind"], told["moved"], told["tasks"]) == ("postgresql", False, 2)


def test_hint_leads_to_a_queue_that_works(left: Program) -> None:
    left.ok("init", "--home", "--queue", "sqlite")
    key = json.loads(left.ok("bd", "create", "x", "-d", "demo: steps=1 pause=0", "--json"))["id"]
    left.ok("run", "start")
    try:
        left.ok("wait", key, "--timeout", "60")
    finally:
        left.ok("run", "stop", "--stop-agents")
    assert json.loads(left.ok("queue", "--json"))["moved"] is False
