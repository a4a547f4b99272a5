"""A coder that is not installed: its tasks wait, unclaimed and uncounted, and go on once it is there."""

from pathlib import Path

from supervised import Supervised, home, wait_for

__all__ = ["home"]

# Says what the demo coder's stream says, with nothing behind it.
FOUND = """#!/bin/sh
echo '{"type": "tool_use", "id": "1", "tool": "sh", "input": {}}'
echo '{"type": "result", "ok": true, "text": "found"}'
"""
DESCRIBED = """
[coders.later]
argv = ["later-cli"]
program = "later-cli"
[coders.later.output]
format = "jsonl"
success = { type = "result", ok = true }
tool = { path = "tool", when = { type = "tool_use" } }
"""


def test_tasks_of_a_coder_that_is_not_installed_wait_and_go_on_when_it_is(home: Supervised, tmp_path: Path) -> None:
    with (home.fleet.home / "runtime.toml").open("a") as settings:
        settings.write(DESCRIBED)
    bin = tmp_path / "bin"
    bin.mkdir()
    home.fleet.env["PATH"] = f"{bin}:{home.fleet.env['PATH']}"
    key = home.create("nothing yet", "--coder", "later")
    home.start()
    wait_for(lambda: "not installed" in home.task(key)["reason"], "the reason", home.describe)
    other = home.create("ok")
    home.wait_status(other, "closed")
    task = home.task(key)
    assert (task["status"], task["failures"], task["claim_owner"]) == ("open", 0, "")
    assert home.runs(key) == []
    told = home.fleet("tasks").err
    assert "1 ready" in told and "no program 'later-cli' is on the PATH" in told
    (bin / "later-cli").write_text(FOUND)
    (bin / "later-cli").chmod(0o755)
    home.wait_status(key, "closed", patience=100)
    assert [run["ending"] for run in home.runs(key)] == ["finished"]
