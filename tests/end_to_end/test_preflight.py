"""Checks before an agent starts: if the coder certainly has no login, nothing starts and no failure is counted."""

import json
from pathlib import Path

import pytest

from supervised import Supervised, home, wait_for

__all__ = ["home"]

TOOL = '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}'
DONE = '{"type":"result","subtype":"success","is_error":false,"result":"done"}'


@pytest.fixture
def claude(home: Supervised, tmp_path: Path) -> Path:
    """Return a folder in which a fake claude records that it was started."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho started >> {tmp_path}/started\necho '{TOOL}'\necho '{DONE}'\n")
    program.chmod(0o755)
    home.fleet.env["PATH"] = f"{program.parent}:{home.fleet.env['PATH']}"
    home.set("coder=claude")
    return tmp_path


def test_nothing_starts_when_the_coder_has_no_login(home: Supervised, claude: Path) -> None:
    key = home.create("whatever")
    home.start()
    wait_for(lambda: "claude is not logged in" in home.task(key)["reason"], "the reason", home.describe)
    assert not (claude / "started").exists()
    task = home.task(key)
    assert (task["status"], task["failures"]) == ("open", 0)
    assert [run["ending"] for run in home.runs(key)] == ["not_logged_in"]
    (account,) = json.loads(home.fleet.ok("accounts", "--json"))
    assert account["state"] == "parked" and "claude is not logged in" in account["reason"]
    (Path(home.fleet.env["HOME"]) / ".claude").mkdir()
    home.fleet.ok("accounts", "unpark", "claude")
    home.wait_status(key, "closed")
    assert (claude / "started").read_text() == "started\n"


def test_key_in_the_environment_counts_as_a_login(home: Supervised, claude: Path) -> None:
    home.set('agent.env={ANTHROPIC_API_KEY = "sk-of-the-test"}')
    home.start()
    home.wait_status(home.create("whatever"), "closed")
    assert (claude / "started").read_text() == "started\n"
