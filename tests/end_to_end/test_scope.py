"""Agents that leave their scope: detected while they work, recorded, and reported at the end."""

import json
from pathlib import Path
from typing import Any

import pytest

from projects import orders
from supervised import Supervised, wait_for
from supervised import home as supervised_home
from terminals import Terminals
from terminals import home as terminals_home

__all__ = ["supervised_home", "terminals_home"]

CODER = "workers.telling:TellingCoder"


@pytest.fixture
def home(terminals_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run shell lines and report them."""
    tests = Path(__file__).parents[1]
    terminals_home.fleet.env["PYTHONPATH"] = f"{tests}:{tests / 'workers'}"
    terminals_home.set(f"coder={CODER}")
    return terminals_home


def made(home: Terminals, *steps: str) -> str:
    """Create a headless agent on branch `work` that runs these steps. Return its task."""
    home.told("create", "work", "--headless", "--prompt", orders(*steps))
    (task,) = home.rows_of_branch("work")
    return str(task["id"])


def strayed(home: Supervised, task: str) -> list[str]:
    """Return the scope violations recorded in the last run."""
    runs = home.runs(task)
    notes: dict[str, Any] = json.loads(runs[-1]["folded"]) if runs else {}
    return list(notes.get("strayed", []))


def test_agent_that_deletes_in_the_main_checkout_is_reported_and_its_task_blocked(home: Terminals) -> None:
    victim = home.repo / "file2.txt"
    task = made(home, "echo new > new.txt", f"rm -f {victim}", f"echo x > {home.fleet.user}/notes.txt")
    row = home.wait_status(task, "blocked", "closed")
    said = f"`rm -f {victim}` deletes {victim} in the main checkout"
    assert strayed(home, task) == [said]
    assert row["status"] == "blocked"
    assert home.runs(task)[-1]["finding"] == "out_of_scope"
    assert said in row["reason"]
    flags = json.loads(home.runs(task)[-1]["flags"])
    assert any("notes.txt in the user's home" in flag for flag in flags), flags
    assert "the main checkout changed during the run: file2.txt" in flags


def test_agent_out_of_scope_is_stopped_when_the_settings_say_so(home: Terminals) -> None:
    home.set("scope.live=stop")
    task = made(home, f"touch {home.repo}/stray", "sleep 300")
    row = home.wait_status(task, "blocked")
    said = f"`touch {home.repo}/stray` writes to {home.repo}/stray in the main checkout"
    assert strayed(home, task) == [said]
    assert said in row["reason"]
    assert home.runs(task)[-1]["ending"] == "blocked"
    assert home.agents() == []


def test_honest_work_reports_no_scope_violation(home: Terminals) -> None:
    lines = ["mkdir -p src && cd src && echo a > a && rm ../file1.txt", "git add -A", "echo x > /dev/null"]
    task = made(home, *lines, 'echo \'{"status": "completed"}\' > "$FLEET_ARTIFACT_DIR/result.json"')
    home.wait_status(task, "closed")
    run = home.runs(task)[-1]
    assert strayed(home, task) == []
    assert json.loads(run["flags"]) == []


def test_scope_violation_before_a_restart_stays_on_record(supervised_home: Supervised) -> None:
    home = supervised_home
    home.set(f"coder={CODER}")
    keep, go = home.fleet.user / "keep.txt", home.fleet.user / "go"
    keep.write_text("x")
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    made = json.loads(
        home.fleet.ok("bd", "create", "strays", "-d", orders(f"rm {keep}", wait, "echo done > a"), "--json")
    )
    task = str(made["id"])
    home.start()
    wait_for(lambda: bool(strayed(home, task)), "what it did to be on record", home.describe)
    home.kill()
    home.start()
    go.touch()
    home.wait_status(task, "blocked", "closed")
    assert strayed(home, task) == [f"`rm {keep}` deletes {keep} in the user's home"]
    assert home.runs(task)[-1]["finding"] == "out_of_scope"
    assert len(home.runs(task)) == 1
