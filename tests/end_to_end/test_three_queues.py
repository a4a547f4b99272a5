"""One scenario on every queue: dependencies, a run, a question, a failure, a retry and closes, with the same result."""

import json
import re
from typing import Any

import pytest

import beads
from postgres import server
from program import Program
from supervised import wait_for

#: Values that differ between runs of the scenario, independent of the queue.
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
PASSING = ("elapsed", "seconds", "age", "cost_usd", "rss_kb", "cpu_pct", "pid", "waited", "duration")


def test_scenario_has_the_same_result_on_every_queue(fleet: Program) -> None:
    check_stories(fleet, postgresql=server().make_database(), beads="beads")


@pytest.mark.soak("queues")
def test_scenario_has_the_same_result_on_an_older_beads(fleet: Program) -> None:
    check_stories(fleet, older_beads="beads")


def check_stories(fleet: Program, **queues: str) -> None:
    """Compare the scenario on each of these queues with the scenario on SQLite."""
    plain = story(fleet, "sqlite", "")
    assert len(plain) == 5
    for kind, queue in queues.items():
        told = story(fleet, kind, queue)
        assert {row["host"] for (row,) in told} == {"box"}
        assert told == plain, kind


def story(base: Program, kind: str, queue: str) -> list[Any]:
    """Run the scenario in its own home. Return every task as `fleet show` prints it at the end."""
    place = base.user / kind
    place.mkdir()
    fleet = Program(place)
    if queue:
        fleet.env["FLEET_QUEUE"] = queue
    if queue == "beads":
        fleet.env["FLEET_BD"] = beads.program(beads.OLD if kind == "older_beads" else beads.NEW)
    fleet.ok("init", "--home", "--permissions", "skip")
    fleet.ok("config", "set", "host.name=box")
    first = made(fleet, "first", "demo: steps=1 pause=0")
    asks = made(fleet, "asks", 'demo: ask="Which colour?" steps=1 pause=0', "--deps", first, "-l", "a,b")
    fails = made(fleet, "fails", "demo: exit=3", "--priority", "1")
    last = made(fleet, "last", "demo: steps=1 pause=0", "--deps", asks)
    by_hand = made(fleet, "by hand", "for a person", "--assignee", "ada", "--defer", "+1d")
    ids = {first: "<first>", asks: "<asks>", fails: "<fails>", last: "<last>", by_hand: "<by hand>"}
    fleet.ok("bd", "comment", first, "said about it")
    fleet.ok("config", "set", "coder=demo", "limits.retry_limit=1")
    fleet.ok("run", "start")
    try:
        wait_for(lambda: status(fleet, first) == "closed", "the first", lambda: describe(fleet))
        wait_for(lambda: json.loads(fleet.ok("questions", "--json")), "the question", lambda: describe(fleet))
        wait_for(lambda: status(fleet, asks) == "blocked", "the task to wait", lambda: describe(fleet))
        wait_for(lambda: status(fleet, fails) == "blocked", "the failure", lambda: describe(fleet))
        (asked,) = json.loads(fleet.ok("questions", "--json"))
        fleet.ok("answer", asked["id"], "blue", BEADS_ACTOR="ada")
        wait_for(lambda: status(fleet, last) == "closed", "the last", lambda: describe(fleet))
        fleet.ok("bd", "update", fails, "--description", "demo: steps=1 pause=0", BEADS_ACTOR="ada")
        fleet.ok("retry", fails)
        fleet.ok("bd", "close", by_hand, "--reason", "done by hand", BEADS_ACTOR="ada")
        wait_for(lambda: status(fleet, fails) == "closed", "the retry", lambda: describe(fleet))
    finally:
        fleet.ok("run", "stop", "--stop-agents")
    return [masked(json.loads(fleet.ok("show", key, "--json")), ids, fleet) for key in ids]


def made(fleet: Program, title: str, orders: str, *options: str) -> str:
    told = json.loads(fleet.ok("bd", "create", title, "-d", orders, *options, "--json", BEADS_ACTOR="ada"))
    return str(told["id"])


def status(fleet: Program, key: str) -> str:
    return str(json.loads(fleet.ok("show", key, "--json"))[0]["status"])


def describe(fleet: Program) -> str:
    return fleet("bd", "list", "--all").out + fleet("log", "-n", "30").out


def masked(value: Any, ids: dict[str, str], fleet: Program, name: str = "") -> Any:
    """Return the value without details of one run: ids, instants, paths and durations."""
    if isinstance(value, dict):
        return {key: masked(each, ids, fleet, key) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [masked(each, ids, fleet, name) for each in value]
    if name in PASSING or (isinstance(value, float) and name.endswith("_s")):
        return "<amount>"
    if isinstance(value, str):
        for key, word in ids.items():
            value = value.replace(key, word)
        value = value.replace(str(fleet.home), "<home>").replace(str(fleet.home.parent), "<place>")
        return INSTANT.sub("<instant>", value)
    return value
