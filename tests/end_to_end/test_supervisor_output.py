"""Output of agents through the whole supervisor: however much and however broken, other agents are not affected.

Two talking agents run beside each test, and short tasks run meanwhile: none of their output may be missing.
"""

import json
from collections.abc import Iterator

import pytest

from supervised import Supervised, home, wait_for

__all__ = ["home"]

MIB = 1024 * 1024
#: Events of a session besides its texts: its start, a tool, the tool's answer, its end.
FRAME = 4
PATIENCE = 240.0


class Neighbours:
    """Two talking agents, and the checks of their output at the end."""

    SECONDS, RATE = 4, 25

    def __init__(self, home: Supervised) -> None:
        self.home = home
        home.set("max_concurrent=4")
        self.keys = [home.create(f"talk seconds={self.SECONDS} rate={self.RATE}") for _ in range(2)]

    def check(self) -> None:
        """Check that each agent had one life, and that all its output was read."""
        self.home.wait_all(self.keys, "closed", patience=PATIENCE)
        for key in self.keys:
            (run,) = self.home.runs(key)
            assert (run["ending"], run["events"]) == ("finished", self.SECONDS * self.RATE + FRAME)
        assert self.home.process is not None and self.home.process.poll() is None


@pytest.fixture
def neighbours(home: Supervised) -> Iterator[Neighbours]:
    made = Neighbours(home)
    home.start()
    home.wait_started(2)
    yield made
    made.check()


def test_line_of_100_mb_needs_little_memory_and_later_lines_are_read(home: Supervised, neighbours: Neighbours) -> None:
    """The supervisor grows by at most 50 MB, and records that the line was cut."""
    home.wait_status(home.create("ok"), "closed")
    before = home.memory_kb("VmRSS")
    key = home.create("long_line megabytes=100")
    home.wait_status(key, "closed", patience=PATIENCE)
    (run,) = home.runs(key)
    assert (run["ending"], run["events"], run["tool_calls"]) == ("finished", FRAME, 1)
    assert home.memory_kb("VmHWM") - before <= 50 * 1024
    assert [each["cut_lines"] for each in json.loads(home.fleet.ok("runs", key, "--json"))] == [1]


@pytest.mark.parametrize("megabytes", [200, pytest.param(1024, marks=pytest.mark.soak("load"))])
def test_flood_is_limited_to_its_cap_and_other_agents_are_served(
    home: Supervised, neighbours: Neighbours, megabytes: int
) -> None:
    """1 GB in 10 s: everything up to the cap and the last line are read, and new work starts at once.

    Reading the kept output takes eight seconds of CPU time: it must not happen in one go.
    """
    cap = 80 if megabytes == 200 else 512
    home.set(f"supervisor.max_output_mb={cap}")
    home.wait_status(home.create("ok"), "closed")
    before = home.memory_kb("VmRSS")
    key = home.create(f"flood megabytes={megabytes}")
    flood = home.fleet.home / "tasks" / key / "runs" / "1" / "stdout"
    wait_for(lambda: flood.exists() and flood.stat().st_size == cap * MIB, "the flood to reach its cap", home.describe)
    other = home.create("ok")
    home.wait_status(other, "closed", patience=PATIENCE)
    home.wait_status(key, "closed", patience=PATIENCE)
    (run,) = home.runs(key)
    assert (run["ending"], run["exit_status"], run["tool_calls"]) == ("finished", 0, 1)
    assert cap * 1024 <= run["events"] <= (cap + 2) * 1024
    assert flood.stat().st_size == cap * MIB
    assert home.memory_kb("VmHWM") - before <= 50 * 1024
    assert home.runs(other)[0]["ended_at"] < run["ended_at"]


@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.soak("load"))])
def test_every_one_of_very_many_tiny_lines_is_read(home: Supervised, neighbours: Neighbours, count: int) -> None:
    """A million tiny lines: no event is lost, and the readable copy is bounded."""
    key = home.create(f"lines count={count}")
    home.wait_status(key, "closed", patience=PATIENCE)
    (run,) = home.runs(key)
    assert (run["ending"], run["events"]) == ("finished", count + FRAME)
    copies = sorted((home.fleet.home / "tasks" / key).glob("events.jsonl*"))
    assert [copy.name for copy in copies] == ["events.jsonl", "events.jsonl.1"]
    assert max(copy.stat().st_size for copy in copies) <= 20_000_000


def test_noise_harms_no_agent_and_valid_lines_are_read(home: Supervised, neighbours: Neighbours) -> None:
    """NULs, broken UTF-8, control codes, half a JSON, a last line without an end, a flood of stderr."""
    home.set("max_concurrent=8")
    heard = {"nuls": 1, "utf8": 1, "ansi": 1, "half_json": 0, "garbage": 0, "stderr megabytes=80": 0}
    keys = {do: home.create(do) for do in heard}
    home.wait_all([*keys.values()], "closed", patience=PATIENCE)
    for do, key in keys.items():
        (run,) = home.runs(key)
        assert (do, run["ending"], run["events"], run["tool_calls"]) == (do, "finished", FRAME + heard[do], 1)
    complaint = (home.fleet.home / "tasks" / keys["stderr megabytes=80"] / "log.stderr").read_bytes()
    assert len(complaint) < 3 * MIB and complaint.endswith(b"the last complaint\n")
