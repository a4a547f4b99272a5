"""The real claude and codex with a result schema: a worker hands in its last word."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mcp_client import serving
from model_server import ModelServer, Scenario, Turn
from real.through_fleet import RealFleet
from repositories import make_repository

pytestmark = pytest.mark.soak("clis")
TOLD: dict[str, Any] = {
    **{"summary": "hello is said", "status": "completed", "files_changed": ["a.txt"], "commits": []},
    **{"tests": [{"command": "cat a.txt", "status": "passed", "details": "hello"}], "next_steps": ["say goodbye"]},
}
LAST = {
    "claude": Turn(tool="StructuredOutput", arguments=TOLD),
    "codex": Turn(text=json.dumps(TOLD)),
}


@pytest.mark.parametrize("cli", LAST)
def test_worker_hands_in_by_its_last_word(
    real: Callable[[str, Scenario], RealFleet], server: ModelServer, cli: str
) -> None:
    """The models call no tool that writes a result file."""
    scenario = server.scenario([Turn(write="a.txt"), LAST[cli], Turn(text="All done.")], name=cli)
    home = real(cli, scenario)
    home.start()
    repo = make_repository(home.fleet.cwd / "repo")
    with serving(home.fleet, FLEET_DEFAULT_EXECUTOR=cli) as tools:
        order = {"repo_path": str(repo), "task_name": "say hello", "prompt": "Say hello."}
        key = tools.ok("create_worker", **order)["worker_id"]
        assert [each["status"] for each in tools.wait_over(key)] == ["succeeded"], home.describe()
        found = tools.ok("collect_worker_result", worker_id=key)
    told = {name: found["result"][name] for name in ("summary", "status", "files_changed", "tests", "next_steps")}
    assert told == {name: TOLD[name] for name in told}
    assert (found["result_made_by"], len(found["result"]["commits"])) == ("agent", 1), "commits are git's to tell"
    assert not list((home.fleet.home / "tasks" / key / "artifacts").glob("result.json"))
    (run,) = home.runs(key)
    assert run["tool_calls"] == 1, "handing in is no work"


def test_finished_work_counts_when_the_model_hands_in_nothing(
    real: Callable[[str, Scenario], RealFleet], server: ModelServer
) -> None:
    scenario = server.scenario([Turn(write="a.txt"), Turn(text="All done.")], name="claude")
    home = real("claude", scenario)
    home.start()
    repo = make_repository(home.fleet.cwd / "repo")
    with serving(home.fleet, FLEET_DEFAULT_EXECUTOR="claude") as tools:
        order = {"repo_path": str(repo), "task_name": "say hello", "prompt": "Say hello."}
        key = tools.ok("create_worker", **order)["worker_id"]
        assert [each["status"] for each in tools.wait_over(key)] == ["succeeded"], home.describe()
        found = tools.ok("collect_worker_result", worker_id=key)
    assert found["result_made_by"] == "fleet", "made from what it said and changed, and marked so"
    assert (found["result"]["summary"], found["result"]["files_changed"]) == ("All done.", ["a.txt"])
