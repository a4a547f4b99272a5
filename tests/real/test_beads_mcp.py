"""beads-mcp, a foreign client, uses fleet's `bd` on PATH through MCP."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from needs import require
from program import Program

#: The environment in which `make test` installed beads-mcp. It is separate because beads-mcp pins other versions.
SERVER = os.environ.get("FLEET_TEST_BEADS_MCP", "")


class Server:
    """A running beads-mcp that is called by JSON-RPC over stdin and stdout."""

    def __init__(self, fleet: Program) -> None:
        env = fleet.env | {"PATH": f"{fleet.home}/bin:{fleet.env['PATH']}", "BEADS_ACTOR": "mcp"}
        env |= {"BEADS_WORKING_DIR": str(fleet.cwd), "FASTMCP_CHECK_FOR_UPDATES": "off"}
        self._log = (fleet.user / "beads-mcp.log").open("w")
        self._process = subprocess.Popen(
            [SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=env, cwd=fleet.cwd, text=True
        )
        self._last = 0
        client = {"name": "fleet-tests", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool. Return its structured answer or its text."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        text = "".join(part.get("text", "") for part in result["content"])
        assert not result.get("isError"), text
        structured = result.get("structuredContent")
        if structured is not None:
            return structured.get("result", structured)
        return json.loads(text) if text[:1] in "[{" else text

    def stop(self) -> None:
        """End the server and its pipes."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        self._send({"method": method, "params": params, "id": self._last})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer
        raise AssertionError("beads-mcp ended without an answer")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@pytest.fixture
def server(fleet: Program) -> Iterator[Server]:
    require(bool(SERVER) and Path(SERVER).exists(), "beads-mcp from PyPI")
    fleet.ok("init", "--permissions", "user")
    running = Server(fleet)
    yield running
    running.stop()


def test_beads_mcp_works_on_a_task_from_creation_to_end(server: Server, fleet: Program) -> None:
    first = server.call(
        "create", title="write the parser", priority=1, labels=["web"], description="all of it", brief=False
    )
    second = server.call("create", title="use the parser", deps=[first["id"]], issue_type="feature", brief=False)
    assert (first["priority"], first["labels"], second["issue_type"]) == (1, ["web"], "feature")
    assert [row["id"] for row in server.call("ready")] == [first["id"]]
    assert [row["id"] for row in server.call("blocked")] == [second["id"]]

    claimed = server.call("claim", issue_id=first["id"], brief=False)
    assert (claimed["status"], claimed["assignee"]) == ("in_progress", "mcp")
    server.call("update", issue_id=first["id"], notes="half way", priority=0)
    server.call("comment", issue_id=first["id"], text='it\'s "done"; drop table tasks')
    server.call("note", issue_id=first["id"], text="and more")
    shown = server.call("show", issue_id=first["id"], brief=False)
    assert (shown["priority"], shown["notes"]) == (0, "half way\nand more")
    assert [each["text"] for each in server.call("comments", issue_id=first["id"])] == [
        'it\'s "done"; drop table tasks'
    ]

    server.call("close", issue_id=first["id"], reason="parses everything")
    assert [row["id"] for row in server.call("ready")] == [second["id"]]
    server.call("reopen", issue_ids=[first["id"]], reason="not everything")
    assert [row["id"] for row in server.call("ready")] == [first["id"]]
    assert fleet.ok("bd", "show", first["id"], "--json").count("close_reason") == 0


def test_beads_mcp_adds_dependencies_lists_and_counts(server: Server) -> None:
    ids = [server.call("create", title=f"part {number}", brief=False)["id"] for number in range(3)]
    server.call("dep", issue_id=ids[0], depends_on_id=ids[1])
    server.call("dep", issue_id=ids[2], depends_on_id=ids[1], dep_type="related")
    assert {row["id"] for row in server.call("ready")} == set(ids[1:])
    assert {row["id"] for row in server.call("list", status="open")} == set(ids)
    assert [row["id"] for row in server.call("list", query="part 2")] == [ids[2]]
    summary = server.call("stats")["summary"]
    assert (summary["total_issues"], summary["open_issues"], summary["blocked_issues"]) == (3, 3, 1)


def test_beads_mcp_gets_refusals(server: Server) -> None:
    ids = [server.call("create", title=f"part {number}", brief=False)["id"] for number in range(2)]
    server.call("dep", issue_id=ids[0], depends_on_id=ids[1])
    assert "cycle" in str(server.call("dep", issue_id=ids[1], depends_on_id=ids[0]))
