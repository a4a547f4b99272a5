"""The Launcher port: how fleet starts, finds and stops agents."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fleet.agents.lock import is_locked
from fleet.agents.shim_link import freeze_all, pid_of, read_exit
from fleet.core.errors import FleetError
from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.core.outcome import Exit

log = logging.getLogger(__name__)

#: Maximum time for a killed agent to disappear.
GONE_SECONDS = 15.0


class SandboxSpec(Record):
    """Restrictions on a process, as far as the system supports them. `Exit.apart` names those that took effect."""

    hidden: tuple[str, ...] = ()  # folders that appear empty
    kept: tuple[str, ...] = ()  # folders below those, or among temporary files, that stay visible
    # the only folders that it may write to; None: any that its user may write to
    writable: tuple[str, ...] | None = None
    shown: tuple[tuple[str, str], ...] = ()  # folders and the paths where they appear, in this order
    temporary: str = ""  # the folder shown as /tmp
    offline: bool = False  # own network namespace with nothing but loopback
    processes: int = 0  # maximum number of its processes; 0: unlimited


class LaunchSpec(Record):
    """Specification of an agent to start, with the caps on its output."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    stdin: str = ""
    keep_stdin: bool = False
    stdout_cap: int = 512 * 1024 * 1024
    stderr_cap: int = 64 * 1024 * 1024
    session: str = ""  # name of its terminal session, if it gets a terminal
    size: tuple[int, int] = (200, 50)  # columns and rows of its terminal until a user attaches
    apart: SandboxSpec | None = None  # None: it sees whatever its user sees
    seconds: float = 0.0  # it is killed after this time, even if someone still waits for it; 0: never
    # seconds left, and when they were counted on the machine's clock; then the agent is frozen
    deadline: tuple[float, float] | None = None


class ResourceUsage(NamedTuple):
    """Resources that a process tree uses: CPU time so far and current memory."""

    cpu_seconds: float
    rss_kb: int | None  # None: unknown


class Agent(Protocol):
    """A live agent, reached through its shim."""

    #: Set whenever its output grew, and when it ends. The waiting caller clears it.
    activity: asyncio.Event
    #: Its age when it was reached, unaffected by clock changes. None if unknown.
    age_seconds: float | None
    #: How long it had been frozen by then. Its age excludes this time.
    frozen_seconds: float
    #: True if it is frozen, or will be unless its deadline is extended.
    is_fenced: bool

    async def signal(self, number: int) -> None:
        """Send a signal to the agent's process group. Do nothing if the agent has ended."""

    async def write(self, text: str) -> None:
        """Write to its stdin, if that was kept open."""

    async def close_stdin(self) -> None:
        """Close its stdin."""

    async def cpu_seconds(self) -> float:
        """Return the CPU time of its whole tree so far. A silent agent may be working."""

    async def usage(self) -> ResourceUsage:
        """Return CPU time and memory of its whole tree."""

    async def kill_tree(self) -> None:
        """Kill it and all of its descendants at once."""

    async def put_off(self, seconds: float | None) -> float:
        """Let it run for `seconds` more, after which it is frozen unless this call is repeated. None: without limit.

        Return how long it has been frozen in total.
        """

    async def ended(self) -> Exit | None:
        """Wait for its end. Return None if the shim itself disappeared, so that the result is unknown."""


class AgentTerminal(Agent, Protocol):
    """A live agent in a terminal."""

    async def screen(self, lines: int = 0) -> str:
        """Return the terminal's content with `lines` lines of history. Raises FleetError if the terminal is gone."""

    async def paste(self, text: str, mark: str = "") -> None:
        """Paste a text in one piece, and store the mark if and only if the text was pasted. Raises FleetError."""

    async def last_mark(self) -> str:
        """Return the mark that was stored last. Empty if there is none. Raises FleetError."""

    async def press(self, *keys: str) -> None:
        """Press keys by their tmux names. Raises FleetError."""

    async def close_session(self) -> None:
        """Close its terminal session."""


class Launcher(ABC):
    """Port for starting agents that outlive the process that starts them."""

    #: How reliably it holds a process tree: "pid namespace" or "weak".
    containment: str

    @abstractmethod
    async def start(self, folder: str, spec: LaunchSpec) -> Agent:
        """Start an agent in a run's folder, which holds its stdout, stderr and exit record.

        Raises FleetError after it has tried to end a partly started agent. `end` reports whether the agent is gone.
        """

    @abstractmethod
    async def find(self, folder: str) -> Agent | None:
        """Return the live agent of this folder. Return None if its shim's lock is free."""

    @abstractmethod
    def was_started(self, folder: str) -> bool:
        """Return True if an agent was ever started in this folder."""

    async def end(self, folder: str) -> bool:
        """End this folder's agent or its start. Return True once nothing of it lives or can still appear."""
        if take_back(folder):
            return True
        try:
            agent = await self.find(folder)
            if agent is not None:
                await agent.kill_tree()
            async with asyncio.timeout(GONE_SECONDS):
                while self.is_alive(folder):  # noqa: ASYNC110 - nothing signals that a lock became free
                    await asyncio.sleep(0.01)
        except (FleetError, OSError, ValueError) as error:
            log.warning("the agent in %s does not stop: %s", folder, error)
            return False
        return True

    def is_alive(self, folder: str) -> bool:
        """Return True if any process of this folder's agent lives. The last of them releases the lock."""
        return is_locked(folder)

    def pid(self, folder: str) -> int | None:
        """Return the shim's process id. All of this folder's agent ends with the shim.

        Return None if no shim lives or its id is unknown.
        """
        return pid_of(folder)

    def freeze(self, folders: Collection[str]) -> set[str]:
        """Freeze the agents of these folders until their deadlines are extended. Callable from any thread.

        It takes a few seconds at most. Return the folders in which nothing moves any more. The state of the others is
        unknown.
        """
        return freeze_all(folders)

    def last_exit(self, folder: str) -> Exit | None:
        """Return the exit record that this folder's shim wrote. Return None if it wrote none."""
        return read_exit(folder)


def take_back(folder: str) -> bool:
    """Withdraw the spec for a shim. Return False if a shim has already taken it, or no spec exists.

    Only one side can remove the file, so a late shim finds nothing to start.
    """
    try:
        Path(folder, "spec.json").unlink()
    except OSError:
        return False
    return True
