"""Beads as the queue, with the real bd of both families: a supervisor claims tasks from bd, and bd shows their end."""

import json
import subprocess
import time
from collections.abc import Iterator

import pytest

import beads
from beads_home import BeadsHome
from program import Program
from supervised import wait_for


@pytest.fixture(params=[beads.NEW, pytest.param(beads.OLD, marks=pytest.mark.soak("queues"))])
def home(request: pytest.FixtureRequest, fleet: Program) -> Iterator[BeadsHome]:
    made = BeadsHome(fleet, request.param)
    yield made
    made.stop()
    assert not made.agents()


def test_bd_knows_all_of_a_task_from_creation_to_end(home: BeadsHome) -> None:
    home.set("limits.retry_limit=1")
    first = home.create("ok", "-l", "blue")
    second = home.create("ask", "--deps", first)
    third = home.create("hand_in", "--deps", second)
    failing = home.create("fail")
    assert home.shown(third)["dependencies"][0]["id"] == second
    home.start()
    home.wait_status(first, "closed")
    home.wait_status(second, "blocked")
    home.wait_status(failing, "blocked")
    asking = home.shown(second)
    assert (asking["status"], asking.get("assignee", "")) == ("blocked", "")
    [question] = json.loads(home.fleet.ok("questions", "--json"))
    home.fleet.ok("answer", question["id"], "blue")
    home.fleet.ok("bd", "update", failing, "--description", "do: ok")
    home.fleet.ok("retry", failing)
    home.wait_all([second, third, failing], "closed")
    told = {key: home.shown(key) for key in (first, second, third, failing)}
    assert {each["status"] for each in told.values()} == {"closed"}
    assert told[first]["labels"] == ["blue"] and told[first]["metadata"]["fleet.cwd"] == str(home.fleet.cwd)
    assert told[third]["close_reason"] == "handed in"
    assert [len(home.runs(key)) for key in told] == [1, 2, 1, 2]


def test_killed_supervisor_leaves_nothing_in_bd(home: BeadsHome) -> None:
    go = home.fleet.user / "go"
    keys = home.create_many([f"until file={go}"] * 3)
    home.start()
    home.wait_started(3)
    assert {home.shown(key)["status"] for key in keys} == {"in_progress"}
    home.kill()
    [stray] = home.create_many(["ok"])
    owner = home.task(keys[0])["claim_owner"]
    home.bd("update", stray, "--claim", actor=owner)  # as if killed between bd's claim and ours
    home.start()
    go.touch()
    home.wait_all([*keys, stray], "closed")
    assert len(home.notes("start")) == 4
    assert {home.shown(key)["status"] for key in keys} == {"closed"}


def test_task_held_by_a_person_in_bd_is_claimed_only_once_it_is_free(home: BeadsHome) -> None:
    held, free = home.create_many(["ok"] * 2)
    home.bd("update", held, "--claim", actor="ada")
    home.start()
    home.wait_status(free, "closed")
    assert home.shown(held)["assignee"] == "ada" and home.runs(held) == []
    home.bd("update", held, "--status", "open", "--assignee", "", actor="ada")
    home.wait_status(held, "closed")


def test_fleet_bd_prints_what_the_real_bd_prints(home: BeadsHome) -> None:
    key = home.create("ok", "--coder", "demo")
    for words in (("show", key), ("list", "--all", "--json"), ("show", "nope"), ("nonsense",), ("close",)):
        through = home.fleet("bd", *words)
        env = home.fleet.env | {"BEADS_DIR": f"{home.fleet.home}/.beads"}
        plain = subprocess.run([home.program, *words], env=env, cwd=home.fleet.cwd, capture_output=True, text=True)
        assert through == (plain.returncode, plain.stdout, plain.stderr)
    made = home.fleet.ok("bd", "create", "another", "--cwd", str(home.fleet.user), "--model", "m")
    assert made.startswith("Created fleet-") and made.count("\n") == 1
    other = made.split()[1].rstrip(":")
    assert home.shown(other)["metadata"] == {
        "fleet.cwd": str(home.fleet.user),
        "fleet.model": "m",
    } | {
        name: value for name, value in home.shown(other)["metadata"].items() if name not in ("fleet.cwd", "fleet.model")
    }


def test_settings_changed_in_bd_take_effect(home: BeadsHome) -> None:
    first = home.create("ok")
    refused = home.fleet("bd", "create", "an odd one", "-t", "odd")
    assert refused.code != 0, refused
    home.fleet.ok("bd", "config", "set", "types.custom", "odd")
    made = json.loads(home.fleet.ok("bd", "create", "an odd one", "-t", "odd", "--json"))
    assert home.shown(made["id"])["issue_type"] == "odd" and home.shown(first)["status"] == "open"


def test_failing_bd_ends_neither_supervisor_nor_task(home: BeadsHome) -> None:
    wrapper = home.fleet.user / "bd"
    broken = home.fleet.user / "broken"
    wrapper.write_text(
        f'#!/bin/sh\n[ -e {broken} ] && {{ echo "Error: database is locked" >&2; exit 1; }}\nexec {home.program} "$@"\n'
    )
    wrapper.chmod(0o755)
    home.fleet.env["FLEET_BD"] = str(wrapper)
    go = home.fleet.user / "go"
    key = home.create(f"until file={go}")
    home.start()
    home.wait_started(1)
    broken.touch()
    go.touch()
    wait_for(lambda: home.notes("end"), "the agent to end", home.describe)
    time.sleep(1)
    assert home.process is not None and home.process.poll() is None
    assert home.task(key)["status"] == "in_progress"
    broken.unlink()
    home.wait_status(key, "closed")
    assert home.shown(key)["status"] == "closed"


def test_init_lets_bd_create_its_folder_and_records_the_choice(fleet: Program) -> None:
    fleet.env |= {"FLEET_BD": beads.program(), "BD_DISABLE_METRICS": "1"}
    made = fleet.ok("init", "--home", "--queue", "beads")
    assert "recorded that tasks are kept in beads" in made
    assert 'queue = "beads"' in (fleet.home / "runtime.toml").read_text()
    key = fleet.ok("bd", "q", "quick").strip()  # the real bd's
    assert "1 ready" in "".join(fleet("tasks")[1:]) and json.loads(fleet.ok("show", key, "--json"))


def test_each_first_command_opens_a_home_with_only_beads(fleet: Program) -> None:
    fleet.home.mkdir(mode=0o700)
    beads.beads_in(fleet.home)
    fleet.env |= {"FLEET_BD": beads.program(), "BD_DISABLE_METRICS": "1"}
    key = fleet.ok("bd", "q", "quick").strip()
    assert "1 ready" in "".join(fleet("tasks")[1:]) and json.loads(fleet.ok("show", key, "--json"))
    assert 'queue = "beads"' in (fleet.home / "runtime.toml").read_text()
    fleet.env |= {"FLEET_BD": "/nowhere", "PATH": "/nowhere"}
    away = fleet("bd", "list")
    assert (away.code, away.out) == (1, "") and "bd is not on PATH" in away.err and "FLEET_BD" in away.err
