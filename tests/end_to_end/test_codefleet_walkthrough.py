"""The document of codefleet, story by story, through the MCP SDK's own client.

The three CLIs are stubs on PATH (`stub_clis`); tests/real/test_codefleet_by_real_clis.py uses the real ones. The three
examples of workflows have their own file, test_codefleet_examples.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import Tools, serving, stop, workshop
from program import Program
from repositories import branches, make_repository, run_git, worktrees
from stub_clis import NAMES, heard, play, with_stub_clis

SINGLE = {
    "codex": "add rate limiting to the API gateway",
    "claude": "write tests for the auth module",
    "gemini": "refactor the database models",
}
VARIABLES = ("summary", "files", "next_steps", "status", "result")
#: One prompt hangs until it is stopped; the others write a file each.
PART = """
case $heard in
*"take for ever"*) echo half > half.txt; sleep 300 ;;
esac
echo "by $name" > "$name-$FLEET_TASK_ID.txt"
"""


class Shop(NamedTuple):
    """A home that finds stubs of the three CLIs, a repository, and a server with its client."""

    fleet: Program
    repo: Path
    tools: Tools

    def over(self, made: dict[str, Any]) -> dict[str, Any]:
        """Wait until a workflow has ended. Return its status."""
        key = made["workflow_id"]
        assert not self.tools.ok("wait", ids=[key], until="all", timeout_seconds=45)["timed_out"]
        return self.tools.ok("get_workflow_status", workflow_id=key)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path_factory.mktemp("story"))
    del fleet.env["FLEET_DEFAULT_EXECUTOR"]
    with_stub_clis(fleet)
    play(fleet, PART)
    with serving(fleet) as tools:
        yield Shop(fleet, repo, tools)
    stop(fleet)


def test_clis_are_found_and_defaults_match_the_document(shop: Shop) -> None:
    health = shop.tools.ok("healthcheck")
    assert health["ok"] and health["git_found"]
    assert [health[f"{name}_found"] for name in NAMES] == [True, True, True]
    told = ("default_executor", "default_timeout", "max_concurrent", "max_spawn_depth", "stale_timeout")
    assert [health[name] for name in told] == ["codex", 600.0, 50, 2, 120.0]


def test_single_workers_of_each_kind_work_in_parallel(shop: Shop) -> None:
    orders = [
        {"repo_path": str(shop.repo), "task_name": task, "prompt": task, "executor": name}
        for name, task in SINGLE.items()
    ]
    made = shop.tools.at_once("create_worker", orders)
    keys = [each["worker_id"] for each in made]
    assert [each["status"] for each in shop.tools.wait_over(*keys)] == ["succeeded"] * 3
    for (name, task), key in zip(SINGLE.items(), keys, strict=True):
        done = shop.tools.ok("collect_worker_result", worker_id=key, include_logs=True)
        assert (done["executor"], done["branch_name"]) == (name, f"{name}/{task.replace(' ', '-')}/{key}")
        assert heard(shop.fleet, key) == task
        assert (done["result"]["summary"], done["result"]["status"]) == (f"{name} wrote it", "completed")
        assert done["result"]["files_changed"] == [f"{name}-{key}.txt"] and done["result"]["next_steps"]
        assert done["stdout_tail"] and done["elapsed"] and done["summary_line"]
        assert done["worktree_path"] in worktrees(shop.repo)
        assert run_git(shop.repo, "show", f"{done['branch_name']}:{name}-{key}.txt") == f"by {name}"
    assert run_git(shop.repo, "status", "--porcelain") == "", "the user's own checkout is untouched"
    listed = shop.tools.ok("list_workers", statuses=["succeeded"], limit=3)
    assert (listed["count"], {each["worker_id"] for each in listed["workers"]}) == (3, set(keys))
    gone = [shop.tools.ok("cleanup_worker", worker_id=key) for key in keys]
    assert all(each["worktree_removed"] and each["branch_removed"] and not each["errors"] for each in gone)
    assert not any(each["worktree_path"] in worktrees(shop.repo) for each in made)


def test_codex_works_when_no_executor_is_given(shop: Shop) -> None:
    order = {"repo_path": str(shop.repo), "task_name": "anything", "prompt": "do it"}
    key = shop.tools.ok("create_worker", **order)["worker_id"]
    shop.tools.wait_over(key)
    assert shop.tools.ok("get_worker_status", worker_id=key)["executor"] == "codex"


def test_codex_implements_claude_reviews_and_codex_refines(shop: Shop) -> None:
    """The quick start, as claude calls it."""
    made = shop.tools.ok(
        "create_workflow",
        name="registration",
        repo_path=str(shop.repo),
        task_prompt="add input validation to the registration endpoint",
        stages=[
            {"name": "implement", "executor": "codex", "prompt_template": "{task_prompt}"},
            {
                "name": "review",
                "executor": "claude",
                "prompt_template": "Review: {stage_0_summary}",
                "worktree_strategy": "inherit",
                "depends_on": [0],
            },
            {
                "name": "refine",
                "executor": "codex",
                "prompt_template": "Refine: {stage_1_next_steps}",
                "worktree_strategy": "inherit",
                "depends_on": [1],
            },
        ],
    )
    done = shop.over(made)
    assert (done["status"], done["progress"]) == ("succeeded", "3/3 stages complete (3 done)")
    assert [each["executor"] for each in done["stage_summary"]] == ["codex", "claude", "codex"]
    keys = [str(each["worker_id"]) for each in done["stage_summary"]]
    assert "codex wrote it" in heard(shop.fleet, keys[1]) and "as claude says" in heard(shop.fleet, keys[2])
    final = shop.tools.ok("collect_workflow_result", workflow_id=made["workflow_id"])["final_result"]
    assert final["worker_id"] == keys[2]
    files = run_git(shop.repo, "ls-tree", "--name-only", shop_branch(shop, keys[2]))
    assert all(key in files for key in keys), "the last one has what all three made"
    listed = shop.tools.ok("list_workflows", statuses=["succeeded"])["workflows"]
    assert made["workflow_id"] in [each["workflow_id"] for each in listed]
    gone = shop.tools.ok("cleanup_workflow", workflow_id=made["workflow_id"])
    assert gone["errors"] == [] and len(gone["branches_kept_at"]) == 3
    assert not any(key in branch for key in keys for branch in branches(shop.repo))


def test_every_variable_is_filled_in_and_other_braces_stay(shop: Shop) -> None:
    template = 'Keep {"json": {"a": 1}} and {name}.\n' + "".join(f"{each}={{stage_0_{each}}}\n" for each in VARIABLES)
    stages = [
        {"name": "first", "prompt_template": "{task_prompt}"},
        {"name": "second", "prompt_template": template, "depends_on": [0]},
    ]
    made = shop.tools.ok("create_workflow", name="v", repo_path=str(shop.repo), task_prompt="it", stages=stages)
    first, second = (str(each["worker_id"]) for each in shop.over(made)["stage_summary"])
    told = heard(shop.fleet, second)
    assert heard(shop.fleet, first) == "it" and 'Keep {"json": {"a": 1}} and {name}.' in told
    assert "{stage_" not in told
    for words in ("codex wrote it", f"codex-{first}.txt", "as codex says", "completed", '"files_changed"'):
        assert words in told


def test_running_workflow_is_canceled_and_its_work_is_kept(shop: Shop) -> None:
    stages = [
        {"name": "slow", "executor": "gemini", "prompt_template": "take for ever"},
        {"name": "then", "executor": "claude", "prompt_template": "x", "depends_on": [0]},
    ]
    made = shop.tools.ok("create_workflow", name="c", repo_path=str(shop.repo), task_prompt="it", stages=stages)
    slow = str(made["stage_summary"][0]["worker_id"])
    while not (shop.fleet.home / "tasks" / slow / "heard").exists():
        shop.tools.ok("wait", ids=[slow], timeout_seconds=1)
    shop.tools.ok("cancel_workflow", workflow_id=made["workflow_id"])
    done = shop.over(made)
    assert (done["status"], [each["status"] for each in done["stage_summary"]]) == ("cancelled", ["cancelled"] * 2)
    assert shop.tools.ok("get_worker_status", worker_id=slow)["status"] == "cancelled"
    shop.tools.ok("cleanup_workflow", workflow_id=made["workflow_id"])


def test_workers_run_only_in_allowed_repositories(shop: Shop, tmp_path: Path) -> None:
    """The server is registered with the document's options."""
    other = make_repository(tmp_path / "other")
    allowed = {"FLEET_ALLOWED_REPOS": f"{shop.repo},{tmp_path / 'b'}", "FLEET_MAX_SPAWN_DEPTH": "2"}
    with serving(shop.fleet, **allowed) as tools:
        order = {"task_name": "x", "prompt": "y"}
        assert "is not an allowed repository" in tools.refused("create_worker", repo_path=str(other), **order)
        key = tools.ok("create_worker", repo_path=str(shop.repo), **order)["worker_id"]
        assert [each["status"] for each in tools.wait_over(key)] == ["succeeded"]


def shop_branch(shop: Shop, key: str) -> str:
    (task,) = json.loads(shop.fleet.ok("bd", "show", key, "--json"))
    return str(task["metadata"]["fleet.branch"])
