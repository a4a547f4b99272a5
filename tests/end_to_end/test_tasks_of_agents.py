"""Tasks that agents create by any way: how deep they nest, where they run, and what all of them may spend together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import Tools, serving, stop, workshop
from program import Program
from repositories import make_repository
from supervised import wait_for

#: Agents that show their token and wait; spend 40 cents at once; or spend 55 more if they are not stopped.
AGENT = """\
#!/bin/sh
prompt=$(cat)
case "$prompt" in
*"hold on"*)
    echo "$FLEET_RUN_TOKEN" > {tokens}/.new-$FLEET_TASK_ID
    mv {tokens}/.new-$FLEET_TASK_ID {tokens}/$FLEET_TASK_ID
    while [ ! -e {tokens}/go ]; do sleep 0.1; done ;;
*"spend little"*) echo '{{"cost": 0.4, "tool": "shell"}}' ;;
*"spend"*)
    echo '{{"cost": 0.4, "tool": "shell"}}'
    n=0; while [ $n -lt 150 ]; do n=$((n + 1)); echo '{{"text": "working"}}'; sleep 0.2; done
    echo '{{"cost": 0.55}}' ;;
esac
echo done >> work.txt
echo '{{"text": "all done", "over": true}}'
"""
CODER = """
[coders.plain]
argv = [{agent}]
[coders.plain.output]
format = "jsonl"
text = "text"
tool = "tool"
cost_usd = "cost"
success = {{over = true}}
"""


class Shop(NamedTuple):
    """A home whose coder is that agent, with a supervisor, a repository, and a person's own MCP server."""

    fleet: Program
    repo: Path
    tokens: Path
    tools: Tools

    def token(self, task_id: str) -> str:
        """Return the token of a task's run once it runs."""
        wait_for((self.tokens / task_id).exists, f"an agent of {task_id}", lambda: self.fleet("tasks").out)
        return (self.tokens / task_id).read_text().strip()

    def order(self, **given: object) -> dict[str, Any]:
        return {"repo_path": str(self.repo), "task_name": "part", "prompt": "hold on"} | given

    def said(self, *keys: str) -> list[dict[str, Any]]:
        """Return the fields of tasks that fleet keeps beside bd's own."""
        return [dict(each["metadata"]) for each in json.loads(self.fleet.ok("bd", "show", *keys, "--json"))]

    def bounded(self, dollars: float) -> str:
        """Create a person's task with a budget in dollars, including all tasks of its agents. Return its id."""
        metadata = json.dumps({"fleet.limits": json.dumps({"max_cost_usd": dollars}), "fleet.coder": "plain"})
        words = ("create", "hold on", "--cwd", str(self.repo), "--metadata", metadata, "--json")
        return str(json.loads(self.fleet.ok("bd", *words))["id"])

    def bd(self, token: str, *words: str) -> tuple[int, dict[str, Any]]:
        """Run `bd` as an agent does in its repository. Return exit code and answer."""
        done = self.fleet("bd", *words, "--cwd", str(self.repo), "--json", FLEET_RUN_TOKEN=token)
        return done.code, dict(json.loads(done.out))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    base = tmp_path_factory.mktemp("made")
    fleet, repo = workshop(base)
    tokens, agent = base / "tokens", base / "agent"
    tokens.mkdir()
    agent.write_text(AGENT.format(tokens=tokens))
    agent.chmod(0o755)
    with (fleet.home / "runtime.toml").open("a") as file:
        file.write(CODER.format(agent=json.dumps(str(agent))))
    fleet.env["FLEET_DEFAULT_EXECUTOR"] = "plain"
    fleet.ok("run", "start")
    with serving(fleet, FLEET_MAX_SPAWN_DEPTH="4", FLEET_ALLOWED_REPOS=str(repo)) as tools:
        yield Shop(fleet, repo, tokens, tools)
    (tokens / "go").touch()
    stop(fleet)


