"""Agents that raise their own limits: the bounds of a task that an agent created, by any way."""

import json
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from fleet.core.filter import Filter
from fleet.core.task import Caller
from live_runs import Records, records
from mcp_client import serving
from program import Program, Result
from repositories import make_repository, run_git

__all__ = ["records"]

PERSONS = {
    "fleet.coder": "demo",
    "fleet.account": "work",
    "fleet.limits": '{"max_cost_usd": 2, "wall_seconds": 60, "silence_seconds": 30}',
    "fleet.rules": '{"protect": ["tests/**"], "allow": ["src/"], "depth": 2, "repos": ["REPO"]}',
}


class Agent:
    """A live run of a person's bounded task, in an allowed repository."""

    def __init__(self, records: Records) -> None:
        self.records, self.fleet = records, records.fleet
        self.repo = make_repository(records.fleet.cwd / "repo")
        self.path = records.fleet.env["PATH"]
        said = json.dumps(PERSONS).replace("REPO", str(self.repo))
        self.own = records.create("own", "--cwd", str(self.repo), "--metadata", said)
        claim, run = records.begin(self.own, account="work")
        caller = Caller(task_id=self.own, run_id=run.id, epoch=claim.epoch)
        self.token = records.store.tokens.issue(claim, caller)
        self.env = {"FLEET_RUN_TOKEN": self.token, "PATH": f"/evil:{self.path}", "FLEET_DEFAULT_EXECUTOR": "demo"}

    def __call__(self, *words: str, stdin: str = "") -> Result:
        return self.fleet(*words, stdin=stdin, cwd=self.repo, **self.env)

    def ok(self, *words: str) -> str:
        done = self(*words)
        assert done.code == 0, (words, done)
        return done.out

    def tasks(self) -> dict[str, Any]:
        return {task.id: task for task in self.records.store.tasks.find(Filter(), sort="id")}


@pytest.fixture
def agent(records: Records) -> Iterator[Agent]:
    yield Agent(records)


Way = Callable[[Agent, dict[str, Any]], Result]


def by_create(agent: Agent, metadata: dict[str, Any]) -> Result:
    return agent("bd", "create", "x", "--metadata", json.dumps(metadata))


def by_update(agent: Agent, metadata: dict[str, Any]) -> Result:
    return agent("bd", "update", "fleet-made", "--metadata", json.dumps(metadata))


def by_import(agent: Agent, metadata: dict[str, Any]) -> Result:
    row = {"id": "fleet-imported", "title": "x", "metadata": {"fleet.cwd": str(agent.repo)} | metadata}
    return agent("bd", "import", "-", stdin=json.dumps(row))


def by_import_of_a_known_task(agent: Agent, metadata: dict[str, Any]) -> Result:
    row = {"id": "fleet-made", "title": "x", "updated_at": "2099-01-01T00:00:00Z"}
    return agent("bd", "import", "-", stdin=json.dumps(row | {"metadata": {"fleet.cwd": str(agent.repo)} | metadata}))


def by_graph(agent: Agent, metadata: dict[str, Any]) -> Result:
    plan = agent.fleet.user / "plan.json"
    plan.write_text(json.dumps({"nodes": [{"key": "a", "title": "x", "metadata": metadata}]}))
    return agent("bd", "create", "--graph", str(plan))


WAYS: tuple[Way, ...] = (by_create, by_update, by_import, by_import_of_a_known_task, by_graph)


