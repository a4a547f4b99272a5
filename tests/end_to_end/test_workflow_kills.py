"""Workflows under stress: servers and supervisors killed during the run, and stages that end at once.

The agents write the audit themselves; no code of fleet judges it.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from repositories import make_repository
from supervised import CODER, Supervised, home, wait_for

__all__ = ["home"]

KILLS, CHAINS = 5, 20
#: The stages that each of ten stages depends on.
TEN = {0: (), 1: (0,), 2: (0,), 3: (1,), 4: (1, 2), 5: (2,), 6: (3, 4), 7: (5,), 8: (6, 7), 9: (8,)}
TWO_CHAINS = {0: (), 1: (), 2: (0,), 3: (1,)}


@pytest.fixture
def flows(home: Supervised) -> Supervised:
    """Return a home with a repository, whose agents follow their prompts."""
    home.fleet.cwd = make_repository(home.fleet.cwd / "repo")
    home.fleet.env |= {"FLEET_DEFAULT_EXECUTOR": CODER, "BEADS_ACTOR": "tester"}
    home.set("supervisor.start_interval_seconds=0", "max_concurrent=4", "supervisor.claim_seconds=3600")
    return home


class Server:
    """`fleet mcp` and its supervisor, used without a client library so that both can be killed at any moment."""

    def __init__(self, home: Supervised, after: int = 0) -> None:
        """Start the server. Its supervisor must be another one than that with the pid `after`."""
        pipe, self._log = subprocess.PIPE, (home.fleet.user / "mcp.err").open("ab")
        self.process = subprocess.Popen(
            [*home.fleet.argv, "mcp"], stdin=pipe, stdout=pipe, stderr=self._log, env=home.fleet.env, cwd=home.fleet.cwd
        )
        client = {"name": "fleet-tests", "version": "1"}
        self._send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}, 0)
        self.answer(0)
        self._send("notifications/initialized", {})
        lock = home.fleet.home / "supervisor.lock"
        wait_for(lambda: lock.exists() and _pid_in(lock.read_text()) not in (0, after), "a supervisor", home.describe)
        self.supervisor = _pid_in(lock.read_text())

    def ask(self, number: int, tool: str, given: dict[str, Any]) -> None:
        """Call a tool without waiting."""
        self._send("tools/call", {"name": tool, "arguments": given}, number)

    def answer(self, number: int) -> dict[str, Any]:
        """Return the answer to the call with this number."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told.get("id") == number:
                assert not told["result"].get("isError"), told
                return told
        raise AssertionError("the server ended without an answer")

    def close(self) -> None:
        """Kill the server if it lives, and close its pipes."""
        self.process.kill()
        self.process.communicate()
        self._log.close()

    def _send(self, method: str, params: dict[str, Any], number: int | None = None) -> None:
        assert self.process.stdin is not None
        of = {} if number is None else {"id": number}
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **of}).encode())
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


def _pid_in(lock: str) -> int:
    return int(json.loads(lock)["pid"]) if lock else 0


def stages_of(graph: dict[int, tuple[int, ...]], do: str) -> list[dict[str, Any]]:
    """Return the stages of a graph, whose agents all have this order."""
    return [
        {"name": f"s{number}", "prompt_template": f"do: {do}", "depends_on": list(needs), "no_changes": True}
        for number, needs in graph.items()
    ]


def begun(home: Supervised, graph: dict[int, tuple[int, ...]], do: str) -> list[str]:
    """Start a workflow of this graph. Return its tasks."""
    file = home.fleet.user / "flow.json"
    file.write_text(json.dumps({"name": "graph", "stages": stages_of(graph, do)}))
    made: dict[str, Any] = json.loads(home.fleet.ok("workflow", "run", str(file), "--json"))
    return [str(stage["task"]) for stage in made["stages"]]


