"""Agents in the same directory: reported, and run one after the other if the project asks for that."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from program import Program
from supervised import Supervised, wait_for


@pytest.fixture
def home(fleet: Program) -> Iterator[Supervised]:
    made = Supervised(fleet)
    yield made
    made.stop()


def test_exclusive_project_has_one_agent_at_a_time(home: Supervised) -> None:
    project = home.fleet.user / "project"
    (project / ".fleet").mkdir(parents=True)
    (project / ".fleet" / "config.toml").write_text("[project]\nexclusive = true\n")
    keys = [home.create("ok seconds=1", "--cwd", str(project)) for _ in range(3)]
    beside = home.create("ok seconds=1", "--cwd", str(home.fleet.user))
    home.start()
    home.wait_all([*keys, beside], "closed")
    runs = sorted((run["started_at"], run["ended_at"]) for key in keys for run in home.runs(key))
    assert len(runs) == 3
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(runs)), runs
    assert all(home.task(key)["failures"] == 0 for key in keys)


def test_agents_that_share_a_directory_are_reported(home: Supervised) -> None:
    keys = [home.create("ok seconds=2", "--cwd", str(home.fleet.user)) for _ in range(2)]
    home.start()
    home.wait_all(keys, "closed")
    told = [line["event"] for line in home.log_lines() if "beside another agent" in line["event"]]
    wait_for(lambda: len(told) == 1 and any(key in told[0] for key in keys), f"one warning in {told}", home.describe)
