"""Commands of the user that fleet runs: setup, teardown and verify. Each has a shim, a log and a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.agents.base import LaunchSpec
from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.agents.base import Agent, Launcher
    from fleet.core.outcome import Exit
    from fleet.home import Home
    from fleet.supervisor.removal import RemovalPlan


LOG_CAP = 16 * 1024 * 1024
TAIL_BYTES = 2_000


class Done(Record):
    """The end of a command."""

    command: str
    status: int | None  # None if fleet stopped the command or could not start it
    seconds: float
    tail: str = ""  # the end of its output
    why: str = ""  # why the command did not end normally

    @property
    def ok(self) -> bool:
        """Return True if the exit code is 0."""
        return self.status == 0

    @property
    def in_words(self) -> str:
        """Return a description of the result for users."""
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
    """Run a user's command line in the folder `place`, which keeps its log. All its processes have ended afterwards.

    An earlier supervisor's command in `place` is ended first. `stop` ends the command early. Raises FleetError,
    OSError.
    """
    await end_earlier(launcher, place)
    done, _ = await run_spec(launcher, place, spec_of(command, cwd=cwd, env=env), seconds=seconds, stop=stop)
    return done.replace(command=command)


async def end_earlier(launcher: Launcher, place: str) -> None:
    """End a command that a supervisor started in `place` before it was killed."""
    if (earlier := await launcher.find(place)) is not None:
        await earlier.kill_tree()
        await earlier.ended()


def spec_of(command: str, *, cwd: str, env: Mapping[str, str]) -> LaunchSpec:
    """Return the launch spec of a user's command line."""
    # The user wrote the command for a shell. Both streams go to one log.
    return LaunchSpec(argv=("/bin/sh", "-c", f"exec 2>&1\n{command}"), env=dict(env), cwd=cwd, stdout_cap=LOG_CAP)


async def run_spec(
    launcher: Launcher, place: str, spec: LaunchSpec, *, seconds: float, stop: asyncio.Event | None = None
) -> tuple[Done, Exit | None]:
    """Run a spec until the command ends, `seconds` have passed or `stop` is set."""
    began = time.monotonic()
    agent = await launcher.start(place, spec)
    exit, why = await _end(agent, seconds, stop)
    status = exit.status if exit and not why else None
    why = why or (_why(exit) if exit else "")
    took = round(time.monotonic() - began, 3)
    return Done(command=spec.argv[-1], status=status, seconds=took, tail=tail_of(place), why=why), exit


def _why(exit: Exit) -> str:
    if exit.error:
        return f"could not be started: {exit.error}"
    if exit.crowded:
        return "had more processes at once than it may have"
    return f"was ended by signal {exit.signal}" if exit.signal else ""


def tail_of(place: str, most: int = TAIL_BYTES) -> str:
    """Return the end of a command's output, including output beyond the size of the log."""
    beyond = _end_of(os.path.join(place, "stdout.tail"), most)  # noqa: PTH118
    held = _end_of(os.path.join(place, "stdout"), most - len(beyond)) if len(beyond) < most else b""  # noqa: PTH118
    between = b"\n" if held and beyond else b""  # output may be missing between the two
    return (held + between + beyond).decode("utf-8", "replace").strip()


def _end_of(path: str, most: int) -> bytes:
    with contextlib.suppress(OSError), Path(path).open("rb") as log:
        log.seek(0, 2)
        log.seek(max(0, log.tell() - most))
        return log.read(most)
    return b""


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
        return exit, "was stopped" if done else f"did not end within {seconds:g} s"
    finally:
        for each in others:
            each.cancel()


log = logging.getLogger(__name__)


async def tear_down(launcher: Launcher, home: Home, plan: RemovalPlan) -> None:
    """Run the teardown commands of a removal. A failure is logged and does not stop the removal."""
    space = plan.space
    for number, command in enumerate(plan.teardown, 1):
        place = home.teardown(space.task_id, number)
        done = await run_command(launcher, place, command, cwd=space.path, env=plan.env, seconds=plan.seconds)
        if not done.ok:
            log.warning("teardown of %s: %s", space.branch, done.in_words)