def test_tasks_nest_as_deep_as_the_persons_server_allows(shop: Shop, tmp_path: Path) -> None:
    """The real run of each task creates the next. The environment of its server does not matter."""
    key = shop.tools.ok("create_worker", **shop.order())["worker_id"]
    elsewhere = make_repository(tmp_path / "elsewhere")
    stages = [{"name": "one", "prompt_template": "hold on"}]
    flow = {"name": "flow", "repo_path": str(shop.repo), "task_prompt": "x", "stages": stages}
    (file := tmp_path / "flow.json").write_text(json.dumps({"stages": stages}))
    by_hand = ("workflow", "run", str(file), "--json", "--repo")
    for depth in range(4):
        token, maker = shop.token(key), key
        ids = [shop.bd(token, "create", "more")[1]["id"]]
        if depth == 0:
            with serving(shop.fleet, FLEET_RUN_TOKEN=token, FLEET_ALLOWED_REPOS="") as tools:
                told = tools.refused("create_worker", **shop.order(repo_path=str(elsewhere)))
                assert told == f"IllegalMove: {elsewhere} is not an allowed repository"
                assert tools.refused("create_task", title="x", cwd=str(elsewhere)) == told
                ids.append(tools.ok("create_task", title="x", cwd=str(shop.repo))["id"])
                key = tools.ok("create_worker", **shop.order())["worker_id"]
        else:
            refused = shop.fleet(*by_hand, str(elsewhere), FLEET_RUN_TOKEN=token)
            assert f"{elsewhere} is not an allowed repository" in refused.err
            made = json.loads(shop.fleet.ok(*by_hand, str(shop.repo), FLEET_RUN_TOKEN=token))
            key = made["stages"][0]["task"]
        for said in shop.said(*ids, key):
            rules = json.loads(said["fleet.rules"])
            assert (rules["depth"], rules["repos"], rules["at_once"]) == (4, [str(shop.repo)], 50), "as its maker's"
            assert said["fleet.made_by"] == maker
    token, deep = shop.token(key), f"an agent of {key} may not create tasks: its depth is 4, and the maximum is 4"
    assert shop.bd(token, "create", "more")[1]["error"] == deep
    with serving(shop.fleet, FLEET_RUN_TOKEN=token, FLEET_MAX_SPAWN_DEPTH="9") as tools:
        task = {"title": "x", "cwd": str(shop.repo)}
        for tool, given in (("create_worker", shop.order()), ("create_workflow", flow), ("create_task", task)):
            assert tools.refused(tool, **given) == f"IllegalMove: {deep}"


def test_tasks_of_a_run_share_its_budget(shop: Shop) -> None:
    own = shop.bounded(1.0)
    with serving(shop.fleet, FLEET_RUN_TOKEN=shop.token(own)) as tools:
        made = tools.at_once("create_worker", [shop.order(prompt="spend") for _ in range(3)])
    ids = [each["worker_id"] for each in made]
    over = shop.tools.wait_over(own, *ids)
    assert len({each["reason"] for each in over}) == 1, over
    assert over[0]["reason"] == f"{own} and its tasks used $1.20 of $1.00 allowed", "and the maker is no better"
    costs = [json.loads(shop.fleet.ok("runs", key, "--json"))[0]["cost_usd"] for key in ids]
    assert sum(costs) == pytest.approx(1.2), "and not three dollars"


def test_run_without_budget_left_cannot_create_tasks(shop: Shop) -> None:
    own = shop.bounded(0.405)
    token = shop.token(own)
    with serving(shop.fleet, FLEET_RUN_TOKEN=token) as tools:
        key = tools.ok("create_worker", **shop.order(prompt="spend little"))["worker_id"]
        (kept,) = shop.said(key)
        assert json.loads(kept["fleet.limits"])["max_cost_usd"] == 0.405
        tools.wait_over(key)
        said = tools.refused("create_worker", **shop.order())
    assert said.endswith(f"{own} may not create tasks: $0.00 of its budget is left")
    code, told = shop.bd(token, "create", "more")
    assert (code, told["error"]) == (1, said.removeprefix("IllegalMove: "))
