"""Real agents for tests: their behavior, and their remaining processes and output."""

import asyncio
import contextlib
import functools
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from fleet.agents.base import LaunchSpec

Found = TypeVar("Found")

#: How long a test waits before it fails, in seconds.
PATIENCE = 60.0
AGENT = str(Path(__file__).parent / "workers" / "agent.py")


def scripted(*words: object, **fields: Any) -> LaunchSpec:
    """Return the spec that starts the scripted agent with a behavior and its arguments."""
    argv = (sys.executable, "-I", "-S", AGENT, *map(str, words))
    usual = {"argv": argv, "env": {"PATH": os.environ["PATH"]}, "cwd": "/", "session": a_token()}
    return LaunchSpec(**(usual | fields))


@contextlib.contextmanager
def tmux_socket() -> Iterator[str]:
    """Yield the name of a separate tmux server, which ends with the block."""
    name = f"fleet-{secrets.token_hex(6)}"
    try:
        yield name
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], **_QUIET)  # type: ignore[call-overload]


_QUIET = {"capture_output": True, "text": True, "check": False}


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return a test that runs a coroutine in its own event loop."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def a_token() -> str:
    """Return a word for the command lines of one test's processes, and of no others."""
    return f"token-{secrets.token_hex(8)}"


def living(token: str) -> list[int]:
    """Return the processes with this word in their command line, by the host's own ids."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and token.encode() in _read(folder / "cmdline"):
            found.append(int(folder.name))
    return found


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.01)


async def soon(what: Awaitable[Found], seconds: float = PATIENCE) -> Found:
    """Return the result if it comes within this time. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        return await what


def printed(folder: Path | str) -> bytes:
    """Return an agent's output so far, without the line ends that a terminal adds."""
    return read(folder, "stdout").replace(b"\r\n", b"\n")


def read(folder: Path | str, name: str) -> bytes:
    """Return the content of a file in the run's folder so far."""
    return _read(Path(folder) / name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
