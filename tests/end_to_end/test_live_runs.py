"""An agent that marks its task blocked and works on: no command and no tool reports its run as ended."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import Tools, serving, stop, workshop
from program import Program
from supervised import CODER, wait_for


class Shop(NamedTuple):
    """A server, and a worker and a workflow stage whose agents have marked their tasks blocked."""

    fleet: Program
    tools: Tools
    go: Path  # ends the agents
    worker: str
    flow: str

    @property
    def stage(self) -> str:
        return str(self.tools.ok("get_workflow_status", workflow_id=self.flow)["stage_summary"][0]["worker_id"])

    def bd(self, key: str) -> dict[str, Any]:
        (found,) = json.loads(self.fleet.ok("bd", "show", key, "--json"))
        return dict(found)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path, coder=CODER)
    tests = Path(__file__).parents[1]
    fleet.env |= {"PYTHONPATH": f"{tests}:{tests / 'workers'}"}
    audit, go = fleet.user / "audit", fleet.user / "go"
    audit.touch()
    fleet.ok("config", "set", f'agent.env={{AUDIT = "{audit}"}}')
    prompt = f"do: ask_bd until={go}"
    with serving(fleet) as tools:
        where = {"repo_path": str(repo)}
        worker = tools.ok("create_worker", **where, task_name="ask", prompt=prompt)["worker_id"]
        stages = [{"name": "ask", "executor": CODER, "prompt_template": prompt}]
        flow = tools.ok("create_workflow", **where, name="ask", task_prompt="ask", stages=stages)["workflow_id"]
        made = Shop(fleet, tools, go, str(worker), str(flow))
        keys = (made.worker, made.stage)
        wait_for(lambda: {made.bd(key)["status"] for key in keys} == {"blocked"}, "the agents to mark their tasks")
        yield made
    go.touch()
    stop(fleet)


def test_live_run_is_running_for_every_tool_when_its_task_is_marked_blocked(shop: Shop) -> None:
    tools, key = shop.tools, shop.worker
    for name in ("get_worker_status", "collect_worker_result"):
        found = tools.ok(name, worker_id=key)
        assert (found["status"], found["ended_at"], found["error_message"]) == ("running", None, None)
    listed = {
        status: {each["worker_id"] for each in tools.ok("list_workers", statuses=[status])["workers"]}
        for status in ("running", "failed", "pending")
    }
    assert listed == {"running": {key}, "failed": set(), "pending": set()}
    task = tools.ok("show_task", task_id=key)
    assert (task["status"], task["marked"]) == ("in_progress", "blocked")
    flow = tools.ok("get_workflow_status", workflow_id=shop.flow)
    assert (flow["status"], flow["stage_summary"][0]["status"], flow["completed_at"]) == ("running", "running", None)
    for what in ({"ids": [key]}, {"ids": [shop.flow]}, {}):
        assert tools.ok("wait", **what, until="any", timeout_seconds=0.5)["timed_out"] is True
    assert "cannot clean up" in tools.refused("cleanup_worker", worker_id=key)


def test_live_run_is_running_for_every_command_when_its_task_is_marked_blocked(shop: Shop) -> None:
    fleet, key = shop.fleet, shop.worker
    assert "in_progress (marked blocked; its agent is still working)" in fleet.ok("show", key)
    assert json.loads(fleet.ok("show", key, "--json"))[0]["running"] is True
    assert "Agent: at work" in fleet.ok("bd", "show", key)
    agents = {row["task"]: row["status"] for row in json.loads(fleet.ok("list", "--all-projects", "--json"))}
    assert agents[key] not in ("failed", "stopped", "finished", "waiting for you")
    rows = {row["id"]: row for row in json.loads(fleet.ok("tasks", "--json"))}
    assert (rows[key]["status"], rows[key]["marked"]) == ("in_progress", "blocked")
    assert "2 running" in fleet("tasks").err and "0 blocked" in fleet("tasks").err
    assert fleet("wait", key, "--timeout", "0.5").code == 124
    assert json.loads(fleet.ok("workflow", "show", shop.flow, "--json"))["status"] == "running"


def test_worker_can_be_canceled_when_its_task_is_marked_blocked(shop: Shop) -> None:
    shop.tools.ok("cancel_worker", worker_id=shop.worker)
    (over,) = shop.tools.wait_over(shop.worker)
    assert over["status"] == "cancelled"


def test_wait_returns_once_the_agent_has_ended(shop: Shop) -> None:
    shop.go.touch()
    (over,) = shop.tools.wait_over(shop.worker)
    assert (over["status"], over["question"]["text"]) == ("pending", "which size?")
