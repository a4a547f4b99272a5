"""fleet with its tasks in PostgreSQL: creating and running them, also under SIGKILL; the password stays secret."""

import json
import stat
from pathlib import Path

import pytest

from postgres import Server, server, stopped
from postgres_home import PASSWORD, SharedHome, shared, with_password
from program import Program
from supervised import commands, environment, wait_for

__all__ = ["shared"]


def test_dependent_tasks_run_to_the_end_and_agents_reach_the_queue(shared: SharedHome) -> None:
    first = shared.create("hand_in")
    second = shared.create("ok", "--deps", first)
    shared.start()
    shared.wait_all([first, second], "closed")
    assert [run["ending"] for key in (first, second) for run in shared.runs(key)] == ["finished", "finished"]
    shown = json.loads(shared.fleet.ok("bd", "show", second, "--json"))
    assert shown[0]["status"] == "closed"
    assert not (shared.fleet.home / "fleet.db").exists()
    assert json.loads(shared.fleet.ok("tasks", "--json")) == []
    assert "PostgreSQL" in shared.fleet("doctor").out


def test_restarted_supervisor_continues_and_starts_nothing_twice_after_a_kill(shared: SharedHome) -> None:
    keys = [shared.create("ok seconds=2") for _ in range(2)]
    shared.start()
    shared.wait_started(2)
    shared.kill()
    assert [run["ended_at"] for key in keys for run in shared.runs(key)] == [None, None]
    shared.start()
    shared.wait_all(keys, "closed")
    assert len(shared.notes("start")) == 2
    assert [(task["epoch"], task["failures"]) for task in map(shared.task, keys)] == [(2, 0), (2, 0)]


def test_task_created_by_another_host_starts_at_once_without_a_wake_up(shared: SharedHome) -> None:
    shared.set("supervisor.poll_seconds=600")
    shared.start()
    before = shared.create("ok")
    shared.wait_status(before, "closed")
    # Another home with the same queue: its pipe wakes no supervisor here.
    other = shared.fleet.user / "other"
    words = ("--coder", "workers.scripted:ScriptedCoder", "--json")
    shared.fleet.ok("init", "--permissions", "user", FLEET_HOME=str(other))
    made = json.loads(shared.fleet.ok("bd", "create", "x", "-d", "do: ok", *words, FLEET_HOME=str(other)))
    shared.wait_status(made["id"], "closed")


def test_connection_string_is_never_shown(shared: SharedHome) -> None:
    shared.start()
    key = shared.create("ok seconds=5")
    shared.wait_started(1)
    wait_for(shared.agents, "the agent", shared.describe)
    for pid in shared.agents():
        assert not [word for word in environment(pid) if b"FLEET_QUEUE" in word]
    assert not [words for _, words in commands() if any(PASSWORD.encode() in word for word in words)]
    said = [shared.fleet(*words) for words in (("config",), ("config", "get", "queue"), ("doctor",), ("show", key))]
    assert not [result for result in said if PASSWORD in result.out + result.err]
    shared.stop()
    kept = shared.fleet.home / "queue"
    holding = [path for path in shared.fleet.home.rglob("*") if path.is_file() and PASSWORD in _text(path)]
    assert holding == [kept] and stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert PASSWORD not in _text(shared.fleet.user / "supervisor.out")


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def test_init_records_the_queue_and_every_command_finds_it(fleet: Program) -> None:
    url = with_password(server().make_database())
    told = fleet.ok("init", "--home", "--permissions", "user", "--queue", "postgresql", stdin=f"{url}\n")
    assert "recorded that tasks are kept in PostgreSQL" in told and PASSWORD not in told
    made = json.loads(fleet.ok("bd", "create", "a task", "--json"))
    assert [each["id"] for each in json.loads(fleet.ok("bd", "list", "--json"))] == [made["id"]]
    assert fleet.ok("config", "get", "queue") == "postgresql://…\n"
    elsewhere = fleet("bd", "list", FLEET_QUEUE="sqlite")
    assert elsewhere.code == 1 and "fleet init" in elsewhere.err, elsewhere
    again = fleet.ok("init", "--home", "--queue", "sqlite")
    assert "the home itself" in again
    assert fleet.ok("bd", "list", "--json").strip() == "[]"


@pytest.mark.parametrize("typed", ["ada:hunter22@host/x", "127.0.0.1:1/x?user=ada&password=hunter22"])
def test_password_on_the_command_line_is_refused(fleet: Program, typed: str) -> None:
    result = fleet("init", "--queue", f"postgresql://{typed}")
    assert result.code == 2 and "hunter22" not in result.out + result.err and "FLEET_QUEUE" in result.err
    told = fleet("config", "set", f"queue=postgresql://{typed}")
    assert told.code == 2 and "hunter22" not in told.out + told.err and "fleet init" in told.err
    assert not fleet.home.exists()


def test_unreachable_queue_is_reported_and_not_recorded(fleet: Program) -> None:
    result = fleet("init", "--home", "--queue", "postgresql", stdin="postgresql://ada:hunter22@127.0.0.1:1/x\n")
    assert result.code == 1 and "cannot be reached" in result.err and "hunter22" not in result.err
    assert "queue =" not in "".join(_text(path) for path in fleet.home.glob("runtime.toml"))
    assert fleet("bd", "list", FLEET_QUEUE="nonsense").code == 1


@pytest.mark.parametrize("password", ["Hunter@Secret77", "p@ss:w/rd", "Hunter/Secret77"])
def test_no_part_of_a_malformed_password_is_printed(fleet: Program, password: str) -> None:
    string = f"postgresql://fleet:{password}@127.0.0.1:1/d1\n"
    result = fleet("init", "--home", "--queue", "postgresql", stdin=string, FLEET_DEBUG="1")
    assert result.code == 1 and "invalid connection string" in result.err and "`%` codes" in result.err
    pieces = [password[at : at + 4] for at in range(len(password) - 3)]
    assert not [piece for piece in pieces if piece in result.out + result.err]


def test_program_may_print_the_connection_string(fleet: Program, tmp_path: Path) -> None:
    url = with_password(server().make_database())
    program = tmp_path / "secret"
    program.write_text(f"#!/bin/sh\necho '{url}'\necho more\n")
    program.chmod(0o700)
    fleet.ok("init", "--home", "--permissions", "user")
    fleet.ok("config", "set", f'queue_command=["{program}"]')
    fleet.ok("init", "--home")
    fleet.ok("bd", "create", "a task")
    assert len(json.loads(fleet.ok("bd", "list", "--json"))) == 1
    assert fleet.ok("bd", "list", "--json", FLEET_QUEUE="sqlite").strip() == "[]"
    program.write_text("#!/bin/sh\necho oh no >&2\nexit 3\n")
    failed = fleet("bd", "list")
    assert failed.code == 1 and "queue_command failed with exit code 3" in failed.err and "oh no" not in failed.err


@pytest.fixture
def own() -> Server:
    server()
    return Server()


def test_commands_report_an_unreachable_database_and_the_supervisor_waits(fleet: Program, own: Server) -> None:
    home = SharedHome(fleet, own.make_database())
    home.start()
    try:
        home.wait_status(home.create("ok"), "closed")  # a supervisor that has just started may not know its queue yet
        with stopped(own):
            away = fleet("bd", "list")
            assert away.code == 1 and "cannot be reached" in away.err
            assert home.process is not None and home.process.poll() is None
        key = home.create("ok")
        home.wait_status(key, "closed")
    finally:
        home.stop()
        own.remove()
