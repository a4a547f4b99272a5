"""An agent's own connection to the MCP server: the run's token decides what it may do, not its claims."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from builders import a_task
from fleet.actions.workers import workers
from fleet.assembly import open_fleet
from fleet.core.jsontext import encode
from fleet.core.run import Ending, Run
from fleet.core.task import Caller, Claim, Status, Verdict
from fleet.mcp.server import TOOLS
from live_runs import Records
from mcp_client import Tools, serving, workshop
from repositories import make_repository

OWN, OTHER = "fleet-own", "fleet-other"


class Agent(NamedTuple):
    """A live run with its token, and a server started with that token."""

    records: Records
    repo: Path
    token: str
    tools: Tools

    def order(self, **given: object) -> dict[str, object]:
        return {"repo_path": str(self.repo), "task_name": "part", "prompt": "do a part"} | given


def admit(records: Records, task_id: str, *, depth: int = 0, **fields: str) -> tuple[str, Claim, Run]:
    """Begin a run of a new task. Return its token, claim and run."""
    records.store.tasks.add(a_task(id=task_id, **fields))
    claim, run = records.begin(task_id)
    caller = Caller(task_id=task_id, run_id=run.id, epoch=claim.epoch, depth=depth)
    return records.store.tokens.issue(claim, caller), claim, run


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    base = tmp_path_factory.mktemp("callers")
    fleet, repo = workshop(base)
    records = Records(fleet)
    rules, limits = {"depth": 1, "repos": [str(repo)]}, {"max_cost_usd": 2.5, "max_tokens": 900}
    token, *_ = admit(records, OWN, rules=encode(rules), limits=encode(limits))
    records.store.tasks.add(a_task(id=OTHER))
    with serving(fleet, FLEET_RUN_TOKEN=token, FLEET_MAX_SPAWN_DEPTH="9", FLEET_ALLOWED_REPOS="") as tools:
        yield Agent(records, repo, token, tools)
    records.store.close()


def test_tasks_created_by_an_agent_belong_to_it_and_inherit_its_bounds(agent: Agent) -> None:
    key = agent.tools.ok("create_worker", **agent.order(parent_worker_id="w_of_another"))["worker_id"]
    task = agent.records.store.tasks.get(key)
    assert (task.made_by, task.origin) == (OWN, "mcp")
    assert json.loads(task.limits) == {
        "wall_seconds": 600.0,
        "silence_seconds": 120.0,
        "max_cost_usd": 2.5,
        "max_tokens": 900,
    }
    rules = json.loads(task.rules)
    assert (rules["depth"], rules["repos"]) == (1, [str(agent.repo)]), "not what the server's environment says"
    assert agent.tools.ok("cancel_worker", worker_id=key)["status"] == "cancelled"
    assert agent.tools.ok("cleanup_worker", worker_id=key)["errors"] == []


#: Every tool that changes something, used on tasks of others or on the agent's own task.
ALIEN: dict[str, Callable[["Theirs"], list[dict[str, object]]]] = {
    "cancel_worker": lambda theirs: [{"worker_id": key} for key in theirs.tasks],
    "cleanup_worker": lambda theirs: [{"worker_id": key} for key in theirs.tasks],
    "prompt_agent": lambda theirs: [{"task_id": key, "text": "stop"} for key in theirs.tasks],
    "cancel_workflow": lambda theirs: [{"workflow_id": theirs.flow}],
    "cleanup_workflow": lambda theirs: [{"workflow_id": theirs.flow}],
}
#: Tools that an agent may use freely, because they create tasks or ask.
FREE = {"create_worker", "create_workflow", "create_task", "ask_human"}


class Theirs(NamedTuple):
    """Tasks and a workflow that an agent must not change."""

    tasks: tuple[str, ...]
    flow: str


def test_every_changing_tool_is_attempted(agent: Agent) -> None:
    changing = {name for name, tool in TOOLS.items() if not tool.reads_only}
    assert set(ALIEN) | FREE == changing


@pytest.fixture(scope="module")
def theirs(agent: Agent) -> Theirs:
    """Return a person's task, tasks of another agent, and the agent's own task."""
    stages = [{"name": "one", "prompt_template": "x"}]
    token, *_ = admit(agent.records, "fleet-another")
    with serving(agent.records.fleet, FLEET_RUN_TOKEN=token) as tools:
        flow = {"name": "f", "repo_path": str(agent.repo), "task_prompt": "x", "stages": stages}
        made = tools.ok("create_workflow", **flow)
        worker = tools.ok("create_worker", **agent.order())["worker_id"]
    return Theirs((OTHER, OWN, worker, made["stage_summary"][0]["worker_id"]), made["workflow_id"])


@pytest.mark.parametrize("tool", ALIEN)
def test_tool_is_refused_when_the_task_is_not_the_agents(agent: Agent, theirs: Theirs, tool: str) -> None:
    store = agent.records.store
    keys = (*theirs.tasks, *(stage.task_id for stage in store.workflows.stages(theirs.flow)))

    def state() -> list[object]:
        return [*(store.tasks.get(key) for key in keys), *store.messages.find(), store.workflows.get(theirs.flow)]

    before = state()
    for given in ALIEN[tool](theirs):
        said = agent.tools.refused(tool, **given)
        assert said.startswith("IllegalMove: an agent may not ") and said.endswith("did not create it"), said
        assert state() == before
    # No tool answers questions or changes settings.
    assert not {name for name in TOOLS if "answer" in name or "config" in name or "kill" in name}


def test_agent_creates_tasks_only_in_allowed_repositories(agent: Agent, tmp_path: Path) -> None:
    elsewhere = make_repository(tmp_path / "elsewhere")
    said = agent.tools.refused("create_worker", **agent.order(repo_path=str(elsewhere)))
    assert said == f"IllegalMove: {elsewhere} is not an allowed repository"
    assert "is not an allowed repository" in agent.tools.refused("create_task", title="x", cwd=str(elsewhere))


def test_agent_cannot_pass_options_to_a_coder(agent: Agent) -> None:
    said = agent.tools.refused("create_worker", **agent.order(extra_args=["--dangerously-skip-permissions"]))
    assert said == "IllegalMove: an agent may not pass extra_args"


def test_server_of_an_agent_starts_no_supervisor(agent: Agent) -> None:
    agent.tools.ok("create_worker", **agent.order())
    assert agent.tools.ok("healthcheck")["supervisor"]["running"] is False
    assert not (agent.records.fleet.home / "logging" / "supervisor.out").exists(), "and none is about to start"


def test_agent_at_the_depth_limit_cannot_create_tasks(agent: Agent) -> None:
    """Its environment and its claimed parent do not matter."""
    deep, *_ = admit(agent.records, "fleet-deep", depth=1, rules=encode({"depth": 1}))
    with serving(agent.records.fleet, FLEET_RUN_TOKEN=deep, FLEET_MAX_SPAWN_DEPTH="9") as tools:
        for tool, given in (("create_worker", agent.order()), ("create_task", {"title": "x"})):
            assert tools.refused(tool, **given) == (
                "IllegalMove: an agent of fleet-deep may not create tasks: its depth is 1, and the maximum is 1"
            )


def test_question_survives_the_server_and_the_wait(agent: Agent) -> None:
    first = agent.tools.ok("ask_human", question="Which colour?", timeout_seconds=0)
    assert (first["answered"], first["answer"]) == (False, None)
    with serving(agent.records.fleet, FLEET_RUN_TOKEN=agent.token) as tools:
        told: list[str] = []
        asking = tools.start(tools.call("ask_human", {"question": " Which colour? "}, told))
        end = time.monotonic() + 120
        while not told and time.monotonic() < end:
            tools.ok("list_tasks")
        (asked,) = json.loads(agent.records.fleet.ok("questions", "--json"))
        assert (asked["id"], asked["text"], asked["waits"]) == (first["question_id"], "Which colour?", True)
        assert told[0] == f"waiting for a person: `fleet answer {asked['id']} TEXT`"
        assert not asking.done()
        agent.records.fleet.ok("answer", asked["id"], "green")
        answer = asking.result(120)
    assert (answer["answered"], answer["answer"], answer["question_id"]) == (True, "green", first["question_id"])
    again = agent.tools.ok("ask_human", question="Which colour?")
    assert again["answer"] == "green", "an answer that was missed is not asked for again"


def test_withdrawn_question_is_asked_again_by_the_next_run(agent: Agent) -> None:
    records, question = agent.records, "Which database?"
    token, claim, run = admit(records, "fleet-asks")
    with serving(records.fleet, FLEET_RUN_TOKEN=token) as tools:
        first = tools.ok("ask_human", question=question, timeout_seconds=0)["question_id"]
        with open_fleet(records.home) as fleet:
            workers.cancel(fleet, "fleet-asks")
        for _ in range(2):  # also if the agent asks once more before it has ended
            told = tools.ok("ask_human", question=question)
            assert (told["answered"], told["answer"], told["question_id"]) == (False, None, first)
            assert "was withdrawn" in told["hint"]
    records.end(claim, run, Ending.CANCELLED, Verdict(status=Status.BLOCKED, reason="stopped by hand"))
    records.fleet.ok("retry", "fleet-asks")
    claim, run = records.begin("fleet-asks")
    token = records.store.tokens.issue(claim, Caller(task_id="fleet-asks", run_id=run.id, epoch=claim.epoch))
    with serving(records.fleet, FLEET_RUN_TOKEN=token) as tools:
        told = tools.ok("ask_human", question=question, timeout_seconds=0)
        assert not told["answered"] and told["question_id"] != first
        (asked,) = json.loads(records.fleet.ok("questions", "--json"))
        assert (asked["id"], asked["waits"]) == (told["question_id"], True)
        records.fleet.ok("answer", asked["id"], "sqlite")
        assert tools.ok("ask_human", question=question)["answer"] == "sqlite"


def test_agent_whose_run_has_ended_cannot_create_anything(agent: Agent) -> None:
    token, claim, run = admit(agent.records, "fleet-over")
    with serving(agent.records.fleet, FLEET_RUN_TOKEN=token) as tools:
        agent.records.end(claim, run, Ending.FAILED, Verdict(status=Status.BLOCKED))
        assert "IllegalMove" in tools.refused("create_worker", **agent.order())
        assert "IllegalMove" in tools.refused("create_task", title="x")
        assert "only the agent of a running task" in tools.refused("ask_human", question="?")
