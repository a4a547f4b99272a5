"""Prompts of agents, which other users of the machine must not find in any command line."""

from pathlib import Path

import pytest

from command_watch import watched
from stub_terminal import use_stub
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

SECRET = "the-plan-that-nobody-is-to-see"


@pytest.mark.parametrize("coder", ["demo", "claude"])
def test_prompts_and_messages_of_agents_in_terminals_are_in_no_command_line(coder: str, at_home: Terminals) -> None:
    home = at_home
    if coder == "claude":
        use_stub(home)
    given = home.fleet.user / "prompt"
    given.write_text(f"{SECRET}\non two lines")
    with watched(SECRET) as found:
        home.fleet.ok("create", "one", "-", stdin=f"{SECRET} " * 3)
        home.fleet.ok("fanout", "2", "more", "--prompt-file", str(given))
        for branch in ("one", "more-A1", "more-A2"):
            home.wait_listed(branch, "idle")
        told = home.told("prompt", "one", "-", "--wait", "30", stdin=f"also {SECRET}")
        assert told["state"] == "delivered"
        home.fleet.ok("done", "one")
        (row,) = home.rows_of_branch("one")
        home.wait_status(row["id"], "closed", "blocked")
        home.fleet.ok("kill", "more-*", "--force")
    assert found == []


def test_custom_protocol_that_quotes_the_task_is_in_no_command_line(at_home: Terminals) -> None:
    home, seen = at_home, at_home.fleet.user / "seen"
    codex = home.fleet.user / "codex"
    codex.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exit\necho "$@" > {seen}.part && mv {seen}.part {seen}\ncat\n'
    )
    codex.chmod(0o755)
    home.set("coder=codex", f"coders.codex.program={codex}")
    home.fleet.env["CODEX_API_KEY"] = "none"
    for template, told in (("Work on {task_id}.", "Work on "), ("Work on {task_description}.", "")):
        folder = home.fleet.home / "templates"
        folder.mkdir(exist_ok=True)
        (folder / "terminal.md").write_text(template)
        seen.unlink(missing_ok=True)
        branch = f"b{len(told)}"
        home.fleet.ok("create", branch, "-", stdin=SECRET)
        wait_for(seen.exists, "its start", home.describe)
        line = Path(seen).read_text()
        assert SECRET not in line and told in line
        prompt = home.rows("select text from messages m join tasks t on t.id = m.task where t.branch = ?", branch)[0]
        assert SECRET in prompt["text"]
        home.fleet.ok("kill", branch, "--force")
