"""Honest work with the real CLIs and default settings closes without a person, even after a short fault."""

import json
import os
import random
from pathlib import Path
from typing import NamedTuple

import pytest

from model_server import Fault, ModelServer, Turn
from real.through_fleet import PATIENCE, Real, RealFleet
from supervised import wait_for

pytestmark = pytest.mark.soak("clis")
READ, MAKE = Turn(text="I look.", shell="cat given"), Turn(text="I make it.", shell="cat given given > made")
DONE = Turn(text="All done.")
CLIS = ("claude", "codex", "gemini", "opencode")
#: Each fault occurs once in each of five tasks, after their first answer. The other ten tasks have no fault.
FAULTS = (None, None, Fault.OVERLOADED, Fault.CUT, Fault.RATE_LIMITED)
#: Settings of these tests that differ from the defaults.
DEFAULTS = ("limits.retry_limit=2", "supervisor.claim_seconds=60")
SEED = int(os.environ.get("FLEET_SEED") or random.randrange(10**6))


class Batch(NamedTuple):
    """Tasks of one home with the same fault."""

    home: RealFleet
    keys: list[str]


@pytest.mark.parametrize("cli", CLIS)
def test_two_honest_tasks_close(cli: str, real: Real, server: ModelServer) -> None:
    fault = dict(zip(CLIS, (Fault.OVERLOADED, Fault.RATE_LIMITED, Fault.CUT, Fault.CUT), strict=True))[cli]
    batch = honest(real, server, cli, 2, fault)
    finish(batch)
    assert not_closed(batch) == []
    assert [run["ending"] for key in batch.keys for run in batch.home.runs(key)].count("finished") == 2


@pytest.mark.soak
def test_ninety_eight_of_a_hundred_honest_tasks_close(real: Real, server: ModelServer) -> None:
    left: list[str] = []
    for cli in CLIS:
        for fault in FAULTS:
            batch = honest(real, server, cli, 5, fault)
            finish(batch)
            left += not_closed(batch)
            batch.home.stop()
            batch.home.clear()
    assert len(left) <= 2, "\n".join([f"FLEET_SEED={SEED}", *left])


def honest(real: Real, server: ModelServer, cli: str, count: int, fault: Fault | None) -> Batch:
    """Start a supervisor with this many tasks, each in its own directory. A task reads, makes a file and reports it."""
    turns = [READ, MAKE, DONE]
    if fault:
        spoilt = Turn(text="half of the answer", fault=fault, retry_after=1)
        turns.insert(random.Random(f"{SEED} {cli} {fault}").randint(1, 2), spoilt)
    home = real(cli, server.scenario(turns, name=f"{cli}-{fault or 'well'}", per_conversation=True))
    home.seed = SEED
    home.set(*DEFAULTS)
    with_its_own_retries(home)
    keys = []
    for number in range(count):
        place = home.fleet.cwd / f"{number}"
        place.mkdir()
        (place / "given").write_text(f"{number}\n")
        # Gemini begins each run with a list of the files. A new file would look like a new conversation.
        (place / "made").touch()
        keys.append(home.ask(f"make {number}", cwd=place))
    home.start()
    return Batch(home, keys)


def with_its_own_retries(home: RealFleet) -> None:
    """Restore the CLI's own retries, as fleet permits them. Other tests disable them."""
    if home.cli == "gemini":
        own = Path(home.fleet.env["GEMINI_CLI_HOME"]) / ".gemini" / "settings.json"
        wishes = json.loads(own.read_text())
        del wishes["general"]["maxAttempts"]
        own.write_text(json.dumps(wishes))
    if home.cli == "codex":
        own = Path(home.fleet.env["CODEX_HOME"]) / "config.toml"
        own.write_text("".join(line for line in own.read_text().splitlines(True) if "_max_retries" not in line))


def finish(batch: Batch) -> None:
    """Wait until every task is closed or blocked."""
    home = batch.home
    over = "select count(*) as n from tasks where status in ('closed', 'blocked')"
    wait_for(lambda: home.rows(over)[0]["n"] == len(batch.keys), "all to be over", home.describe, PATIENCE)


def not_closed(batch: Batch) -> list[str]:
    """Return descriptions of the tasks that need a person: not closed, or closed without their file."""
    found = []
    for number, key in enumerate(batch.keys):
        task, made = batch.home.task(key), batch.home.fleet.cwd / str(number) / "made"
        if task["status"] != "closed" or made.read_text() != f"{number}\n{number}\n":
            endings = [(run["ending"], run["reason"]) for run in batch.home.runs(key)]
            found.append(f"{batch.home.scenario.id} {key}: {task['status']}, {task['reason']}; {endings}")
    return found
