"""Regressions: the defects that were found in codefleet's workers must not occur in fleet."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import Tools, is_alive, serving, stop, workshop
from program import Program
from repositories import make_repository, run_git
from supervised import wait_for

#: Agents that end at once, write about logins and limits, print very much, or cannot continue; and an honest one.
AGENT = """\
#!/bin/sh
prompt=$(cat)
case "$prompt" in
*"be quick"*) exit 3 ;;
*"edit the login page"*)
    echo 'Authentication required. Please run: codex login'
    echo 'HTTP 429 Too Many Requests: rate limit' >&2 ;;
*"talk a lot"*) seq -f 'line %012.0f of very many' 1 5000 ;;
*"fall once"*)
    if [ ! -e fallen ]; then echo $$ > "$FLEET_ARTIFACT_DIR/pid-1"; touch fallen; exit 3; fi
    echo $$ > "$FLEET_ARTIFACT_DIR/pid-2"
    while [ ! -e "$FLEET_ARTIFACT_DIR/go" ]; do sleep 0.1; done
    echo done >> work.txt; exit 7 ;;
*"reach the database"*)
    echo half > half.txt
    echo '{"summary": "no credentials", "status": "blocked"}' > "$FLEET_ARTIFACT_DIR/result.json"
    exit ;;
*"take your time"*) for part in 1 2 3 4 5 6; do echo "part $part"; sleep 0.3; done ;;
esac
echo done >> work.txt
echo '{"summary": "wrote it", "status": "completed", "files_changed": ["work.txt"]}' > "$FLEET_ARTIFACT_DIR/result.json"
echo 'all done'
"""


class Shop(NamedTuple):
    """A home whose coder is that agent, a repository, and a server with its client."""

    fleet: Program
    repo: Path
    tools: Tools

    def order(self, prompt: str, **given: object) -> dict[str, Any]:
        return {"repo_path": str(self.repo), "task_name": "do it", "prompt": prompt} | given

    def make(self, prompt: str, **given: object) -> str:
        return str(self.tools.ok("create_worker", **self.order(prompt, **given))["worker_id"])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    base = tmp_path_factory.mktemp("defects")
    fleet, repo = workshop(base, **{"limits.retry_limit": "1", "limits.continue_limit": "0"})
    agent = base / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    with (fleet.home / "runtime.toml").open("a") as file:
        file.write(f"\n[coders.plain]\nargv = [{json.dumps(str(agent))}]\n")
    fleet.env["FLEET_DEFAULT_EXECUTOR"] = "plain"
    with serving(fleet) as tools:
        yield Shop(fleet, repo, tools)
    stop(fleet)


def test_worker_that_ends_at_once_is_not_shown_as_running(shop: Shop) -> None:
    made = shop.tools.at_once("create_worker", [shop.order("be quick") for _ in range(12)])
    ids = [each["worker_id"] for each in made]
    over = shop.tools.wait_over(*ids)
    assert {each["status"] for each in over} == {"failed"}
    found = shop.tools.ok("collect_worker_result", worker_id=ids[0])
    assert (found["exit_code"], found["result"]["status"], found["result_made_by"]) == (3, "failed", "fleet")
    assert found["error_message"]
    assert shop.tools.ok("list_workers", statuses=["running", "pending"])["count"] == 0, "none counts as running"
    assert shop.tools.ok("cleanup_worker", worker_id=ids[0])["errors"] == []


def test_output_of_a_worker_is_complete_when_the_server_dies(shop: Shop) -> None:
    with Raw(shop.fleet) as server:
        key = server.call("create_worker", shop.order("take your time"))["worker_id"]
        while server.call("get_worker_status", {"worker_id": key})["status"] == "pending":
            server.call("wait", {"ids": [key], "timeout_seconds": 5})
        server.kill()
    assert [each["status"] for each in shop.tools.wait_over(key)] == ["succeeded"]
    found = shop.tools.ok("collect_worker_result", worker_id=key, include_logs=True)
    assert "part 6" in found["stdout_tail"]
    assert "all done" in found["stdout_tail"]
    assert "work.txt" in shop.tools.ok("diff", task_id=key, names=True)["diff"]


def test_worker_is_not_ended_when_its_output_mentions_logins_and_limits(shop: Shop) -> None:
    key = shop.make("edit the login page")
    assert [each["status"] for each in shop.tools.wait_over(key)] == ["succeeded"]
    assert shop.tools.ok("get_worker_status", worker_id=key)["retry_count"] == 0


def test_cleanup_keeps_the_work_of_a_succeeded_worker_reachable(shop: Shop) -> None:
    key = shop.make("just do it")
    shop.tools.wait_over(key)
    gone = shop.tools.ok("cleanup_worker", worker_id=key)
    assert (gone["worktree_removed"], gone["branch_removed"]) == (True, True)
    assert run_git(shop.repo, "show", f"{gone['branch_kept_at']}:work.txt") == "done"


def test_restarted_worker_is_followed_after_a_crash_and_keeps_its_exit_code(shop: Shop) -> None:
    """fleet recognizes a live agent by its shim, not by a process id that another process may have reused."""
    key = shop.make("fall once")
    shop.tools.wait_over(key)
    shop.fleet.ok("retry", key)
    folder = shop.fleet.home / "tasks" / key / "artifacts"
    wait_for((folder / "pid-2").exists, "its second run", lambda: shop.fleet("tasks").out)
    agent = int((folder / "pid-2").read_text())
    old = shop.tools.ok("healthcheck")["supervisor"]["pid"]
    os.kill(old, signal.SIGKILL)
    with serving(shop.fleet) as tools:  # a server starts another supervisor
        wait_for(lambda: tools.ok("healthcheck")["supervisor"]["pid"] not in (None, old), "another supervisor")
        assert is_alive(agent)
        assert tools.ok("get_worker_status", worker_id=key)["status"] == "running"
        (folder / "go").touch()
        assert [each["status"] for each in tools.wait_over(key)] == ["failed"]
        found = tools.ok("get_worker_status", worker_id=key)
    assert (found["exit_code"], found["retry_count"]) == (7, 1), "its own exit code, and no third run"
    assert not (folder / "pid-3").exists()


def test_worker_that_cannot_start_fails(shop: Shop, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "going")
    shop.fleet.ok("pause")
    try:
        key = shop.make("just do it", repo_path=str(repo))
        repo.rename(tmp_path / "gone")
    finally:
        shop.fleet.ok("resume")
    assert [each["status"] for each in shop.tools.wait_over(key)] == ["failed"]
    assert shop.tools.ok("get_worker_status", worker_id=key)["error_message"]


def test_calls_do_not_wait_for_each_other(shop: Shop) -> None:
    """The database is locked: twenty creates wait for it, while every other call is answered."""
    key = shop.make("just do it")
    shop.tools.wait_over(key)
    with closing(sqlite3.connect(shop.fleet.home / "fleet.db", isolation_level=None, timeout=30)) as database:
        database.execute("begin immediate")
        making = [shop.tools.start(shop.tools.call("create_worker", shop.order("just do it"))) for _ in range(20)]
        for _ in range(5):
            shop.tools.ok("get_worker_status", worker_id=key)
        assert not any(each.done() for each in making)
        database.execute("rollback")
    ids = [each.result(60)["worker_id"] for each in making]
    assert {each["status"] for each in shop.tools.wait_over(*ids)} == {"succeeded"}


def test_logs_are_read_from_their_end_and_bounded(shop: Shop) -> None:
    key = shop.make("talk a lot")
    shop.tools.wait_over(key)
    found = shop.tools.ok("collect_worker_result", worker_id=key, include_logs=True, log_tail_lines=1_000_000)
    assert len(found["stdout_tail"]) <= 64 * 1024
    assert "all done" in found["stdout_tail"]


class Raw:
    """A client that speaks the protocol of an older version, so that the test can kill its server."""

    def __init__(self, fleet: Program) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*fleet.argv, "mcp"], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=fleet.env, cwd=fleet.cwd
        )
        self._number = 0
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
        self._ask("initialize", hello)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a tool."""
        done = self._ask("tools/call", {"name": name, "arguments": given})
        found: dict[str, Any] = json.loads(done["content"][0]["text"])
        assert "error" not in found, found
        return found

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._say({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        end = time.monotonic() + 60
        while time.monotonic() < end:
            told = json.loads(self._process.stdout.readline())
            if told.get("id") == self._number:
                found: dict[str, Any] = told["result"]
                return found
        raise AssertionError(f"no answer to {method}")

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def test_worker_that_reports_being_blocked_has_failed(shop: Shop) -> None:
    key = shop.make("reach the database")
    (over,) = shop.tools.wait_over(key)
    told = (over["status"], over["task_status"], over["finding"], over["reason"])
    assert told == ("failed", "blocked", "incomplete", "the agent reports that it is blocked: no credentials")
    found = shop.tools.ok("collect_worker_result", worker_id=key)
    assert (found["status"], found["error_message"]) == ("failed", over["reason"])
    assert (found["result"]["status"], found["result"]["files_changed"]) == ("blocked", ["half.txt"])
    assert found["retry_count"] == 0
