"""A worker's life through the real MCP server: created, watched, collected, canceled, cleaned up, and never lost."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mcp_client import Tools, serving, stop, workshop
from program import Program
from repositories import branches, run_git, worktrees

#: The keys of codefleet's payload of a worker.
PAYLOAD = {
    *("worker_id", "task_name", "status", "repo_path", "branch_name", "worktree_path", "worker_dir", "model"),
    *("executor", "profile", "created_at", "started_at", "ended_at", "last_heartbeat_at", "last_activity_at"),
    *("timeout_seconds", "pid", "exit_code", "retry_count", "tags", "metadata", "error_message", "heartbeat_message"),
    *("result_json_path", "stdout_path", "stderr_path", "meta_path", "elapsed", "heartbeat_age", "last_output_age"),
    *("status_label", "summary_line"),
}


class Shop(NamedTuple):
    """A home, a repository, and a server with its client."""

    fleet: Program
    repo: Path
    tools: Tools

    def make(self, prompt: str, **given: object) -> str:
        """Create a worker. Return its id."""
        told = {"repo_path": str(self.repo), "task_name": "do it", "prompt": prompt} | given
        return str(self.tools.ok("create_worker", **told)["worker_id"])

    def task(self, key: str) -> dict[str, object]:
        """Return the task as bd shows it."""
        (found,) = json.loads(self.fleet.ok("bd", "show", key, "--json"))
        return dict(found)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path_factory.mktemp("workers"))
    with serving(fleet) as tools:
        yield Shop(fleet, repo, tools)
    stop(fleet)


def test_worker_is_created_at_once_and_its_result_collected(shop: Shop) -> None:
    made = shop.tools.ok(
        "create_worker",
        repo_path=str(shop.repo),
        task_name="Add a README!",
        prompt="write it\ndemo: steps=2 pause=0",
        tags=["docs"],
        metadata={"ticket": 7},
        timeout_seconds="300",
    )
    assert set(made) >= PAYLOAD
    key = made["worker_id"]
    assert re.fullmatch("w_[0-9a-f]{12}", key)
    assert made["branch_name"] == f"demo/Add-a-README/{key}"
    assert (made["status"], made["timeout_seconds"], made["tags"]) == ("pending", 300.0, ["docs"])
    assert made["metadata"] == {"ticket": 7}
    shop.tools.wait_over(key)
    done = shop.tools.ok("collect_worker_result", worker_id=key, include_logs=True, log_tail_lines=5)
    assert (done["status"], done["exit_code"], done["status_label"]) == ("succeeded", 0, "[OK]"), done
    assert done["worktree_path"] == made["worktree_path"], "it lies where it was said to"
    assert Path(done["worktree_path"]).is_dir()
    assert done["result"]["status"] == "completed"
    assert 1 <= len(done["stdout_tail"].splitlines()) <= 5
    assert "stderr_tail" in done
    assert made["branch_name"] in branches(shop.repo)
    assert done["ended_at"] >= done["started_at"] >= done["created_at"]


def test_worker_waits_for_a_host_with_the_required_labels(shop: Shop) -> None:
    key = shop.make("demo: steps=1 pause=0", requires=["gpu"], host="elsewhere")
    other = shop.tools.ok("create_task", title="there", requires=["gpu"])["id"]
    for each, wanted in ((key, ["gpu", "host:elsewhere"]), (other, ["gpu"])):
        assert json.loads(str(dict(shop.task(each)["metadata"])["fleet.requires"])) == wanted  # type: ignore[call-overload]
    shop.tools.wait_over(shop.make("demo: steps=1 pause=0"))  # created later and done: no task waits for the first
    assert shop.tools.ok("get_worker_status", worker_id=key)["status"] == "pending"
    shop.fleet.ok("config", "set", 'host.labels=["gpu"]')
    shop.tools.wait_over(other)
    shop.tools.ok("cancel_worker", worker_id=key)


def test_many_workers_created_at_once_all_succeed(shop: Shop) -> None:
    orders = [
        {"repo_path": str(shop.repo), "task_name": f"part {number}", "prompt": "go\ndemo: steps=1 pause=0"}
        for number in range(8)
    ]
    made = shop.tools.at_once("create_worker", orders)
    ids = [each["worker_id"] for each in made]
    assert len(set(ids)) == 8
    assert [each["task_name"] for each in made] == [each["task_name"] for each in orders]
    assert {each["status"] for each in shop.tools.wait_over(*ids)} == {"succeeded"}
    listed = shop.tools.ok("list_workers", limit=8)
    assert {each["worker_id"] for each in listed["workers"]} == set(ids)
    assert (listed["count"], listed["summary"]) == (8, "8 workers: 8 ok")


def test_canceled_worker_keeps_its_work_and_cleanup_saves_it(shop: Shop) -> None:
    key = shop.make("go\ndemo: hang=middle")
    while not (now := shop.tools.ok("get_worker_status", worker_id=key))["last_activity_at"]:
        shop.tools.ok("wait", ids=[key], timeout_seconds=5)
    assert "running" in (now["status"], shop.tools.ok("get_worker_status", worker_id=key)["status"])
    assert "cannot clean up" in shop.tools.refused("cleanup_worker", worker_id=key)
    precious = Path(now["worktree_path"]) / "precious.txt"
    precious.write_text("hours of work")
    shop.tools.ok("cancel_worker", worker_id=key)
    (over,) = shop.tools.wait_over(key)
    assert over["status"] == "cancelled"
    assert "is already cancelled" in shop.tools.refused("cancel_worker", worker_id=key)
    gone = shop.tools.ok("cleanup_worker", worker_id=key)
    assert (gone["worktree_removed"], gone["branch_removed"], gone["errors"]) == (True, True, [])
    assert now["worktree_path"] not in worktrees(shop.repo)
    assert now["branch_name"] not in branches(shop.repo)
    kept = [gone["branch_kept_at"], *gone["saved_refs"]]
    assert any(
        run_git(shop.repo, "show", f"{ref}:precious.txt", check=False) == "hours of work" for ref in kept if ref
    ), gone
    again = shop.tools.ok("cleanup_worker", worker_id=key)
    assert again["worktree_removed"] is False
    assert again["errors"] == []


def test_worker_that_has_not_started_is_canceled_at_once(shop: Shop) -> None:
    shop.fleet.ok("pause")
    try:
        key = shop.make("go")
        assert shop.tools.ok("get_worker_status", worker_id=key)["status"] == "pending"
        assert shop.tools.ok("cancel_worker", worker_id=key)["status"] == "cancelled"
    finally:
        shop.fleet.ok("resume")
    found = shop.tools.ok("list_workers", statuses=["cancelled"])
    assert key in [each["worker_id"] for each in found["workers"]]
    assert key not in [each["worker_id"] for each in shop.tools.ok("list_workers", statuses=["running"])["workers"]]
    gone = shop.tools.ok("cleanup_worker", worker_id=key)
    assert (gone["worktree_removed"], gone["errors"]) == (False, [])


def test_cleanup_keeps_the_branch_when_told(shop: Shop) -> None:
    key = shop.make("go\ndemo: steps=1 pause=0")
    shop.tools.wait_over(key)
    branch = shop.tools.ok("get_worker_status", worker_id=key)["branch_name"]
    gone = shop.tools.ok("cleanup_worker", worker_id=key, remove_branch=False)
    assert (gone["worktree_removed"], gone["branch_removed"]) == (True, False)
    assert branch in branches(shop.repo)


def test_base_is_the_commit_that_the_caller_names(shop: Shop) -> None:
    first = run_git(shop.repo, "rev-parse", "HEAD")
    run_git(shop.repo, "commit", "--quiet", "--allow-empty", "--message=second")
    old, new = shop.make("go", base_ref="HEAD~1"), shop.make("go")
    assert shop.fleet.ok("bd", "show", old, "--json").count(first)
    assert run_git(shop.repo, "rev-parse", "HEAD") in shop.fleet.ok("bd", "show", new, "--json")
    for key in (old, new):
        shop.tools("cancel_worker", worker_id=key)


def test_environment_of_the_server_goes_into_the_task(tmp_path: Path) -> None:
    """Beyond FLEET_MAX_CONCURRENT, work is queued, not refused. The server may end, and the work continues."""
    fleet, repo = workshop(tmp_path)
    given = {"FLEET_DEFAULT_TIMEOUT": "77", "FLEET_STALE_TIMEOUT": "33", "FLEET_MAX_CONCURRENT": "1"}
    with serving(fleet, FLEET_REASONING_EFFORT="high", FLEET_MAX_SPAWN_DEPTH="1", **given) as tools:
        shop = Shop(fleet, repo, tools)
        keys = [shop.make("go\ndemo: steps=2 pause=0.2", extra_args=["--fast"]) for _ in range(3)]
        spec = shop.task(keys[0])["metadata"]
        assert isinstance(spec, dict)
        assert json.loads(spec["fleet.limits"]) == {"wall_seconds": 77.0, "silence_seconds": 33.0}
        rules = json.loads(spec["fleet.rules"])
        assert {name: rules[name] for name in ("at_once", "depth", "reasoning_effort", "extra_args", "retries")} == {
            "at_once": 1,
            "depth": 1,
            "reasoning_effort": "high",
            "extra_args": ["--fast"],
            "retries": 0,
        }
    fleet.ok("wait", *keys, "--timeout", "50")
    with serving(fleet) as tools:
        listed = tools.ok("list_workers")
        assert [each["status"] for each in listed["workers"]] == ["succeeded"] * 3, (
            "it is all there for the next server"
        )
    stop(fleet)
