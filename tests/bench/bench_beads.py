"""Beads as the queue: how soon a supervisor fills its slots, and its cost while idle, with their bars."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
BUILT = subprocess.run([sys.executable, "-m", "tools.get_bd"], cwd=TESTS.parent, capture_output=True, text=True)
os.environ.setdefault("FLEET_TEST_BD", BUILT.stdout.strip())

import beads  # noqa: E402
from beads_home import BeadsHome  # noqa: E402
from program import Program  # noqa: E402
from supervised import wait_for  # noqa: E402

SLOTS, SEED_SECONDS, BAR_SECONDS = 20, 100.0, 10.0
QUIET_SECONDS, IDLE_SECONDS = 15.0, 20.0


def main() -> int:
    """Measure both families. Return 0 if every bar is met."""
    if not (Path(os.environ["FLEET_TEST_BD"]) / beads.NEW).is_dir():
        print(f"beads as the queue: not measured, there is no bd\n{BUILT.stderr}")
        return 1
    results = [row for version in (beads.NEW, beads.OLD) for row in filling(version)]
    for what, measured, bar, ok, detail in results:
        print(f"{what:<66} {measured:>12} {bar:>12}  {'pass' if ok else 'SHORT'}   {detail}")
    return 0 if all(ok for _, _, _, ok, _ in results) else 1


def filling(version: str) -> list[tuple[str, str, str, bool, str]]:
    """Measure the time from a supervisor's start to its last running agent, and the calls of bd while idle."""
    with tempfile.TemporaryDirectory() as folder:
        home = BeadsHome(Program(Path(folder)), version)
        calls = counted(home)
        home.set(f"max_concurrent={SLOTS}")
        go = home.fleet.user / "go"
        home.create_many([f"until file={go}"] * SLOTS)
        began = time.time()
        home.start()
        wait_for(lambda: len(home.notes("start")) == SLOTS, f"{SLOTS} agents", home.describe, 120)
        took = max(float(note[4]) for note in home.notes("start")) - began
        go.touch()
        wait_for(lambda: not home.agents(), "the agents to end", home.describe, 300)
        home.wait_all([row["id"] for row in home.rows("select id from tasks")], "closed", patience=300)
        time.sleep(QUIET_SECONDS)  # fleet checks its own last write once more
        before = len(calls.read_text().splitlines())
        time.sleep(IDLE_SECONDS)
        idle = len(calls.read_text().splitlines()) - before
        home.stop()
    return [
        (f"beads {version}: calls of bd in {IDLE_SECONDS:.0f} idle seconds", f"{idle}", "0", idle == 0, "the seed: 4"),
        (
            f"beads {version}: {SLOTS} free slots filled, from the start of the supervisor",
            f"{took:.1f} s",
            f"≤ {BAR_SECONDS:.0f} s",
            took <= BAR_SECONDS,
            f"the seed: {SEED_SECONDS:.0f} s, {SEED_SECONDS / took:.0f} times as long",
        ),
    ]


def counted(home: BeadsHome) -> Path:
    """Let each call of bd write a line. Return the file with the lines."""
    calls, wrapper = home.fleet.user / "calls", home.fleet.user / "counting-bd"
    calls.touch()
    wrapper.write_text(f'#!/bin/sh\necho "$1" >> {calls}\nexec {home.program} "$@"\n')
    wrapper.chmod(0o755)
    home.fleet.env["FLEET_BD"] = str(wrapper)
    return calls


if __name__ == "__main__":
    sys.exit(main())
