"""Processes that an agent starts with an empty environment or as orphans: fleet recognizes their run."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import stop, workshop
from program import Program
from supervised import wait_for

AGENT = Path(__file__).parents[1] / "workers" / "stripped.py"
CODER = """
[coders.plain]
argv = {argv}
[coders.plain.output]
format = "jsonl"
text = "text"
tool = "tool"
success = {{over = true}}
"""
HOWS = ("child", "orphan")


class Shop(NamedTuple):
    """A home whose coder is that agent, with a supervisor, and a person's task without an agent."""

    fleet: Program
    repo: Path
    folder: Path
    other: str

    def answers(self, *plan: dict[str, Any]) -> tuple[str, list[Any]]:
        """Let an agent carry out this plan. Return its task and the answers that it got."""
        (self.folder / "plan.json").write_text(json.dumps(plan))
        (self.folder / "answers.json").unlink(missing_ok=True)
        metadata = json.dumps({"fleet.coder": "plain"})
        made = self.fleet.ok("bd", "create", "go", "--cwd", str(self.repo), "--metadata", metadata, "--json")
        key = str(json.loads(made)["id"])
        wait_for((self.folder / "answers.json").exists, "the agent's answers", lambda: self.fleet("tasks").out)
        told = json.loads((self.folder / "answers.json").read_text())
        assert told["run"] == f"{key}/1"
        return key, told["answers"]

    def show(self, key: str) -> dict[str, Any]:
        return dict(json.loads(self.fleet.ok("bd", "show", key, "--json"))[0])


@pytest.fixture(scope="module", params=["in a namespace", "held weakly"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    base = tmp_path_factory.mktemp("stripped")
    fleet, repo = workshop(base)
    (folder := base / "agent").mkdir()
    with (fleet.home / "runtime.toml").open("a") as file:
        file.write(CODER.format(argv=json.dumps([sys.executable, str(AGENT), str(folder)])))
    if request.param == "held weakly":
        (weak := base / "weak").mkdir()
        (weak / "unshare").symlink_to("/bin/false")
        fleet.env["PATH"] = f"{weak}:{fleet.env['PATH']}"
    fleet.ok("run", "start")
    other = json.loads(fleet.ok("bd", "create", "theirs", "--json"))["id"]
    fleet.ok("bd", "update", other, "--status", "blocked")
    yield Shop(fleet, repo, folder, other)
    stop(fleet)


@pytest.mark.parametrize("how", HOWS)
def test_mcp_server_without_an_environment_belongs_to_its_run(shop: Shop, how: str) -> None:
    order = {"repo_path": str(shop.repo), "task_name": "part", "prompt": "x", "executor": "demo"}
    calls = [
        ["healthcheck", {}],
        ["create_worker", order],
        ["cancel_worker", {"worker_id": shop.other}],
        ["create_task", {"title": "more"}],
        ["ask_human", {"question": "Which colour?", "timeout_seconds": 0}],
    ]
    key, [[health, worker, cancelled, task, asked]] = shop.answers(
        {"how": how, "argv": [*shop.fleet.argv, "mcp"], "calls": calls}
    )
    assert health["base_dir"] == str(shop.fleet.home), "the home is its run's"
    made = [shop.show(worker["worker_id"]), shop.show(task["id"])]
    assert [each["metadata"]["fleet.made_by"] for each in made] == [key, key]
    assert cancelled["details"] == f"an agent may not cancel {shop.other}: {key} did not create it"
    assert shop.show(shop.other)["status"] == "blocked"
    assert asked["answered"] is False and asked["question_id"]


@pytest.mark.parametrize("how", HOWS)
def test_command_without_an_environment_belongs_to_its_run(shop: Shop, how: str) -> None:
    fleet = shop.fleet.argv
    lie = ["/usr/bin/env", "FLEET_RUN_TOKEN=nonsense", f"FLEET_HOME={shop.fleet.home}"]
    tries = [
        [*fleet, "bd", "close", shop.other],
        [*fleet, "kill", "--yes", shop.other],
        [*fleet, "retry", shop.other],
        [*fleet, "config", "set", "max_concurrent=9"],
        [*fleet, "run", "stop"],
        [*lie, *fleet, "kill", "--yes", shop.other],
    ]
    created = [*fleet, "bd", "create", "more", "--json"]
    key, [made, *refused] = shop.answers(*({"how": how, "argv": argv} for argv in (created, *tries)))
    task = json.loads(made["out"])
    assert shop.show(task["id"])["metadata"]["fleet.made_by"] == key
    for argv, each in zip(tries, refused, strict=True):
        assert "an agent may not" in each["out"], (argv, each)
    assert shop.show(shop.other)["status"] == "blocked"


def test_command_without_an_environment_hands_in_its_own_task(shop: Shop) -> None:
    fleet = shop.fleet.argv
    words = (["prime"], ["close", "{task}", "--reason", "all of it is done"])
    key, [primed, closed] = shop.answers(*({"how": "child", "argv": [*fleet, "bd", *each]} for each in words))
    assert f"fleet started you for {key}: go" in primed["out"]
    assert closed["code"] == 0 and f"Closed {key}" in closed["out"], closed


def test_person_is_not_treated_as_an_agent(shop: Shop) -> None:
    """This includes a caller whose environment names another home's run, and one who uses another home."""
    assert shop.fleet("retry", shop.other, FLEET_RUN_ID="a-run-that-is-none/1").code == 0
    shop.fleet.ok("bd", "update", shop.other, "--status", "blocked")
    own = shop.folder.with_name("own")
    argv = ["/usr/bin/env", f"FLEET_HOME={own}", *shop.fleet.argv]
    _, answers = shop.answers(*({"how": "child", "argv": [*argv, *words]} for words in (["init"], ["pause"])))
    assert [each["code"] for each in answers] == [0, 0], answers
