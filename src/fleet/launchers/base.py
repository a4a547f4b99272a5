"""The port Launcher: how agents are started, found again and stopped."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.launchers.lock import is_locked
from fleet.launchers.shim_call import freeze_all, pid_of
from fleet.launchers.shim_link import read_exit

if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.core.outcome import Exit

log = logging.getLogger(__name__)

#: How long a killed agent may take to be gone.
GONE_SECONDS = 15.0


class Apart(Record):
    """What a process is kept from, as far as the system allows; `Exit.apart` says how far that was."""

    hidden: tuple[str, ...] = ()  # folders that it finds empty
    kept: tuple[str, ...] = ()  # folders below those, or among temporary files, that it sees all the same
    writable: tuple[str, ...] | None = None  # the folders that it may write to; none: as anybody
    temporary: str = ""  # what it finds at /tmp
    offline: bool = False  # it has a network of its own, with nobody else there
    processes: int = 0  # it may have so many at once; 0: any number


class LaunchSpec(Record):
    """What to start, and where its output goes at most."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    stdin: str = ""
    keep_stdin: bool = False
    stdout_cap: int = 512 * 1024 * 1024
    stderr_cap: int = 64 * 1024 * 1024
    session: str = ""  # what its terminal is called, where it gets one
    size: tuple[int, int] = (200, 50)  # of its terminal, until somebody looks at it: columns and rows
    apart: Apart | None = None  # none: it sees what its user sees
    seconds: float = 0.0  # it is killed after so long, whoever still waits for it; 0: never
    deadline: tuple[float, float] | None = None  # frozen so many seconds after that moment of the machine's clock


class Usage(NamedTuple):
    """What a tree uses: CPU time so far, and the memory it holds now."""

    cpu_seconds: float
    rss_kb: int | None  # none: nobody tells


class Agent(Protocol):
    """A live agent, reached through its shim."""

    #: Set whenever its output grew, and when it ends; whoever waits clears it.
    stirred: asyncio.Event
    #: How long it had lived when it was reached, whatever the clocks said meanwhile; none where nobody knows.
    age_seconds: float | None
    #: How long it had stood still until then, which is not part of its age.
    frozen_seconds: float
    #: Whether it is frozen, or will be unless its deadline is put off.
    is_fenced: bool

    async def signal(self, number: int) -> None:
        """Send a signal to the agent's process group. No error when it is gone."""

    async def write(self, text: str) -> None:
        """Write to its stdin, if that was kept open."""

    async def close_stdin(self) -> None:
        """End its stdin."""

    async def cpu_seconds(self) -> float:
        """CPU time its whole tree has used so far: a silent agent may be working."""

    async def usage(self) -> Usage:
        """CPU time and memory of its whole tree."""

    async def kill_tree(self) -> None:
        """Kill it and every descendant at once."""

    async def put_off(self, seconds: float | None) -> float:
        """Let it go on for so many seconds; then it is frozen unless this is said again. None: it goes on for ever.

        How long it has stood still in all.
        """

    async def ended(self) -> Exit | None:
        """Wait for its end; None when the shim itself vanished, so that nobody knows."""


class Terminal(Agent, Protocol):
    """A live agent that has a terminal."""

    async def screen(self, lines: int = 0) -> str:
        """What its terminal shows, with so many lines from before. Raises FleetError when it is gone."""

    async def paste(self, text: str, mark: str = "") -> None:
        """Put a text into it as one paste, and keep the mark there if and only if that was done. Raises FleetError."""

    async def last_mark(self) -> str:
        """Return the mark that was kept last; empty if none was. Raises FleetError."""

    async def press(self, *keys: str) -> None:
        """Press keys, by the names that tmux has for them. Raises FleetError."""

    async def close_session(self) -> None:
        """Take its terminal away."""


class Launcher(ABC):
    """Starts agents that outlive whoever starts them."""

    #: How well a tree is held: "pid namespace" or "weak".
    containment: str

    @abstractmethod
    async def start(self, folder: str, spec: LaunchSpec) -> Agent:
        """Start an agent in a run's folder, which holds its stdout, stderr and exit record.

        Raises FleetError once what may have been started was ended; whether it is gone, `end` tells.
        """

    @abstractmethod
    async def find(self, folder: str) -> Agent | None:
        """The agent that lives in this folder; none when its shim's lock is free."""

    @abstractmethod
    def was_started(self, folder: str) -> bool:
        """Whether there ever was an agent in this folder."""

    async def end(self, folder: str) -> bool:
        """End the agent of this folder, or its start; True once nothing of it lives or can come late."""
        if take_back(folder):
            return True
        try:
            agent = await self.find(folder)
            if agent is not None:
                await agent.kill_tree()
            async with asyncio.timeout(GONE_SECONDS):
                while self.is_alive(folder):  # noqa: ASYNC110 - nobody tells when a lock is free
                    await asyncio.sleep(0.01)
        except (FleetError, OSError, ValueError) as error:
            log.warning("the agent in %s does not end: %s", folder, error)
            return False
        return True

    def is_alive(self, folder: str) -> bool:
        """Whether anything of this folder's agent lives: its lock is held until the last of it is gone."""
        return is_locked(folder)

    def pid(self, folder: str) -> int | None:
        """The shim's process, with which all of this folder's agent ends; none where none lives or nobody tells."""
        return pid_of(folder)

    def freeze(self, folders: Collection[str]) -> set[str]:
        """Stop everything of the agents in these folders until it is put off; from any thread, within a few seconds.

        The folders in which nothing moves any more; of the others nobody knows.
        """
        return freeze_all(folders)

    def last_exit(self, folder: str) -> Exit | None:
        """What the shim of this folder wrote at its end; none when it never did."""
        return read_exit(folder)


def take_back(folder: str) -> bool:
    """Take away what a shim was to start; False when one has taken it already, or there was nothing.

    Only one can: a shim that comes late finds nothing to start.
    """
    try:
        Path(folder, "spec.json").unlink()
    except OSError:
        return False
    return True
