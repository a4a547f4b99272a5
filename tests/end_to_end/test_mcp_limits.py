"""Limits that end a worker, and the number of restarts: codefleet's variables with small values."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Tools, serving, stop, workshop
from repositories import run_git
from supervised import CODER, Supervised, home

__all__ = ["home"]

#: Agents that never end, stop printing after a while, or stop printing only in their first run.
AGENT = """\
#!/bin/sh
prompt=$(cat)
echo line >> work.txt
case "$prompt" in
*"go on for ever"*) while :; do echo 'still at it'; sleep 0.2; done ;;
*"fall silent"*) sleep 300 ;;
*"think for long"*) sleep 4 ;;
*"take three seconds"*)
    if [ ! -e once ]; then touch once; sleep 300; fi
    for part in $(seq 16); do echo "part $part"; sleep 0.2; done ;;
esac
echo '{"summary": "wrote it", "status": "completed"}' > "$FLEET_ARTIFACT_DIR/result.json"
"""


#: Variables of two servers: workers of one may be silent for a while; workers of the other have little time and meet
#: limits.
PATIENT = {"FLEET_STALE_TIMEOUT": "3", "FLEET_STALE_MAX_RESTARTS": "1", "FLEET_DEFAULT_TIMEOUT": "6"}
LIMITS = {"MAX_RETRIES": "3", "BASE_DELAY": "0.4", "MAX_DELAY": "0.9"}
HASTY = {f"FLEET_RATE_LIMIT_{name}": value for name, value in LIMITS.items()} | {"FLEET_DEFAULT_TIMEOUT": "2"}
OF_PATIENT = {"silent": {"prompt": "fall silent"}, "silent once": {"prompt": "take three seconds"}}
OF_HASTY: dict[str, dict[str, Any]] = {
    "usual": {"prompt": "go on for ever"},
    "longer": {"prompt": "go on for ever", "timeout_seconds": 3},
    "limited": {"prompt": "do: limit in=0.1", "executor": CODER, "timeout_seconds": 60},
    "limited once": {"prompt": "demo: limit=1 steps=1 pause=0", "executor": "demo", "timeout_seconds": 60},
}


class Shop(Supervised):
    """A home with that agent and with the tests' own coder, and a repository."""

    def __init__(self, base: Path) -> None:
        self.fleet, self.repo = workshop(base)
        self.audit = self.fleet.user / "audit"
        tests = Path(__file__).parents[1]
        self.fleet.env |= {"PYTHONPATH": f"{tests}:{tests / 'workers'}", "FLEET_DEFAULT_EXECUTOR": "plain"}
        agent = base / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        with (self.fleet.home / "runtime.toml").open("a") as file:
            file.write(f"\n[coders.plain]\nargv = [{json.dumps(str(agent))}]\n")
        self.set(f'agent.env={{AUDIT = "{self.audit}"}}')

    def asked(self, tools: Tools, orders: dict[str, dict[str, Any]]) -> dict[str, str]:
        """Create workers. Return their ids by name."""
        told = [{"repo_path": str(self.repo), "task_name": name} | order for name, order in orders.items()]
        made = tools.at_once("create_worker", told)
        return {name: each["worker_id"] for name, each in zip(orders, made, strict=True)}

    def pauses(self, key: str) -> list[float]:
        """Return the seconds between the runs of a worker."""
        return [(after["started_at"] - before["ended_at"]) / 1e6 for before, after in pairwise(self.runs(key))]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("limits"))
    yield made
    stop(made.fleet)


@pytest.fixture(scope="module")
def ended(shop: Shop) -> dict[str, dict[str, Any]]:
    """Return the result of each worker; all of them run at the same time."""
    with serving(shop.fleet, **PATIENT) as patient, serving(shop.fleet, **HASTY) as hasty:
        keys = shop.asked(patient, OF_PATIENT) | shop.asked(hasty, OF_HASTY)
        hasty.wait_over(*keys.values())
        return {name: hasty.ok("collect_worker_result", worker_id=key) for name, key in keys.items()}


def test_worker_past_its_time_is_timed_out_and_its_work_is_kept(shop: Shop, ended: dict[str, dict[str, Any]]) -> None:
    for worker, seconds in ((ended["usual"], 2.0), (ended["longer"], 3.0)):
        assert (worker["status"], worker["status_label"], worker["retry_count"]) == ("timed_out", "[TIMED OUT]", 0)
        assert worker["timeout_seconds"] == seconds
        (run,) = shop.runs(worker["worker_id"])
        assert run["ended_at"] - run["started_at"] >= seconds * 1e6
        assert worker["error_message"]
        kept = run_git(shop.repo, "show", f"{worker['branch_name']}:work.txt")
        assert kept == "line", "though it committed nothing"
    with serving(shop.fleet) as tools:
        listed = tools.ok("list_workers", statuses=["timed_out"])["workers"]
        assert {each["worker_id"] for each in listed} == {ended[name]["worker_id"] for name in ("usual", "longer")}
        gone = tools.ok("cleanup_worker", worker_id=ended["usual"]["worker_id"])
    assert (gone["worktree_removed"], gone["errors"]) == (True, [])
    assert run_git(shop.repo, "show", f"{gone['branch_kept_at']}:work.txt") == "line"


