"""`fleet status` with a real supervisor and agents: it reports their state, also when all of them are gone."""

import os
import signal
from contextlib import suppress

from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]


def needs(home: Terminals) -> dict[str, str]:
    """Return the kinds of the items that need a person, by name."""
    return {each["name"]: each["kind"] for each in home.told("status")["needs_you"]}


def start(home: Terminals, branch: str, *demo: str, headless: bool = True, verify: str = "") -> None:
    """Start a demo agent with these orders on a branch."""
    words = ["--prompt", "\n".join(["work", *(f"demo: {each}" for each in demo)])]
    words += ["--headless"] if headless else []
    home.fleet.ok("create", branch, *words, *(["--verify", verify] if verify else []))


def test_status_shows_what_agents_need_and_their_results(home: Terminals) -> None:
    start(home, "allows", "question", headless=False)
    start(home, "proves", verify="test -e demo-*.md")
    start(home, "breaks", verify="false")
    start(home, "asks", 'ask="red or blue?"')
    start(home, "stopped", "silent=60")
    start(home, "works", "silent=60")
    home.fleet.ok("kill", "stopped")
    expected = {"allows": "dialog", "asks": "question", "breaks": "failed", "proves": "merge"}
    wait_for(lambda: needs(home) == expected, "what needs a person", lambda: f"{needs(home)}\n{home.describe()}")
    found = home.told("status")
    assert [row["branch"] for row in found["working"]] == ["works"]
    results = {row["branch"]: row["result"] for row in found["done"]}
    assert results == {"proves": "verified", "stopped": "stopped by you"}

    home.fleet.ok("answer", home.rows_of_branch("asks")[0]["id"], "red")
    home.tmux("send-keys", "-t", "=ai_allows:", "y")
    home.fleet.ok("merge", "proves")
    expected = {"breaks": "failed"}
    wait_for(lambda: needs(home) == expected, "the rest", lambda: f"{needs(home)}\n{home.describe()}")
    wait_for(lambda: len(home.told("status")["done"]) == 3, "the answered agent", home.describe)
    results = {row["branch"]: row["result"] for row in home.told("status")["done"]}
    assert results == {"asks": "unverified", "proves": "merged", "stopped": "stopped by you"}


def test_status_reports_that_supervisor_and_agents_are_gone(home: Terminals) -> None:
    start(home, "works", "silent=60")
    start(home, "asks", 'ask="red or blue?"')
    wait_for(lambda: needs(home) == {"asks": "question"}, "the question", home.describe)
    wait_for(lambda: home.listed()["works"]["status"] == "working", "the other at work", home.describe)
    while pids := [pid for pid, _ in home._processes()]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    expected = {"supervisor": "supervisor", "asks": "question"}
    wait_for(lambda: needs(home) == expected, "the end of all", lambda: f"{needs(home)}\n{home.describe()}")
    found = home.told("status")
    assert "1 agent gone (works)" in found["needs_you"][0]["what"]
    assert found["working"] == [] and found["totals"]["running"] == 0
    home.fleet.ok("run", "start")
    wait_for(lambda: needs(home) == {"asks": "question"}, "work to resume", lambda: f"{needs(home)}\n{home.describe()}")
