"""Every tool of the MCP server, with good and bad arguments, through the SDK's client."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import Tools, serving, stop, workshop
from program import Program
from supervised import wait_for

TOOLS = (
    *("healthcheck", "executor_guide", "create_worker", "get_worker_status", "list_workers", "collect_worker_result"),
    *("cancel_worker", "cleanup_worker", "create_task", "list_tasks", "show_task", "prompt_agent", "diff"),
    *("wait", "ask_human", "create_workflow", "get_workflow_status", "list_workflows", "cancel_workflow"),
    *("collect_workflow_result", "cleanup_workflow"),
)


OF_WORKFLOW = ("get_workflow_status", "cancel_workflow", "collect_workflow_result", "cleanup_workflow")


class Shop(NamedTuple):
    """A home whose agents do not start, a repository, and a server with its client."""

    fleet: Program
    repo: Path
    tools: Tools


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path_factory.mktemp("tools"))
    fleet.ok("pause")
    with serving(fleet, FLEET_ALLOWED_REPOS=f"{repo},{fleet.cwd}") as tools:
        yield Shop(fleet, repo, tools)
    stop(fleet)


def test_tools_are_listed_with_their_arguments(shop: Shop) -> None:
    listed = shop.tools.start(shop.tools.client.list_tools()).result(30).tools
    by_name = {tool.name: tool for tool in listed}
    assert set(by_name) == set(TOOLS)
    for tool in listed:
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
    created = by_name["create_worker"].input_schema
    assert created["required"] == ["repo_path", "task_name", "prompt"]
    assert created["properties"]["base_ref"]["default"] == "HEAD"


class Bad(NamedTuple):
    """A call that must be refused, and a part of the message."""

    tool: str
    given: dict[str, Any]
    says: str


REPO = "<repo>"
WORKER = {"repo_path": REPO, "task_name": "x", "prompt": "y"}
STAGES = [{"name": "a", "prompt_template": "x"}]
FLOW = {"repo_path": REPO, "name": "n", "task_prompt": "p", "stages": STAGES}
BAD = [
    Bad("no_such_tool", {}, "BadInput: no tool 'no_such_tool'"),
    Bad("healthcheck", {"verbose": True}, "BadInput: healthcheck: object contains unknown field `verbose`"),
    Bad("executor_guide", {"x": 1}, "unknown field `x`"),
    Bad("create_worker", {"repo_path": REPO}, "BadInput: create_worker: object missing required field `task_name`"),
    Bad("create_worker", WORKER | {"prompt": " "}, "BadInput: the prompt is empty"),
    Bad("create_worker", WORKER | {"prompt": "a\0b"}, "BadInput: the prompt contains a NUL character"),
    Bad("create_worker", WORKER | {"prompt": "x" * (2**20 + 1)}, "BadInput: the prompt has 1048577 bytes"),
    Bad("create_worker", WORKER | {"task_name": ""}, "BadInput: task_name is empty"),
    Bad("create_worker", WORKER | {"task_name": "a\nb"}, "BadInput: task_name has the control character U+000A"),
    Bad("create_worker", WORKER | {"prompt": 7}, "expected `str`, got `int` - at `$.prompt`"),
    Bad("create_worker", WORKER | {"repo_path": "/no/such/place"}, "BadInput: /no/such/place is not a directory"),
    Bad("create_worker", WORKER | {"repo_path": ""}, "BadInput: repo_path is empty"),
    Bad("create_worker", WORKER | {"repo_path": "/"}, "NoRepository: / is not in a git repository"),
    Bad("create_worker", WORKER | {"repo_path": "<other>"}, "is not an allowed repository"),
    Bad("create_worker", WORKER | {"base_ref": "no-such-ref"}, "BadInput: 'no-such-ref' is not a commit of"),
    Bad("create_worker", WORKER | {"base_ref": "--upload-pack=x"}, "BadInput: '--upload-pack=x' is not a commit"),
    Bad("create_worker", WORKER | {"executor": "cladue"}, "BadInput: unknown coder 'cladue'"),
    Bad("create_worker", WORKER | {"timeout_seconds": -1}, "BadInput: watchdog.wall_seconds must be"),
    Bad("create_worker", WORKER | {"model": "a\nb"}, "BadInput: model has the control character"),
    Bad("create_worker", WORKER | {"tags": "docs"}, "expected `array | null`, got `str` - at `$.tags`"),
    Bad("create_worker", WORKER | {"extra_args": ["x"] * 101}, "extra_args has 101 entries"),
    Bad("get_worker_status", {"worker_id": "w_000000000000"}, "WorkerNotFound: no worker 'w_000000000000'"),
    Bad("get_worker_status", {}, "missing required field `worker_id`"),
    Bad("list_workers", {"statuses": ["asleep"]}, "BadInput: unknown status 'asleep'"),
    Bad("list_workers", {"limit": 0}, "BadInput: limit 0 is out of range"),
    Bad("collect_worker_result", {"worker_id": "../../etc"}, "WorkerNotFound: no worker '../../etc'"),
    Bad("cancel_worker", {"worker_id": "w_0"}, "WorkerNotFound"),
    Bad("cleanup_worker", {"worker_id": "w_0"}, "WorkerNotFound"),
    Bad("create_task", {"prompt": "no title"}, "missing required field `title`"),
    Bad("create_task", {"title": "x", "cwd": "/no/such/place"}, "BadInput: cwd '/no/such/place' is not a directory"),
    Bad("create_task", {"title": "x", "cwd": "/"}, "IllegalMove: / is not an allowed repository"),
    Bad("create_task", {"title": "x", "cwd": REPO, "branch": "a..b"}, "is not a valid branch name"),
    Bad("create_task", {"title": "x", "cwd": REPO, "priority": 9}, "BadInput: priority 9 is out of range"),
    Bad("create_task", {"title": "x", "cwd": REPO, "coder": "nobody"}, "BadInput: unknown coder 'nobody'"),
    Bad("create_task", {"title": "x", "cwd": REPO, "requires": ["a b"]}, "'a b' is not a valid host label"),
    Bad("create_worker", {**WORKER, "host": "no/host"}, "'no/host' is not a valid host name"),
    Bad("list_tasks", {"limit": -1}, "BadInput: limit -1 is out of range"),
    Bad("show_task", {"task_id": "fleet-none"}, "TaskNotFound: no task 'fleet-none'"),
    Bad("prompt_agent", {"task_id": "fleet-none", "text": "x"}, "TaskNotFound"),
    Bad("diff", {"task_id": "fleet-none"}, "TaskNotFound"),
    Bad("wait", {"ids": ["w_0"]}, "WorkerNotFound"),
    Bad("wait", {"until": "dawn"}, "BadInput: until 'dawn' is not valid"),
    Bad("wait", {"timeout_seconds": 1e9}, "BadInput: the wait is too long"),
    Bad("ask_human", {"question": "May I?"}, "IllegalMove: only the agent of a running task can ask"),
    Bad("create_workflow", {"repo_path": REPO, "name": "n"}, "object missing required field `task_prompt`"),
    Bad("create_workflow", FLOW | {"stages": "a"}, "expected `array`, got `str` - at `$.stages`"),
    Bad("create_workflow", FLOW | {"stages": ["a"]}, "expected `object`, got `str` - at `$.stages[0]`"),
    Bad("create_workflow", FLOW | {"stages": [{"name": "a"}]}, "BadWorkflow: "),
    Bad("create_workflow", FLOW | {"stages": [*STAGES, *STAGES]}, "BadWorkflow: "),
    Bad("create_workflow", FLOW | {"stages": [STAGES[0] | {"depends_on": "b"}]}, "BadWorkflow: "),
    Bad("create_workflow", FLOW | {"stages": [STAGES[0] | {"depends_on": ["b"]}]}, "no such stage: 'b'"),
    Bad("create_workflow", FLOW | {"stages": [STAGES[0] | {"prompt_template": 7}]}, "BadWorkflow: "),
    Bad("create_workflow", FLOW | {"stages": [STAGES[0] | {"timeout_seconds": -1}]}, "BadWorkflow: "),
    Bad("create_workflow", FLOW | {"stages": [STAGES[0] | {"worktree_strategy": "old"}]}, "BadWorkflow: "),
    Bad("create_workflow", FLOW | {"name": 7}, "expected `str`, got `int` - at `$.name`"),
    Bad("create_workflow", FLOW | {"name": ""}, "BadWorkflow: "),
    Bad(
        "create_workflow",
        FLOW | {"task_prompt": "a\0b"},
        "BadInput: the prompt is too long or contains a NUL character",
    ),
    Bad("create_workflow", FLOW | {"timeout_seconds": "soon"}, "at `$.timeout_seconds`"),
    Bad("create_workflow", FLOW | {"timeout_seconds": 0}, "timeout_seconds must be a time like"),
    Bad("create_workflow", FLOW | {"base_ref": "--upload-pack=x"}, "BadInput: '--upload-pack=x' is not a commit"),
    Bad("create_workflow", FLOW | {"repo_path": "/"}, "NoRepository: / is not in a git repository"),
    Bad("create_workflow", FLOW | {"repo_path": "<other>"}, "is not an allowed repository"),
    Bad("create_workflow", FLOW | {"colour": "red"}, "object contains unknown field `colour`"),
    *(Bad(name, {"workflow_id": "wf_000000000000"}, "WorkflowNotFound: no workflow 'wf_0") for name in OF_WORKFLOW),
    *(Bad(name, {"workflow_id": "../../etc"}, "WorkflowNotFound: no workflow '../../etc'") for name in OF_WORKFLOW),
    *(Bad(name, {"workflow_id": 7}, "expected `str`, got `int` - at `$.workflow_id`") for name in OF_WORKFLOW),
    *(Bad(name, {}, "object missing required field `workflow_id`") for name in OF_WORKFLOW),
    Bad("collect_workflow_result", {"workflow_id": "wf_0", "include_logs": "much"}, "at `$.include_logs`"),
    Bad("list_workflows", {"statuses": ["asleep"]}, "BadInput: unknown status 'asleep'"),
    Bad("list_workflows", {"statuses": "failed"}, "expected `array | null`, got `str` - at `$.statuses`"),
    Bad("list_workflows", {"limit": 0}, "BadInput: limit 0 is out of range"),
]


def test_invalid_calls_are_refused_with_a_message(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (tmp_path / ".git" / name).mkdir()
    places = {REPO: str(shop.repo), "<other>": str(tmp_path)}
    before = shop.fleet.ok("bd", "list", "--all", "--json")
    wrong = []
    for bad in BAD:
        given = {
            name: places.get(value, value) if isinstance(value, str) else value for name, value in bad.given.items()
        }
        said = shop.tools.refused(bad.tool, **given)
        wrong += [] if bad.says in said else [f"{bad.tool} {bad.given}: {said}"]
    assert wrong == []
    assert shop.fleet.ok("bd", "list", "--all", "--json") == before, "nothing was made"
    assert {bad.tool for bad in BAD} >= set(TOOLS)


def test_health_and_guide_describe_the_installation(shop: Shop) -> None:
    health = shop.tools.ok("healthcheck")
    assert (health["ok"], health["app"], health["git_found"]) == (True, "fleet", True)
    assert (health["default_executor"], health["max_concurrent"], health["default_timeout"]) == ("demo", 50, 600.0)
    assert (health["max_spawn_depth"], health["stale_timeout"]) == (2, 120.0)
    assert health["base_dir"] == str(shop.fleet.home)
    assert {"codex_found", "gemini_path", "claude_version", "claude_auth_status"} <= set(health)
    wait_for(lambda: shop.tools.ok("healthcheck")["supervisor"]["running"], "the supervisor that the server starts")
    guide = shop.tools.ok("executor_guide")
    assert {"codex", "claude", "gemini", "routing_rules"} <= set(guide)


def test_task_can_be_created_listed_shown_and_waited_for(shop: Shop) -> None:
    first = shop.tools.ok(
        "create_task", title="first", prompt="do", cwd=str(shop.repo), branch="feat/one", labels=["a"]
    )
    then = shop.tools.ok("create_task", title="then", cwd=str(shop.fleet.cwd), needs=[first["id"]])
    assert (first["branch"], first["labels"], then["warnings"]) == ("feat/one", ["a"], [])
    assert then["blocked_by_others"] is True
    listed = shop.tools.ok("list_tasks", statuses=["open"])
    assert [each["id"] for each in listed["tasks"]][:2] == [then["id"], first["id"]]
    shown = shop.tools.ok("show_task", task_id="feat/one")
    assert (shown["id"], shown["prompt"], shown["runs"], shown["coder"]) == (first["id"], "do", [], "demo")

    told = shop.tools.ok("prompt_agent", task_id=first["id"], text="mind the gap")
    assert (told["state"], told["way"], told["author"]) == ("queued", "next run", "ada")
    assert "has no worktree" in shop.tools.refused("diff", task_id=first["id"])
    looked = shop.tools.ok("wait", ids=[first["id"], then["id"]], timeout_seconds=0)
    assert (looked["timed_out"], looked["changed"], looked["over"], looked["count"]) == (True, False, 0, 2)
    shop.fleet.ok("kill", first["id"])
    again = shop.tools.ok("wait", ids=[first["id"], then["id"]], cursor=looked["cursor"], timeout_seconds=30)
    assert (again["timed_out"], again["changed"], again["over"]) == (False, True, 1), (
        "what changed before the call counts"
    )
    assert again["cursor"] != looked["cursor"]
    shop.fleet.ok("kill", then["id"])
    assert first["id"] not in [each["worker_id"] for each in shop.tools.ok("list_workers")["workers"]]


def test_wait_returns_at_a_change_and_reports_progress(shop: Shop) -> None:
    key = shop.tools.ok("create_worker", repo_path=str(shop.repo), task_name="w", prompt="go")["worker_id"]
    told: list[str] = []
    waiting = shop.tools.start(shop.tools.call("wait", {"ids": [key], "timeout_seconds": 60}, told))
    shop.tools.ok("get_worker_status", worker_id=key)
    assert not waiting.done()
    shop.tools.ok("cancel_worker", worker_id=key)
    answer = waiting.result(30)
    assert (answer["changed"], answer["tasks"][0]["status"]) == (True, "cancelled")
    assert re.fullmatch("0 of 1 finished", told[0])


def test_mcp_says_what_to_install_when_the_sdk_is_missing(fleet: Program, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "mcp_types.py").write_text("raise ModuleNotFoundError('no mcp_types', name='mcp_types')\n")
    told = fleet("mcp", PYTHONPATH=str(hidden))
    assert (told.code, told.out) == (1, "")
    assert "the MCP SDK is not installed" in told.err
    assert "[mcp]" in told.err
    assert not fleet.home.exists(), "nothing is made for a server that cannot be"
