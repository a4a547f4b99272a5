"""The overhead of fleet in a run of the real claude: `python tests/bench/bench_real_claude.py [pairs]`.

The model is scripted and answers at once, so that little hides the overhead. Each pair is one task through an idle
supervisor and one run of the same program alone. The two runs follow each other directly. The time through fleet is
from the return of `bd create` to the closed task. The bare program has the same arguments, environment and prompt. On a
busy machine pairs differ widely. The time that fleet works before claude begins and after it ends differs little.
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
    """The seconds of one task through fleet."""

    taken: float
    around: float  # of these, before claude began and after it ended


class Bare(NamedTuple):
    """The command of claude as fleet starts it, to be started without fleet."""

    argv: list[str]
    env: dict[str, str]
    stdin: bytes
    cwd: Path


def main() -> int:
    """Measure and print the result with its bar. Return 0 if the bar is met."""
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
    """Return the command that fleet starts for a task. fleet runs it once, which also warms everything up."""
    key = home.ask()
    wait_for(home.clis, "claude to start", home.describe, PATIENCE)
    words = Path(f"/proc/{home.clis()[0]}/environ").read_text().split("\0")
    home.wait_status(key, "closed", patience=PATIENCE)
    env = dict(word.split("=", 1) for word in words if "=" in word)
    lines = (home.fleet.home / "tasks" / key / "log.jsonl").read_text().splitlines()
    argv = next(json.loads(line)["argv"] for line in lines if "subprocess_started" in line)
    (prompt,) = (said for said in scenario.turns()[0].said if key in said)
    stdin = load("claude").command(Order(task=a_task(), prompt=prompt)).stdin
    # Remove the marks of a run, because fleet does not run this claude.
    del env["FLEET_RUN_ID"], env["FLEET_RUN_TOKEN"]
    return Bare(network.enter(*argv), env, stdin.encode(), home.fleet.cwd)


def pair(home: RealFleet, bare: Bare, number: int) -> tuple[float, Through]:
    """Return the seconds without fleet and through fleet. The order alternates."""
    if number % 2:
        through = through_fleet(home)
        return by_itself(bare), through
    alone = by_itself(bare)
    return alone, through_fleet(home)


def by_itself(bare: Bare) -> float:
    """Return the seconds of one run without fleet, from its start to its end."""
    began = time.monotonic()
    # In a separate session, as fleet's agents are: Linux divides the processor by sessions.
    done = subprocess.run(
        bare.argv, input=bare.stdin, env=bare.env, cwd=bare.cwd, capture_output=True, start_new_session=True
    )
    taken = time.monotonic() - began
    last = json.loads(done.stdout.splitlines()[-1])
    if done.returncode or last.get("is_error") is not False or last.get("num_turns") != TOOLS + 1:
        raise SystemExit(f"claude by itself did not end well: {last} {done.stderr!r}")
    return taken


def through_fleet(home: RealFleet) -> Through:
    """Return the seconds of one task through fleet, from its creation to its closing."""
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
    """Print one line. Return the exit code."""
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
