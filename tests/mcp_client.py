"""The real `fleet mcp`, driven by the SDK's own client over stdin and stdout."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp.client import Client
from mcp.server.stdio import stdio_server

from program import Program
from repositories import make_repository
from supervised import commands, environment, wait_for

T = TypeVar("T")
PATIENCE = 120.0


class Tools:
    """A client with its server, called from a test's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        self._loop, self.client = loop, client

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine on the client's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def __call__(self, name: str, /, **given: Any) -> dict[str, Any]:
        """Return the answer of a tool, which may be an error."""
        return self.start(self.call(name, given)).result(PATIENCE)

    def ok(self, name: str, /, **given: Any) -> dict[str, Any]:
        """Return the answer of a tool, which must not be an error."""
        answer = self(name, **given)
        assert "error" not in answer, answer
        return answer

    def refused(self, name: str, /, **given: Any) -> str:
        """Return the name and details of the error with which a tool refuses."""
        answer = self(name, **given)
        assert set(answer) - {"hint"} == {"error", "details"}, answer
        return f"{answer['error']}: {answer['details']}"

    def at_once(self, name: str, many: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Make many calls at the same time. Return their answers in the order of the calls."""

        async def all_of_them() -> list[dict[str, Any]]:
            return await asyncio.gather(*(self.call(name, given) for given in many))

        return self.start(all_of_them()).result(PATIENCE)

    def wait_over(self, *ids: str) -> list[dict[str, Any]]:
        """Wait until workers have ended. Return what `wait` reports of each."""
        answer = self.ok("wait", ids=list(ids), until="all", timeout_seconds=45)
        assert not answer["timed_out"], answer
        found: list[dict[str, Any]] = answer["tasks"]
        return found

    async def call(self, name: str, given: dict[str, Any], told: list[str] | None = None) -> dict[str, Any]:
        """Make one call. Text and structured answer must agree."""

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            if told is not None:
                told.append(message or "")

        done = await self.client.call_tool(name, given, progress_callback=hear)
        answer: dict[str, Any] = done.structured_content or {}
        assert json.loads(done.content[0].text) == answer  # type: ignore[union-attr]
        assert bool(done.is_error) == ("error" in answer)
        return answer


@contextmanager
def serving(fleet: Program, **env: str) -> Iterator[Tools]:
    """Run `fleet mcp` in its own home for the duration of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ends, ready = asyncio.Event(), Future[Client]()
    errors = (fleet.user / "mcp.err").open("a")

    async def live() -> None:
        try:
            async with Client(served_by(fleet, errors.fileno(), env)) as client:
                ready.set_result(client)
                await ends.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    living = asyncio.run_coroutine_threadsafe(live(), loop)
    try:
        yield Tools(loop, ready.result(PATIENCE))
    finally:
        loop.call_soon_threadsafe(ends.set)
        try:
            living.result(PATIENCE)
        finally:  # also if the server died: a remaining thread keeps the tests from ending
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            errors.close()


@asynccontextmanager
async def served_by(fleet: Program, errors: int, env: dict[str, str]) -> AsyncIterator[Any]:
    """Yield the streams of a `fleet mcp` that ends with the block."""
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    process = fleet.start("mcp", stdin=their_in, stdout=their_out, stderr=errors, **env)
    os.close(their_in)
    os.close(their_out)
    with os.fdopen(our_in) as answers, os.fdopen(our_out, "w") as calls:
        async with stdio_server(anyio.wrap_file(answers), anyio.wrap_file(calls)) as streams:
            yield streams
            calls.close()  # the server ends, and with it the reader of its answers
        await asyncio.to_thread(process.wait, PATIENCE)


def workshop(base: Path, coder: str = "demo", **settings: str) -> tuple[Program, Path]:
    """Return a home with only these settings, and a repository to work on."""
    fleet = Program(base)
    given = {"coder": coder, "max_concurrent": "4", "supervisor.min_free_disk_mb": "1"} | settings
    pairs = ("supervisor.min_free_memory_mb=1", *(f"{name}={value}" for name, value in given.items()))
    fleet.furnish(("init", "--permissions", "user"), ("config", "set", *pairs))
    repo = make_repository(base / "repo")
    fleet.env |= {"USER": "ada", "FLEET_DEFAULT_EXECUTOR": coder}
    return fleet, repo


def stop(fleet: Program) -> None:
    """Stop the supervisor that the server started, and its agents. The supervisor may still be starting."""

    def is_stopped() -> bool:
        fleet("run", "stop", "--stop-agents")
        return not any(
            b"foreground" in words and b"FLEET_HOME=" + bytes(fleet.home) in environment(pid)
            for pid, words in commands()
        )

    if (fleet.home / "fleet.db").exists():
        wait_for(is_stopped, "the supervisor to end")


def is_alive(pid: int) -> bool:
    """Return True if a process exists."""
    return os.path.exists(f"/proc/{pid}")  # noqa: PTH110