def test_agent_may_not_choose_fields_for_people(agent: Agent, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    (agent.repo / "link").symlink_to(other)
    run_git(agent.repo, "branch", "release")
    agent.ok("bd", "create", "made", "--id", "fleet-made", "--coder", "demo")
    attacks: dict[str, list[dict[str, Any]]] = {
        "may not pass extra_args": [{"fleet.rules": '{"extra_args": ["--dangerously-skip-permissions"]}'}],
        "may not choose account": [{"fleet.account": "rich"}],
        "may not choose base": [{"fleet.base": base} for base in ("main", "../../evil", "--upload-pack=x", "HEAD~1")],
        "may not choose remote": [{"fleet.remote": "ext::sh -c x"}, {"fleet.remote": str(other)}],
        "may not choose coder": [{"fleet.coder": "evil:Coder"}],
        "may not work on branch": [{"fleet.branch": branch} for branch in ("main", "release")],
        "is not a valid branch name": [{"fleet.branch": "../../HEAD"}],
        "is not an allowed repository": [
            *({"fleet.repo": place} for place in (str(other), f"{agent.repo}/../../other", str(agent.repo / "link"))),
            {"fleet.cwd": f"{agent.repo}/link"},
        ],
    }
    before, ways = agent.tasks(), cycle(WAYS)
    for why, many in attacks.items():
        for metadata in many:
            way = next(ways)
            done = way(agent, metadata)
            assert done.code != 0 and why in done.out + done.err, (why, metadata, way.__name__, done)
    assert agent.tasks() == before


def test_person_may_choose_all_of_these_fields(agent: Agent) -> None:
    said = {"fleet.account": "rich", "fleet.base": "main", "fleet.rules": '{"extra_args":["-v"]}'}
    agent.fleet.ok("bd", "create", "x", "--id", "fleet-persons", "--metadata", json.dumps(said), cwd=agent.repo)
    task = agent.tasks()["fleet-persons"]
    assert (task.account, task.base, task.rules) == ("rich", "main", '{"extra_args":["-v"]}')


GREED = {
    "fleet.coder": "demo",
    "fleet.limits": '{"max_cost_usd": 900, "wall_seconds": 900000, "silence_seconds": 0, "max_tokens": 5}',
    "fleet.rules": json.dumps({"depth": 99, "retries": 500, "stale_restarts": 500, "at_once": 9999, "allow": ["**"]}),
    "fleet.finding": "verified",
    "fleet.reason": "a person looked at it",
    "fleet.made_by": "",
    "merged": {"into": "main"},
    "resolves": {"task": "fleet-of-another", "tip": "0" * 40},
}


def checked(agent: Agent, ids: set[str], *, is_greedy: bool = False) -> None:
    """Check that tasks of the agent have no more than its own."""
    found = agent.tasks()
    for key in ids:
        task = found[key]
        limits, rules = json.loads(task.limits), json.loads(task.rules)
        assert (limits["max_cost_usd"], limits["wall_seconds"], limits["silence_seconds"]) == (2, 60, 30), task
        assert (rules["protect"], rules["allow"], rules["repos"]) == (["tests/**"], ["src/"], [str(agent.repo)])
        assert rules["depth"] == 2 and rules.get("at_once", 1) <= 50, rules
        assert rules.get("retries", 0) <= 1 and rules.get("stale_restarts", 0) <= 1, rules
        assert (task.account, task.made_by, task.path) == ("work", agent.own, agent.path)
        assert (task.finding, task.reason) == ("", "") and not {"merged", "resolves"} & task.metadata.keys()
        assert task.base == "" or len(task.base) == 40
        assert not is_greedy or limits["max_tokens"] == 5, "less is for its maker to say"


def test_task_of_an_agent_has_no_more_than_its_own(agent: Agent) -> None:
    agent.ok("bd", "create", "made", "--id", "fleet-made", "--coder", "demo")
    for way in WAYS:
        done = way(agent, GREED)
        assert done.code == 0, (way.__name__, done)
    checked(agent, agent.tasks().keys() - {agent.own}, is_greedy=True)


def test_every_creating_command_limits_an_agent_to_its_own_bounds(agent: Agent) -> None:
    flow = agent.fleet.user / "flow.json"
    flow.write_text(json.dumps({"name": "f", "stages": [{"name": "a", "prompt_template": "x", "retries": 3}]}))
    for words in (
        ("create", "feature", "-p", "x", "--headless", "--no-wait", "-a", "demo"),
        ("fanout", "2", "many", "-p", "x", "--headless", "--no-wait", "--agents", "demo:2"),
        ("multi", "one:x", "two:y", "--headless", "--no-wait", "-a", "demo"),
        ("workflow", "run", str(flow)),
        ("bd", "q", "quick", "--coder", "demo"),
    ):
        agent(*words)  # the command cannot start a supervisor, which does not matter here
    assert len(agent.tasks()) == 8
    checked(agent, agent.tasks().keys() - {agent.own})


def test_tools_limit_an_agent_to_its_own_bounds_whatever_its_environment_says(agent: Agent) -> None:
    greedy = {
        **{"FLEET_DEFAULT_TIMEOUT": "900000", "FLEET_STALE_TIMEOUT": "0", "FLEET_STALE_MAX_RESTARTS": "500"},
        **{"FLEET_MAX_CONCURRENT": "9999", "FLEET_MAX_SPAWN_DEPTH": "99"},
    }
    order = {"repo_path": str(agent.repo), "task_name": "x", "prompt": "x"}
    stage = {"name": "a", "prompt_template": "x"}
    flow = {"name": "f", "repo_path": str(agent.repo), "task_prompt": "x"}
    with serving(agent.fleet, **agent.env, **greedy) as tools:
        for extra in ({"extra_args": ["--yolo"]}, {"executor": "evil:Coder"}):
            told = tools("create_worker", **order, **extra)
            assert "an agent may not" in json.dumps(told), told
        told = tools("create_workflow", **flow, stages=[stage | {"extra_args": ["--yolo"]}])
        assert "extra_args" in json.dumps(told), told
        tools.ok("create_worker", **order)
        tools.ok("create_task", title="x", cwd=str(agent.repo), branch="feature", base="main", coder="demo")
        tools.ok("create_workflow", **flow, stages=[stage])
    assert len(agent.tasks()) == 4
    checked(agent, agent.tasks().keys() - {agent.own})


def test_agent_cannot_change_how_its_own_task_is_worked_on(agent: Agent) -> None:
    before = agent.tasks()[agent.own]
    said = GREED | {"fleet.repo": "/", "fleet.branch": "main", "fleet.workspace": "directory", "fleet.model": "dear"}
    agent.ok("bd", "update", agent.own, "--title", "new", "--metadata", json.dumps(said | {"fleet.verify": "true"}))
    after = agent.tasks()[agent.own]
    assert after.title == "new"
    assert after == before.replace(title="new", updated_at=after.updated_at)


def test_depth_is_capped_when_the_person_set_none(fleet: Program, records: Records) -> None:
    """A person's task without rules may nest two deep, whatever depth its agent claims."""
    own = records.create("own")
    for level in range(2):
        claim, run = records.begin(own)
        token = records.store.tokens.issue(claim, Caller(task_id=own, run_id=run.id, epoch=claim.epoch))
        rules = json.dumps({"fleet.rules": '{"depth": 99}'})
        made = fleet.ok("bd", "create", f"level-{level}", "--metadata", rules, "--json", FLEET_RUN_TOKEN=token)
        own = json.loads(made)["id"]
    claim, run = records.begin(own)
    token = records.store.tokens.issue(claim, Caller(task_id=own, run_id=run.id, epoch=claim.epoch))
    done = fleet("bd", "create", "deeper", FLEET_RUN_TOKEN=token)
    assert done.code != 0 and "the maximum is 2" in done.err, done