def test_silent_worker_is_restarted_only_as_often_as_allowed(shop: Shop, ended: dict[str, dict[str, Any]]) -> None:
    worker = ended["silent"]
    assert (worker["status"], worker["retry_count"]) == ("failed", 1)
    assert {run["ending"] for run in shop.runs(worker["worker_id"])} <= {"stalled", "start_hang"}
    kept = run_git(shop.repo, "show", f"{worker['branch_name']}:work.txt")
    assert kept.split() == ["line", "line"], "each goes on where the one before it ended, and all is kept"


def test_time_limit_restarts_when_a_worker_is_restarted(shop: Shop, ended: dict[str, dict[str, Any]]) -> None:
    """Each run has about three seconds to spare; both together would exceed the limit."""
    worker = ended["silent once"]
    assert (worker["status"], worker["retry_count"]) == ("succeeded", 1), shop.runs(worker["worker_id"])
    first, second = shop.runs(worker["worker_id"])
    assert second["ended_at"] - first["started_at"] > 6e6, "both together took longer"


def test_worker_at_a_limit_waits_longer_each_time_and_then_resumes_or_fails(
    shop: Shop, ended: dict[str, dict[str, Any]]
) -> None:
    worker = ended["limited"]
    assert (worker["status"], worker["retry_count"]) == ("failed", 3)
    assert worker["error_message"].startswith("waited for account limits 3 times; last: ")
    pauses = shop.pauses(worker["worker_id"])
    assert [pause >= least for pause, least in zip(pauses, (0.4, 0.8, 0.9), strict=True)] == [True] * 3, pauses
    worker = ended["limited once"]
    assert (worker["status"], worker["result"]["status"]) == ("succeeded", "completed")
    assert 1 <= worker["retry_count"] <= 3


def test_stale_timeout_of_0_ends_no_silent_worker(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.set("watchdog.first_event_seconds=1", "watchdog.silence_seconds=1")
    try:
        with serving(shop.fleet, FLEET_STALE_TIMEOUT="0") as tools:
            (key,) = shop.asked(tools, {"quiet": {"prompt": "think for long"}}).values()
            (worker,) = tools.wait_over(key)
            assert tools.ok("healthcheck")["stale_timeout"] == 0
        assert (worker["status"], len(shop.runs(key))) == ("succeeded", 1)
    finally:
        stop(shop.fleet)


def test_silence_setting_of_0_seconds_ends_no_silent_agent(home: Supervised) -> None:
    home.set("watchdog.first_event_seconds=0", "watchdog.silence_seconds=0")
    home.start()
    key = home.create("pause seconds=2")
    home.wait_status(key, "closed")
    assert len(home.runs(key)) == 1


@pytest.mark.parametrize("tool", ["create_worker", "create_task"])
def test_rate_limit_delays_of_a_server_apply_to_its_tasks_whoever_started_the_supervisor(
    tmp_path: Path, tool: str
) -> None:
    shop = Shop(tmp_path)
    shop.set("limits.rate_limit_base_seconds=3600", "limits.rate_limit_max_seconds=3600", "limits.rate_limit_retries=0")
    shop.fleet.ok("run", "start")
    limited = {"prompt": "do: limit in=unknown", "executor": CODER}
    said = {"MAX_RETRIES": "2", "BASE_DELAY": "0.2", "MAX_DELAY": "0.3"}
    try:
        with serving(shop.fleet, **{f"FLEET_RATE_LIMIT_{name}": value for name, value in said.items()}) as tools:
            if tool == "create_worker":
                (key,) = shop.asked(tools, {"limited": limited}).values()
            else:
                order = {"title": "limited", "prompt": "do: limit in=unknown", "coder": CODER, "cwd": str(shop.repo)}
                key = tools.ok("create_task", **order)["id"]
            tools.wait_over(key)
        assert [run["ending"] for run in shop.runs(key)] == ["rate_limited"] * 3
        pauses = shop.pauses(key)
        assert all(pause >= least for pause, least in zip(pauses, (0.2, 0.3), strict=True)), pauses
    finally:
        stop(shop.fleet)
