"""Fleet's own share of a run of the real claude: `python tests/bench/bench_real_claude.py [pairs]`.

The model is scripted and answers at once, so that next to nothing hides what fleet adds. Each pair is one task through
a supervisor that waits for work, from `bd create` returning to the task being closed, and one run of the same program
with the same arguments, environment and prompt by itself, one right after the other. On a busy machine pairs differ
widely; how long fleet was at work before claude began and after it ended, in those same runs, differs little.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
if "FLEET_TEST_CLIS" not in os.environ:
    found = subprocess.run(
        [sys.executable, "-m", "tools.get_clis"], cwd=TESTS.parent, stdout=subprocess.PIPE, text=True
    )
    os.environ["FLEET_TEST_CLIS"] = found.stdout.strip() or sys.exit(found.returncode)

from builders import a_task  # noqa: E402
from fleet.coders import load  # noqa: E402
from fleet.coders.base import Order  # noqa: E402
from model_server import ModelServer, Scenario, Turn  # noqa: E402
from model_server.network import ClosedNetwork  # noqa: E402
from real.through_fleet import RealFleet  # noqa: E402
from supervised import wait_for  # noqa: E402

PAIRS, LEAST_PAIRS = 25, 10
BAR = 0.10
TOOLS = 6
PATIENCE = 120.0


class Through(NamedTuple):
    """Seconds of one task through fleet."""

    taken: float
    around: float  # of these, before claude began and after it ended


class Bare(NamedTuple):
    """Claude as fleet starts it, to be started by hand."""

    argv: list[str]
    env: dict[str, str]
    stdin: bytes
    cwd: Path


def main() -> int:
    """Measure, print the figure beside its bar; the exit code says whether it is met."""
    pairs = max(LEAST_PAIRS, int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
    with tempfile.TemporaryDirectory() as folder, ClosedNetwork() as network, ModelServer(network.listener) as server:
        turns = [Turn(text="On I go.", shell=f"echo {number}") for number in range(TOOLS)]
        scenario = server.scenario([*turns, Turn(text="All done.")], name="bench", per_conversation=True)
        home = RealFleet(Path(folder), network, "claude", scenario)
        home.start()
        try:
            bare = as_started(home, scenario, network)
            times = [pair(home, bare, number) for number in range(pairs)]
        finally:
            home.stop()
    return told(times)


def as_started(home: RealFleet, scenario: Scenario, network: ClosedNetwork) -> Bare:
    """What fleet starts for a task; it runs once for that, which also warms everything up."""
    key = home.ask()
    wait_for(home.clis, "claude to start", home.describe, PATIENCE)
    words = Path(f"/proc/{home.clis()[0]}/environ").read_text().split("\0")
    home.wait_status(key, "closed", patience=PATIENCE)
    env = dict(word.split("=", 1) for word in words if "=" in word)
    lines = (home.fleet.home / "tasks" / key / "log.jsonl").read_text().splitlines()
    argv = next(json.loads(line)["argv"] for line in lines if "subprocess_started" in line)
    (prompt,) = (said for said in scenario.turns()[0].said if key in said)
    stdin = load("claude").command(Order(task=a_task(), prompt=prompt)).stdin
    # Without its mark, for this one is not fleet's.
    del env["FLEET_RUN_ID"], env["FLEET_RUN_TOKEN"]
    return Bare(network.enter(*argv), env, stdin.encode(), home.fleet.cwd)


def pair(home: RealFleet, bare: Bare, number: int) -> tuple[float, Through]:
    """Seconds by itself, and through fleet; each comes first every other time."""
    if number % 2:
        through = through_fleet(home)
        return by_itself(bare), through
    alone = by_itself(bare)
    return alone, through_fleet(home)


def by_itself(bare: Bare) -> float:
    """One run, from its start to its end."""
    began = time.monotonic()
    # In a session of its own, as fleet's agents are: Linux shares the processor out by sessions.
    done = subprocess.run(
        bare.argv, input=bare.stdin, env=bare.env, cwd=bare.cwd, capture_output=True, start_new_session=True
    )
    taken = time.monotonic() - began
    last = json.loads(done.stdout.splitlines()[-1])
    if done.returncode or last.get("is_error") is not False or last.get("num_turns") != TOOLS + 1:
        raise SystemExit(f"claude by itself did not end well: {last} {done.stderr!r}")
    return taken


def through_fleet(home: RealFleet) -> Through:
    """One task, from being asked for to being closed."""
    with closing(sqlite3.connect(f"file:{home.fleet.home}/fleet.db?mode=ro", uri=True, timeout=30)) as database:
        key = home.ask()
        began = time.monotonic()
        while database.execute("select status from tasks where id = ?", (key,)).fetchone()[0] != "closed":
            if time.monotonic() - began > PATIENCE:
                raise SystemExit(f"{key} is not closed after {PATIENCE:g} s: {home.describe()}")
            time.sleep(0.005)
        taken = time.monotonic() - began
    (run,) = home.runs(key)
    if (run["ending"], run["tool_calls"]) != ("finished", TOOLS):
        raise SystemExit(f"claude through fleet did not end well: {run}")
    end = json.loads((home.fleet.home / "tasks" / key / "runs" / "1" / "exit.json").read_text())
    lived = datetime.fromisoformat(end["ended_at"]) - datetime.fromisoformat(end["started_at"])
    return Through(taken, taken - lived.total_seconds())


def told(times: list[tuple[float, Through]]) -> int:
    """One line; the exit code."""
    shares = [through.taken / alone - 1 for alone, through in times]
    low, _, high = quantiles(shares, n=4)
    share, alone = median(shares), median(one for one, _ in times)
    around = median(through.around for _, through in times)
    print(
        f"a real claude run with {TOOLS} tool calls, {alone:.2f} s by itself: fleet adds {share:.1%} "
        f"({share * alone * 1000:.0f} ms; half of the pairs {low:.1%} to {high:.1%}, n={len(times)}; "
        f"before and after claude's own life {around * 1000:.0f} ms, {around / alone:.1%})   "
        f"bar {BAR:.0%}: {'pass' if share <= BAR else 'short'}"
    )
    return 0 if share <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
