"""`fleet demo`: the whole system at work with real agents, and nothing remains."""

import re
import signal
from pathlib import Path

from live_runs import in_background, next_line
from program import Program


def test_demo_succeeds_and_cleans_up(fleet: Program, tmp_path: Path) -> None:
    done = fleet("demo", TMPDIR=str(tmp_path))
    assert done.code == 0, done
    assert "12 of 12 tasks closed by 14 runs" in done.out
    assert "failed, then finished" in done.out and "answer: Blue" in done.out
    at_once = re.search(r"(\d+) agents at once", done.out)
    assert at_once and 2 <= int(at_once[1]) <= 4
    assert not list(tmp_path.glob("fleet-demo-*")) and not fleet.home.exists()


def test_demo_stops_its_supervisor_and_cleans_up_when_interrupted(fleet: Program, tmp_path: Path) -> None:
    with in_background(fleet, "demo", TMPDIR=str(tmp_path)) as running:
        assert "in_progress" in next_line(running.stdout)
        (folder,) = tmp_path.glob("fleet-demo-*")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
        assert running.returncode == 130 and not folder.exists()
