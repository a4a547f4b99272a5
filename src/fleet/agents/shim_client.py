"""Client of a shim's control socket: an agent, regardless of how it was started."""

import asyncio
import contextlib
import json
import os
import signal as signals
import socket
from typing import Any

from fleet.agents.base import ResourceUsage
from fleet.agents.lock import is_locked
from fleet.agents.shim_link import ShimConnection, connect, exit_of, peer_of, read_exit
from fleet.core.clock import iterate_pauses, machine_seconds
from fleet.core.errors import FleetError
from fleet.core.outcome import Exit

#: A shim answers in milliseconds, but a machine may be very busy.
ANSWER_SECONDS = 15.0


class ShimAgent:
    """A live agent, reached through its shim."""

    def __init__(self, folder: str, link: ShimConnection | None) -> None:
        self.activity = asyncio.Event()
        self.age_seconds = link.age_seconds if link else None
        self.frozen_seconds = link.frozen_seconds if link else 0.0
        self.is_fenced = link is not None and link.state.get("fenced") is True
        self._folder = folder
        self._link = link
        self._settled = asyncio.Event()  # a connection exists, or never will
        if link:
            self._settled.set()
        self._answers: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._asked = 0
        self._told: Exit | None = None
        self._cpu_seconds = 0.0
        self._listening = asyncio.create_task(self._listen(), name=f"shim in {folder}")

    @classmethod
    async def reach(cls, folder: str, sock: socket.socket) -> "ShimAgent":
        """Connect to the agent of a folder. If it is unreachable or has ended, return a client that keeps trying."""
        try:
            return cls(folder, await connect(folder, sock))
        except (OSError, FleetError):
            return cls(folder, None)

    @property
    def connected(self) -> bool:
        """Return True if the client is connected to the shim."""
        return self._link is not None

    @property
    def shim_pid(self) -> int | None:
        """Return the shim's process id as the system reports it. Return None if unknown."""
        return peer_of(self._link.writer.get_extra_info("socket")) if self._link else None

    async def signal(self, number: int) -> None:
        await self._ask("signal", number=int(number))

    async def write(self, text: str) -> None:
        """Write to its stdin, if that was kept open, and never twice.

        Raises FleetError if stdin is closed or the outcome is unknown.
        """
        answer = await self._ask("write", once=True, text=text)
        if answer is None or "error" in answer:
            raise FleetError(f"cannot write to the agent: {answer['error'] if answer else 'it cannot be reached'}")

    async def close_stdin(self) -> None:
        await self._ask("close_stdin")

    async def cpu_seconds(self) -> float:
        return (await self.usage()).cpu_seconds

    async def usage(self) -> ResourceUsage:
        """Return CPU time and memory of its whole tree. The memory is None after the end."""
        answer = await self._ask("cpu") or {}
        if "cpu" in answer:
            self._cpu_seconds = float(answer["cpu"])
        rss = answer.get("rss")
        return ResourceUsage(self._cpu_seconds, rss if isinstance(rss, int) else None)

    async def kill_tree(self) -> None:
        """Kill it and all descendants at once.

        If the shim does not answer, kill the shim, which ends its PID namespace. Raises FleetError if it does not
        answer and has no namespace.
        """
        try:
            await self._ask("kill")
        except FleetError:
            pid = self.shim_pid
            if pid is None or (self._link and self._link.state.get("containment") != "pid namespace"):
                raise
            os.kill(pid, signals.SIGKILL)  # our connection to it is open, so its process id is not reused

    async def put_off(self, seconds: float | None) -> float:
        """Let it run for `seconds` more, or without limit if None. Raises FleetError.

        Return how long it has been frozen in total.
        """
        if seconds is None:
            answer = await self._ask("thaw") or {}
        else:
            answer = await self._ask("deadline", seconds=seconds, at=machine_seconds()) or {}
        self.is_fenced = answer.get("fenced") is True
        self.frozen_seconds = float(answer.get("frozen", self.frozen_seconds))
        return self.frozen_seconds

    async def ended(self) -> Exit | None:
        """Wait for its end. Return None if the shim itself disappeared, so that the result is unknown.

        In both cases nothing of the agent is left.
        """
        return await asyncio.shield(self._listening)

    def close(self) -> None:
        """Disconnect. The agent keeps running."""
        self._listening.cancel()
        self._let_go()

    async def _listen(self) -> Exit | None:
        try:
            while True:
                await self._hear()
                found = read_exit(self._folder) or self._told
                if found is not None or not await self._reach_again():
                    # The lock is free: the shim wrote the record before, or never will.
                    found = found or read_exit(self._folder)
                    self._cpu_seconds = found.cpu_seconds if found else self._cpu_seconds
                    return found
        finally:
            self._let_go()
            self._settled.set()
            self.activity.set()

    async def _hear(self) -> None:
        """Process the shim's messages until the connection ends."""
        with contextlib.suppress(OSError, ValueError):
            while self._link and (line := await self._link.reader.readline()):
                message = json.loads(line)
                if "id" in message:
                    waiting = self._answers.pop(message["id"], None)
                    if waiting and not waiting.done():
                        waiting.set_result(message)
                    continue
                if "ended" in message:
                    self._told = exit_of(message["ended"])
                self.activity.set()
        self._let_go()

    async def _reach_again(self) -> bool:
        """Reconnect after a lost connection.

        Return False if the shim has ended. Retries while the file table is full.
        """
        pauses = iterate_pauses(0.01, 1.0, 1.5)
        while True:
            with contextlib.suppress(OSError, FleetError):
                if not is_locked(self._folder):
                    return False
                self._link = await connect(self._folder, socket.socket(socket.AF_UNIX))
                if self._link:
                    self._settled.set()
                    self.activity.set()  # the output may have grown meanwhile
                    return True
            await asyncio.sleep(next(pauses))

    async def _ask(self, what: str, *, once: bool = False, **values: object) -> dict[str, Any] | None:
        """Return the shim's answer. Return None if the shim is gone.

        The request is repeated after a lost connection, unless `once` is set.
        """
        self._asked += 1
        number, answer = self._asked, None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._settled.wait()
                while self._link and answer is None:
                    waiting: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
                    self._answers[number] = waiting
                    self._link.writer.write(json.dumps({"id": number, "do": what, **values}).encode() + b"\n")
                    answer = await waiting
                    if once:
                        break
                    await self._settled.wait()
                return answer
        except TimeoutError:
            raise FleetError(f"the shim in {self._folder} does not answer") from None
        finally:
            self._answers.pop(number, None)

    def _let_go(self) -> None:
        if self._link:
            self._link.writer.close()
            self._link = None
            self._settled.clear()
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_result(None)
        self._answers.clear()
