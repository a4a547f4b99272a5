"""Real agents for tests: what they are told, and what is left of them."""

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

from fleet.launchers.base import LaunchSpec

Found = TypeVar("Found")

#: How long a test waits in vain, in seconds.
PATIENCE = 60.0
AGENT = str(Path(__file__).parent / "workers" / "agent.py")


def scripted(*words: object, **fields: Any) -> LaunchSpec:
    """What starts the scripted agent with a behaviour and its arguments."""
    argv = (sys.executable, "-I", "-S", AGENT, *map(str, words))
    usual = {"argv": argv, "env": {"PATH": os.environ["PATH"]}, "cwd": "/", "session": a_token()}
    return LaunchSpec(**(usual | fields))


@contextlib.contextmanager
def tmux_socket() -> Iterator[str]:
    """The name of a tmux server of one's own, which is ended with everything in it."""
    name = f"fleet-{secrets.token_hex(6)}"
    try:
        yield name
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], **_QUIET)  # type: ignore[call-overload]


_QUIET = {"capture_output": True, "text": True, "check": False}


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def a_token() -> str:
    """A word that is in the command line of what one test starts, and nowhere else."""
    return f"token-{secrets.token_hex(8)}"


def living(token: str) -> list[int]:
    """The processes with this word in their command line, by the host's own numbers."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and token.encode() in _read(folder / "cmdline"):
            found.append(int(folder.name))
    return found


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.01)


async def soon(what: Awaitable[Found], seconds: float = PATIENCE) -> Found:
    """What comes within this time."""
    async with asyncio.timeout(seconds):
        return await what


def printed(folder: Path | str) -> bytes:
    """What an agent has printed so far, without what a terminal makes of the end of a line."""
    return read(folder, "stdout").replace(b"\r\n", b"\n")


def read(folder: Path | str, name: str) -> bytes:
    """What an agent has printed so far."""
    return _read(Path(folder) / name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