def check_order(home: Supervised, keys: list[str], graph: dict[int, tuple[int, ...]]) -> None:
    """Check that each stage had one agent, which started after everything that it depends on."""
    starts = {note[1]: float(note[4]) for note in home.notes("start")}
    for number, needs in graph.items():
        for need in needs:
            (ended,) = [row["ended_at"] for row in home.runs(keys[need]) if row["ending"] == "finished"]
            assert starts[keys[number]] >= ended / 1e6, (number, need)


@pytest.mark.parametrize(("kills", "graphs"), [(KILLS, 1), pytest.param(50, 50, marks=pytest.mark.soak("kills"))])
def test_each_stage_is_accepted_once_when_server_and_supervisor_are_killed(
    flows: Supervised, kills: int, graphs: int
) -> None:
    home = flows
    home.seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(home.seed)
    stages = stages_of(TEN, "ok seconds=0.3")
    order = {"name": "ten", "repo_path": str(home.fleet.cwd), "task_prompt": "x", "stages": stages}
    server = Server(home)
    server.ask(1, "create_workflow", order)
    server.answer(1)
    for done in range(kills):
        time.sleep(chance.uniform(0.05, 0.5))
        both = [server.process.pid, server.supervisor]
        chance.shuffle(both)
        for pid in both:
            os.kill(pid, signal.SIGKILL)
        server.close()
        server = Server(home, after=server.supervisor)
        if done + 1 < graphs:  # the test does not wait for the answer: the next kill may come first
            server.ask(1, "create_workflow", order)
    try:
        check_all(home, patience=120 + 5 * graphs)
    finally:
        server.close()
        home.fleet("run", "stop", "--stop-agents")


def check_all(home: Supervised, patience: float) -> None:
    """Check that every workflow is complete, and that each stage was accepted once and in order."""
    made = home.rows("select workflow, id from tasks where workflow <> '' order by created_at, id")
    flows: dict[str, list[str]] = {}
    for row in made:
        flows.setdefault(row["workflow"], []).append(row["id"])
    assert flows and all(len(keys) == len(TEN) for keys in flows.values()), flows
    every = [key for keys in flows.values() for key in keys]
    home.wait_all(every, "closed", patience=patience)
    for workflow in flows:
        rows = home.rows("select name, task from stages where workflow = ?", workflow)
        by_name = {row["name"]: row["task"] for row in rows}
        check_order(home, [by_name[f"s{number}"] for number in TEN], TEN)
    started = Counter(note[1] for note in home.notes("start"))
    assert {key: started[key] for key in every} == dict.fromkeys(every, 1), home.describe()
    accepted = Counter(row["task"] for row in home.rows("select task from runs where ending = 'finished'"))
    assert accepted == Counter(every)
    assert len(home.rows("select task from results")) == len(every)


@pytest.mark.parametrize("count", [CHAINS, pytest.param(10 * CHAINS, marks=pytest.mark.soak("load"))])
def test_two_chains_of_instant_stages_always_finish(flows: Supervised, count: int) -> None:
    home = flows
    home.set("max_concurrent=8")
    home.start()
    graphs = [begun(home, TWO_CHAINS, "ok") for _ in range(count)]
    for keys in graphs:
        home.wait_all(keys, "closed", patience=120)
        check_order(home, keys, TWO_CHAINS)


def test_stages_use_their_own_slots_up_to_their_makers_limit(flows: Supervised) -> None:
    home = flows
    home.set("max_concurrent=1")
    home.start()
    other = home.create("ok seconds=20")
    home.wait_started(1)
    home.fleet.env["FLEET_MAX_CONCURRENT"] = "2"
    keys = begun(home, dict.fromkeys(range(6), ()), "ok seconds=0.4")
    home.wait_all(keys, "closed")
    lives = [(float(note[4]), 1 if note[0] == "start" else -1) for note in home.notes() if note[1] in keys]
    at_once = [sum(step for _, step in sorted(lives)[:number]) for number in range(len(lives) + 1)]
    assert max(at_once) == 2
    assert home.task(other)["status"] == "in_progress"
