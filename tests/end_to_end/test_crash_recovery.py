"""SIGKILL of the supervisor at random moments and at every step of a run: nothing is lost, repeated or orphaned.

The agents write the audit themselves; no code of fleet judges it.
"""

import os
import random
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from supervised import Supervised, home, wait_for

__all__ = ["home"]

AGENTS, KILLS = 20, 12
#: Keeps claims from expiring during the test, so that only restarts can repair the state.
UNHURRIED = "supervisor.claim_seconds=3600"
#: (module, class, method): the supervisor is killed just before and just after each, in the order of a run.
STEPS = [
    ("fleet.store.sql.claims", "SqlClaims", "acquire"),
    ("fleet.store.sql.runs", "SqlRuns", "begin"),
    ("fleet.store.sql.messages", "SqlTokens", "issue"),
    ("fleet.supervisor.task_folder", "TaskFolder", "write_task_json"),
    ("fleet.agents.headless", "Starter", "hand_over"),
    ("fleet.agents.shim_client", "ShimAgent", "reach"),
    ("fleet.store.sql.runs", "SqlRuns", "fold_all"),
    ("fleet.store.sql.runs", "SqlRuns", "end"),
    ("fleet.store.sql.claims", "SqlClaims", "settle"),
]


@pytest.mark.parametrize("kills", [KILLS, pytest.param(500, marks=pytest.mark.soak("kills"))])
def test_random_kills_lose_nothing_and_start_nothing_twice(home: Supervised, kills: int) -> None:
    home.seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(home.seed)
    home.set(f"max_concurrent={AGENTS}", "supervisor.start_interval_seconds=0", UNHURRIED)
    keys = more_work(home, chance)
    home.start()
    for number in range(kills):
        if open_tasks(home) < AGENTS:
            keys += more_work(home, chance)
        if number % 2:  # the other kills hit any moment of the supervisor's own start
            # On a busy machine the first agents end before the last ones start.
            wait_for(
                lambda: len(home.agents()) >= AGENTS - 1 or not open_tasks(home), f"{AGENTS} agents", home.describe
            )
            time.sleep(chance.uniform(0, 0.3))
            home.kill()
            ready_again(home)
        else:
            home.kill()
            home.spawn()
            time.sleep(chance.uniform(0, 1))
    home.wait_all(keys, "closed", patience=180)
    check_lives(home, keys)


def open_tasks(home: Supervised) -> int:
    """Return how many tasks wait for an agent."""
    return int(home.rows("select count(*) as n from tasks where status = 'open'")[0]["n"])


def more_work(home: Supervised, chance: random.Random) -> list[str]:
    """Create twice as many tasks as agents may run."""
    return home.create_many([f"ok seconds={chance.uniform(1, 8):.2f}" for _ in range(2 * AGENTS)])


def ready_again(home: Supervised) -> None:
    """Start a supervisor, and wait until it has adopted or given back every task that was held."""
    held = {row["id"]: row["epoch"] for row in home.rows("select id, epoch from tasks where status = 'in_progress'")}
    home.spawn()
    marks = ",".join("?" * len(held))
    sql = f"select id, epoch from tasks where status = 'in_progress' and id in ({marks})"
    wait_for(lambda: all(row["epoch"] > held[row["id"]] for row in home.rows(sql, *held)), "its return", home.describe)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[1]}.{step[2]}")
def test_kill_at_any_step_of_a_run_is_recovered(home: Supervised, step: tuple[str, str, str], when: str) -> None:
    home.set("supervisor.start_interval_seconds=0", UNHURRIED)
    keys = [home.create("ok seconds=1.2") for _ in range(3)]
    codes: list[int | None] = []
    for time_of_kill in range(3):
        home.fleet.env["CRASH"] = ":".join([*step, when, str(time_of_kill + 1)])
        home.start()
        wait_for(lambda: ended(home) or all_closed(home, keys), f"the kill {when} {step}", home.describe)
        if ended(home):
            assert home.process is not None
            codes.append(home.process.returncode)
        else:
            home.stop()
    assert 137 in codes, "the step was never reached"
    del home.fleet.env["CRASH"]
    home.start()
    home.wait_all(keys, "closed")
    check_lives(home, keys)


def test_repeated_kills_before_an_agent_started_block_no_task(home: Supervised) -> None:
    """No agent counts as vanished if none was started, however often the supervisor is killed."""
    key = home.create("ok")
    home.fleet.env["CRASH"] = "fleet.agents.headless:Starter:hand_over:before:1"
    for _ in range(6):
        home.spawn()
        wait_for(lambda: ended(home), "the kill", home.describe)
    del home.fleet.env["CRASH"]
    home.start()
    home.wait_status(key, "closed", "blocked")
    assert (home.task(key)["status"], len(home.notes("start"))) == ("closed", 1)


def check_lives(home: Supervised, keys: list[str]) -> None:
    """Check the agents' audit: one life per task unless its run was lost, and never two at once."""
    starts, ends = home.notes("start"), home.notes("end")
    runs_started = Counter(note[2] for note in starts)
    assert max(runs_started.values()) == 1, "an agent was started twice for one run"
    lives: dict[str, list[tuple[float, float]]] = {}
    finished = {note[2]: float(note[4]) for note in ends}
    for _, task, run, _, at in starts:
        lives.setdefault(task, []).append((float(at), finished.get(run, float("inf"))))
    for task, spans in lives.items():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans)), (task, spans)
    for key in keys:
        for attempt in home.runs(key):
            assert attempt["ending"] in ("finished", "lost", "released"), attempt
            lived = attempt["id"] in runs_started
            assert attempt["ending"] != "lost" or not lived, f"{attempt['id']} lived and was not adopted"
        assert home.runs(key)[-1]["ending"] == "finished"
        assert home.task(key)["failures"] == 0
    wait_for(lambda: home.agents() == [], "no process of an agent to be left")


def ended(home: Supervised) -> bool:
    return home.process is not None and home.process.poll() is not None


def all_closed(home: Supervised, keys: list[str]) -> bool:
    return all(home.task(key)["status"] == "closed" for key in keys)


def test_crash_hook_is_not_part_of_fleet() -> None:
    source = Path(__file__).parents[2] / "src"
    assert not any("CRASH" in path.read_text() for path in source.rglob("*.py"))
