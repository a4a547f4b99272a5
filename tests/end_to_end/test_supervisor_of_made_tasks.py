"""The supervisor that `create` starts: it runs only created tasks, and yields to any other supervisor."""

import json

from supervised import commands, environment, wait_for
from terminals import Terminals, home

__all__ = ["home"]


def supervisors(home: Terminals) -> list[int]:
    """Return the supervisors of a home, including starting ones."""
    mine = b"FLEET_HOME=" + bytes(home.fleet.home)
    return [pid for pid, words in commands() if b"foreground" in words and mine in environment(pid)]


def queued(home: Terminals, title: str) -> str:
    """Create a queued task that waits for `fleet run`."""
    return str(json.loads(home.fleet.ok("bd", "create", title, "--json"))["id"])


def test_create_starts_a_supervisor_and_says_so_and_the_next_one_finds_it(home: Terminals) -> None:
    assert not home.status()["running"]
    result = home.fleet("create", "one", "--prompt", "work")
    assert result.code == 0 and "supervisor started" in result.err
    first = home.status()
    assert first["running"] and first["only_made"] and str(first["pid"]) in result.err
    result = home.fleet("fanout", "2", "more", "--prompt", "work")
    assert result.code == 0 and "supervisor started" not in result.err
    assert home.status()["pid"] == first["pid"]
    assert home.sessions() == {"ai_one", "ai_more-A1", "ai_more-A2"}


def test_create_leaves_no_supervisor_when_it_fails(home: Terminals) -> None:
    for words in (("one", "--base", "nowhere"), ("one", "--agent", "nobody"), ("no..branch",)):
        result = home.fleet("create", *words, "--prompt", "work")
        assert result.code != 0 and "supervisor started" not in result.err
        wait_for(lambda: not supervisors(home), "the supervisor that was begun to end")
    assert not home.status()["running"] and not home.status()["stopped"]


def test_queued_tasks_start_only_once_a_person_starts_the_supervisor(home: Terminals) -> None:
    earlier = queued(home, "earlier")
    home.told("create", "one", "--headless", "--prompt", "work")
    later = queued(home, "later")
    home.told("create", "two", "--headless", "--prompt", "work")
    for branch in ("one", "two"):
        (row,) = home.rows_of_branch(branch)
        home.wait_status(row["id"], "closed")
    assert [home.task(key)["status"] for key in (earlier, later)] == ["open", "open"]
    assert home.runs(earlier) == home.runs(later) == []
    home.fleet.ok("run", "start")
    for key in (earlier, later):
        home.wait_status(key, "closed")
    assert not home.status()["only_made"]


def test_another_supervisor_takes_over_and_agents_continue(home: Terminals) -> None:
    task = home.told("create", "one", "--prompt", "work")["task"]
    home.wait_alive("one")
    first, agents = home.status()["pid"], home.agents()
    headless = home.told("create", "two", "--headless", "--prompt", "demo: steps=60 pause=0.1")["task"]
    home.fleet.ok("run", "start")
    second = home.status()
    assert second["pid"] != first and not second["only_made"]
    assert agents and set(agents) <= set(home.agents())
    assert home.told("prompt", "one", "still there?", "--wait", "20")["state"] == "delivered"
    home.wait_status(headless, "closed")
    assert (len(home.runs(task)), len(home.runs(headless))) == (1, 1)
    # It stays in charge: later `create` commands do not replace it.
    home.told("create", "three", "--prompt", "work")
    assert home.status()["pid"] == second["pid"]
    assert home.fleet("run", "start").code != 0


def test_foreground_supervisor_takes_over(home: Terminals) -> None:
    earlier = queued(home, "earlier")
    home.told("create", "one", "--prompt", "work")
    first = home.status()["pid"]
    home.start()
    home.wait_status(earlier, "closed")
    assert home.process is not None and home.status()["pid"] == home.process.pid != first
    assert home.sessions() == {"ai_one"}
    home.fleet.ok("run", "stop")
    assert home.process.wait(120) == 0
    assert home.sessions() == {"ai_one"}, "agents go on without a supervisor"
    # The next `create` starts a supervisor again.
    home.told("create", "two", "--prompt", "work")
    wait_for(lambda: home.sessions() == {"ai_one", "ai_two"}, "both", home.describe)
    assert home.status()["only_made"]
