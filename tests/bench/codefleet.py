"""Servers that give work to agents over MCP, used by the same client with the same stub agent.

codefleet comes from PyPI with the last SDK that it works with, as pinned in the lock beside this file. The stub is a
`codex` on PATH that writes one file, hands in a result for both servers, and ends.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from program import Program
from repositories import big_repository, make_repository

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0
BIG = 2000
OVER = ("succeeded", "failed", "cancelled", "timed_out")
STUB = """\
#!/bin/sh
[ "$1" != --version ] || { echo 'codex-cli 1.0.0'; exit; }
while [ $# -gt 0 ]; do [ "$1" != --output-last-message ] || out=$2; shift; done
echo 'a line' > stub.txt
told='{"summary": "wrote it", "files_changed": ["stub.txt"], "tests": [], "commits": [], "next_steps": [], '
told="$told"'"status": "completed"}'
[ -z "$out" ] || echo "$told" > "$out"
[ -z "$FLEET_ARTIFACT_DIR" ] || echo "$told" > "$FLEET_ARTIFACT_DIR/result.json"
echo '{"type": "thread.started", "thread_id": "0199a213-81c0-7800-8aa1-bbab2a035a53"}'
echo '{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}'
"""


class Server:
    """One of the two servers, with its own home and repositories."""

    name = ""

    def __init__(self, base: Path) -> None:
        base.mkdir()
        self.base = base
        self.program = Program(base)
        stub = base / "bin" / "codex"
        stub.parent.mkdir()
        stub.write_text(STUB)
        stub.chmod(0o755)
        self.repos = {20: make_repository(base / "small", 20), BIG: big_repository(base / "big", BIG)}
        self.program.env |= {
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
            "FLEET_MAX_CONCURRENT": "100",
            "CODEX_API_KEY": "none",
            "GIT_AUTHOR_NAME": "A Person",
            "GIT_AUTHOR_EMAIL": "person@example.invalid",
            "GIT_COMMITTER_NAME": "A Person",
            "GIT_COMMITTER_EMAIL": "person@example.invalid",
        }
        self.argv: list[str] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Client]:
        """Run the server and yield its client."""
        command, *args = self.argv
        server = StdioServerParameters(command=command, args=args, env=self.program.env, cwd=str(self.base))
        with (self.base / "server.err").open("a") as errors:
            async with Client(stdio_client(server, errlog=errors)) as client:
                yield client

    async def finish(self, client: Client, files: int, count: int) -> tuple[float, int]:
        """Create this many workers.

        Return the seconds until all are recorded as finished, and the number of stuck ones.
        """
        began = time.monotonic()
        order = {"repo_path": str(self.repos[files]), "prompt": "write a file", "executor": "codex"}
        made = await asyncio.gather(
            *(call(client, "create_worker", order | {"task_name": f"part {number}"}) for number in range(count))
        )
        if failed := [each for each in made if "error" in each]:
            raise SystemExit(f"{self.name} refused {len(failed)} of {count}: {failed[0]}")
        ids = {str(each["worker_id"]) for each in made}
        found = await self.until_over(client, ids, began + PATIENCE)
        return time.monotonic() - began, sum(found.get(key) != "succeeded" for key in ids)

    async def until_over(self, client: Client, ids: set[str], deadline: float) -> dict[str, str]:
        """Wait for workers as users of the server do. Return the final status of each."""
        raise NotImplementedError

    def stop(self) -> None:
        """End everything that the server left."""


class Codefleet(Server):
    """codefleet, whose users poll."""

    name = "codefleet"

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        words = [
            sys.executable,
            str(ROOT / "tools" / "venv.py"),
            "--program",
            "codefleet",
            "tests/bench/codefleet.lock",
        ]
        found = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        if found.returncode:
            sys.exit(found.returncode)
        self.argv = [found.stdout.strip()]
        self.program.env["FLEET_BASE_DIR"] = str(base / "codefleet")

    async def until_over(self, client: Client, ids: set[str], deadline: float) -> dict[str, str]:
        found: dict[str, str] = {}
        quiet = time.monotonic()
        # codefleet shows a worker as running forever if it ended before its start was recorded. Give up on it.
        while len(found) < len(ids) and time.monotonic() < min(deadline, quiet + 20):
            listed = await call(client, "list_workers", {"limit": len(ids)})
            now = {each["worker_id"]: each["status"] for each in listed["workers"] if each["status"] in OVER}
            quiet = time.monotonic() if len(now) > len(found) else quiet
            found = {key: status for key, status in now.items() if key in ids}
            await asyncio.sleep(0.01)
        return found


class Fleet(Server):
    """This fleet, as the installed program, whose users wait."""

    name = "fleet"

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.argv = [str(Path(sys.executable).with_name("fleet")), "mcp"]
        self.program.ok("init", "--home", "--permissions", "skip")
        self.program.ok("config", "set", "max_concurrent=100")

    async def until_over(self, client: Client, ids: set[str], deadline: float) -> dict[str, str]:
        left = min(3600.0, deadline - time.monotonic())
        told = await call(client, "wait", {"ids": sorted(ids), "until": "all", "timeout_seconds": left})
        return {each["id"]: each["status"] for each in told["tasks"]}

    def stop(self) -> None:
        self.program("run", "stop", "--stop-agents")


async def call(client: Client, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a tool."""
    done = await client.call_tool(name, given, read_timeout_seconds=PATIENCE)
    found: dict[str, Any] = json.loads(done.content[0].text)  # type: ignore[union-attr]
    return found
