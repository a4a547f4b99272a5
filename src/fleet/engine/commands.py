"""Commands of the user's own that fleet runs: setup, teardown and verify, each under a shim, with a log and a limit."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.launchers.base import LaunchSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.launchers.base import Agent, Exit, Launcher

LOG_CAP = 16 * 1024 * 1024
TAIL_BYTES = 2_000


class Done(Record):
    """How a command ended."""

    command: str
    status: int | None  # none: it was stopped, or could not be started
    seconds: float
    tail: str = ""  # the end of what it printed
    why: str = ""  # what kept it from ending by itself

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.status == 0

    @property
    def in_words(self) -> str:
        """What happened, for a person."""
        how = self.why or f"ended with exit code {self.status}"
        return f"`{self.command}` {how}" + (f": {self.tail}" if self.tail and not self.ok else "")


async def run_command(
    launcher: Launcher,
    place: str,
    command: str,
    *,
    cwd: str,
    env: Mapping[str, str],
    seconds: float,
    stop: asyncio.Event | None = None,
) -> Done:
    """Run a command line of the user's in a folder of its own, which keeps its log; nothing of it is left after.

    One that an earlier supervisor started there is ended first. `stop` ends it early. Raises FleetError, OSError.
    """
    if (earlier := await launcher.find(place)) is not None:
        await earlier.kill_tree()
        await earlier.ended()
    # The words are the user's own, who means them for a shell; both streams go to one log.
    spec = LaunchSpec(argv=("/bin/sh", "-c", f"exec 2>&1\n{command}"), env=dict(env), cwd=cwd, stdout_cap=LOG_CAP)
    began = time.monotonic()
    agent = await launcher.start(place, spec)
    exit, why = await _end(agent, seconds, stop)
    status = exit.status if exit and not why else None
    if exit is not None and exit.signal and not why:
        why = f"was ended by signal {exit.signal}"
    if exit is not None and exit.error:
        why = f"could not be started: {exit.error}"
    return Done(
        command=command, status=status, seconds=round(time.monotonic() - began, 3), tail=tail_of(place), why=why
    )


def tail_of(place: str) -> str:
    """The end of what a command printed."""
    with contextlib.suppress(OSError), Path(place, "stdout").open("rb") as log:
        log.seek(0, 2)
        log.seek(max(0, log.tell() - TAIL_BYTES))
        return log.read(TAIL_BYTES).decode("utf-8", "replace").strip()
    return ""


async def _end(agent: Agent, seconds: float, stop: asyncio.Event | None) -> tuple[Exit | None, str]:
    ended = asyncio.ensure_future(agent.ended())
    waits: set[asyncio.Future[object]] = {ended}  # type: ignore[arg-type]
    if stop is not None:
        waits.add(asyncio.ensure_future(stop.wait()))
    done, others = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    try:
        if ended in done:
            exit = await ended
            return exit, "" if exit else "vanished"
        await agent.kill_tree()
        exit = await asyncio.wait_for(ended, 15)
        return exit, "was stopped" if done else f"did not end in {seconds:g} s"
    finally:
        for each in others:
            each.cancel()
