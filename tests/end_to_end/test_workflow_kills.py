"""Workflows under hard conditions: supervisors that are killed in the middle, and stages that are over at once.

The audit is written by the agents themselves; nothing of fleet is imported to judge it.
"""

import json
import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from repositories import make_repository
from supervised import CODER, Supervised, home

__all__ = ["home"]

KILLS, CHAINS = 5, 20
#: Which stages each of ten needs.
TEN = {0: (), 1: (0,), 2: (0,), 3: (1,), 4: (1, 2), 5: (2,), 6: (3, 4), 7: (5,), 8: (6, 7), 9: (8,)}
TWO_CHAINS = {0: (), 1: (), 2: (0,), 3: (1,)}


@pytest.fixture
def flows(home: Supervised) -> Supervised:
    """A home with a repository, whose agents do what they are told."""
    home.fleet.cwd = make_repository(home.fleet.cwd / "repo")
    home.fleet.env |= {"FLEET_DEFAULT_EXECUTOR": CODER, "BEADS_ACTOR": "tester"}
    home.set("supervisor.start_interval_seconds=0", "max_concurrent=4", "supervisor.claim_seconds=3600")
    return home


def begun(home: Supervised, graph: dict[int, tuple[int, ...]], do: str) -> list[str]:
    """The tasks of a workflow of this graph, each of whose agents does this."""
    stages = [
        {"name": f"s{number}", "prompt_template": f"do: {do}", "depends_on": list(needs), "no_changes": True}
        for number, needs in graph.items()
    ]
    file = home.fleet.user / "flow.json"
    file.write_text(json.dumps({"name": "graph", "stages": stages}))
    made: dict[str, Any] = json.loads(home.fleet.ok("workflow", "run", str(file), "--json"))
    return [str(stage["task"]) for stage in made["stages"]]


def check_order(home: Supervised, keys: list[str], graph: dict[int, tuple[int, ...]]) -> None:
    """Each stage had one agent, once all that it needs were over."""
    starts = {note[1]: float(note[4]) for note in home.notes("start")}
    for number, needs in graph.items():
        for need in needs:
            (ended,) = [row["ended_at"] for row in home.runs(keys[need]) if row["ending"] == "finished"]
            assert starts[keys[number]] >= ended / 1e6, (number, need)


@pytest.mark.parametrize("kills", [KILLS, pytest.param(10 * KILLS, marks=pytest.mark.soak)])
def test_kills_in_the_middle_of_a_graph_have_each_stage_accepted_once(flows: Supervised, kills: int) -> None:
    home = flows
    home.seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(home.seed)
    home.start()
    keys = begun(home, TEN, "ok seconds=0.3")
    graphs, done = [keys], 0
    while done < kills:
        time.sleep(chance.uniform(0.05, 0.5))
        home.kill()
        done += 1
        home.start()
        if done % KILLS == 0 and done < kills:
            keys = begun(home, TEN, "ok seconds=0.3")
            graphs.append(keys)
    for keys in graphs:
        home.wait_all(keys, "closed", patience=120)
        check_order(home, keys, TEN)
    every = [key for keys in graphs for key in keys]
    started = Counter(note[1] for note in home.notes("start"))
    assert {key: started[key] for key in every} == dict.fromkeys(every, 1), home.describe()
    accepted = Counter(row["task"] for row in home.rows("select task from runs where ending = 'finished'"))
    assert accepted == Counter(every)
    assert len(home.rows("select task from results")) == len(every)


@pytest.mark.parametrize("count", [CHAINS, pytest.param(10 * CHAINS, marks=pytest.mark.soak)])
def test_two_chains_of_stages_that_are_over_at_once_always_finish(flows: Supervised, count: int) -> None:
    home = flows
    home.set("max_concurrent=8")
    home.start()
    graphs = [begun(home, TWO_CHAINS, "ok") for _ in range(count)]
    for keys in graphs:
        home.wait_all(keys, "closed", patience=120)
        check_order(home, keys, TWO_CHAINS)


def test_stages_take_no_slots_of_other_tasks_and_as_many_work_as_their_maker_said(flows: Supervised) -> None:
    home = flows
    home.set("max_concurrent=1")
    home.start()
    other = home.create("ok seconds=20")
    home.wait_started(1)
    home.fleet.env["FLEET_MAX_CONCURRENT"] = "2"
    keys = begun(home, dict.fromkeys(range(6), ()), "ok seconds=0.4")
    home.wait_all(keys, "closed")
    lives = [(float(note[4]), 1 if note[0] == "start" else -1) for note in home.notes() if note[1] in keys]
    at_once = [sum(step for _, step in sorted(lives)[:number]) for number in range(len(lives) + 1)]
    assert max(at_once) == 2
    assert home.task(other)["status"] == "in_progress"
