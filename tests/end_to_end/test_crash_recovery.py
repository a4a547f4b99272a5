"""kill -9 of the supervisor, at random moments and at every step of a run: nothing lost, nothing twice, no orphans.

The audit is written by the agents themselves; nothing of fleet is imported to judge it.
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

AGENTS = 20
#: (module, class, method): a supervisor is killed just before and just after each, in the order of a run.
STEPS = [
    ("fleet.store.sqlite", "SqliteQueue", "claim"),
    ("fleet.store.sqlite_history", "SqliteHistory", "begin"),
    ("fleet.store.sqlite", "SqliteQueue", "admit"),
    ("fleet.engine.folder", "TaskFolder", "write_task_json"),
    ("fleet.launchers.headless", "HeadlessLauncher", "_spawn"),
    ("fleet.launchers.shim_client", "ShimAgent", "reach"),
    ("fleet.store.sqlite_history", "SqliteHistory", "fold_all"),
    ("fleet.store.sqlite_history", "SqliteHistory", "end"),
    ("fleet.store.sqlite", "SqliteQueue", "settle"),
]


@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.soak)])
def test_random_kills_lose_nothing_and_start_nothing_twice(home: Supervised, kills: int) -> None:
    seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(seed)
    home.seed = seed
    home.set(f"max_concurrent={AGENTS}", "supervisor.start_interval_seconds=0")
    keys = [home.create(f"ok seconds={chance.uniform(0, 3):.2f}") for _ in range(AGENTS + 2 * kills)]
    slowest = 0.0
    for _ in range(kills):
        began = time.monotonic()
        home.start()
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(chance.uniform(0, 0.8))
        home.kill()
    home.start()
    home.wait_all(keys, "closed", patience=120)
    check_lives(home, keys)
    assert slowest < 5


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[1]}.{step[2]}")
def test_a_kill_at_any_step_of_a_run_is_mended(home: Supervised, step: tuple[str, str, str], when: str) -> None:
    home.set("supervisor.start_interval_seconds=0")
    keys = [home.create("ok seconds=1.2") for _ in range(3)]
    codes: list[int] = []
    for time_of_kill in range(3):
        home.fleet.env["CRASH"] = ":".join([*step, when, str(time_of_kill + 1)])
        home.start()
        wait_for(lambda: ended(home) or all_closed(home, keys), f"the kill {when} {step}", home.describe, 30)
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


def check_lives(home: Supervised, keys: list[str]) -> None:
    """What the agents noted: one life per task, unless its run is known to have been lost; never two at once."""
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
    wait_for(lambda: home.agents() == [], "no process of an agent to be left", patience=5)


def ended(home: Supervised) -> bool:
    return home.process is not None and home.process.poll() is not None


def all_closed(home: Supervised, keys: list[str]) -> bool:
    return all(home.task(key)["status"] == "closed" for key in keys)


def test_the_crash_hook_is_not_part_of_fleet() -> None:
    source = Path(__file__).parents[2] / "src"
    assert not any("CRASH" in path.read_text() for path in source.rglob("*.py"))
