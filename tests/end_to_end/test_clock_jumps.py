"""The clock is set while agents work: no agent is stopped, nothing runs twice, and work continues."""

import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from needs import require
from postgres import forget_dead_clocks
from supervised import Supervised, home, wait_for

__all__ = ["home"]


@pytest.fixture
def clock(home: Supervised) -> Iterator[Path]:
    """Yield a file with the offset of the supervisor's clock; its agents keep the true clock."""
    require(shutil.which("faketime"), "a clock that jumps (needs the program faketime)")
    forget_dead_clocks()
    told = subprocess.run(["faketime", "-f", "+0", "env"], capture_output=True, text=True, check=True).stdout
    file = home.fleet.user / "clock"
    file.write_text("+0")
    home.fleet.env |= {
        **dict(line.split("=", 1) for line in told.splitlines() if line.startswith("LD_PRELOAD=")),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    yield file
    home.stop()
    forget_dead_clocks()


def test_supervisor_uses_the_clock_that_was_set(home: Supervised, clock: Path) -> None:
    clock.write_text("-400d")
    then = datetime.now(UTC) - timedelta(days=400)
    assert f'"{then:%Y-%m-}' in home.fleet.ok("bd", "show", home.create("ok"), "--json")


@pytest.mark.parametrize("jump", ["+400d", "-1d"])
def test_clock_jump_stops_no_agent_and_repeats_no_run(home: Supervised, clock: Path, jump: str) -> None:
    home.set("watchdog.wall_seconds=60", "watchdog.silence_seconds=60", "watchdog.first_event_seconds=60")
    keys = [home.create("ok seconds=4"), home.create("ok seconds=4")]
    home.start()
    home.wait_started(2)
    clock.write_text(jump)
    late = home.create("ok")
    home.wait_all([*keys, late], "closed")
    for key in keys:
        assert [(run["ending"], run["number"]) for run in home.runs(key)] == [("finished", 1)]
    assert len(home.notes("start")) == 3


@pytest.mark.parametrize("jump", ["+1d", "-1d"])
def test_agents_are_adopted_when_the_clock_jumped_without_a_supervisor(
    home: Supervised, clock: Path, jump: str
) -> None:
    home.set("watchdog.wall_seconds=60", "watchdog.silence_seconds=60", "watchdog.first_event_seconds=60")
    key = home.create("ok seconds=6")
    home.start()
    home.wait_started(1)
    wait_for(lambda: home.runs(key)[0]["events"] > 0, "its first word", home.describe)
    home.kill()
    clock.write_text(jump)
    home.start()
    home.wait_status(key, "closed")
    assert [run["ending"] for run in home.runs(key)] == ["finished"]
    assert len(home.notes("start")) == 1
