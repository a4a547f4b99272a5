"""Shims killed by SIGKILL at random moments: no process of an agent survives, and only then its folder is free.

The moments are random; their seed is printed. FLEET_SEED repeats one.
"""

import asyncio
import logging
import os
import random
import signal
import time
from pathlib import Path

import pytest

from fleet.agents.base import LaunchSpec
from fleet.agents.headless import NAMESPACE, WEAK, HeadlessLauncher, namespace_command
from fleet.core.errors import FleetError
from launching import a_token, asynchronous, living, read, scripted, soon, until
from needs import require

log = logging.getLogger(__name__)

#: Agents that hide, are many, or fork endlessly; and a plain one.
BEHAVIOURS = (("hostile", "stay"), ("crowd", 5), ("forking",), ("sleep", 1000))
#: How long any process may survive a kill.
GONE_SECONDS = 5.0
#: How many shims of each kind a long campaign kills.
KILLS = 100
#: How long the start of an agent takes on an idle machine.
START_SECONDS = 0.15


@pytest.fixture(params=[NAMESPACE, WEAK])
def containment(request: pytest.FixtureRequest) -> str:
    require(request.param == WEAK or namespace_command(), "PID namespaces")
    return str(request.param)


@pytest.fixture(params=["alone", "starter"])
def launcher(request: pytest.FixtureRequest, containment: str) -> HeadlessLauncher:
    return HeadlessLauncher(containment, lasting=request.param == "starter")


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    log.info("FLEET_SEED=%s", seed)
    return random.Random(seed)


async def kill_at_work(launcher: HeadlessLauncher, folder: Path, chance: random.Random) -> None:
    """Start an agent and kill its shim while it works. Check that nothing is left once its folder is free."""
    spec, token = an_agent(chance)
    agent = await launcher.start(str(folder), spec)
    await asyncio.sleep(chance.uniform(0, START_SECONDS))
    pid = agent.shim_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert await soon(agent.ended(), GONE_SECONDS) is None
    assert not launcher.is_alive(str(folder))
    assert living(token) == []
    # the process that released the lock last ends by itself
    await until(lambda: living(str(folder)) == [], GONE_SECONDS)


async def kill_at_start(launcher: HeadlessLauncher, folder: Path, chance: random.Random) -> None:
    """Kill a process of a shim that is just starting. Check that the agent is found, or nothing is left of it."""
    spec, token = an_agent(chance)
    starting = asyncio.create_task(launcher.start(str(folder), spec))
    await asyncio.sleep(chance.uniform(0, START_SECONDS))
    kill_one(living(str(folder)), chance)
    try:
        (await soon(starting)).close()
    except FleetError as error:
        assert "did not start" in str(error) or "the shell ended with -9" in str(error)
    agent = await soon(launcher.find(str(folder)))
    if agent is not None:
        await agent.kill_tree()
        await soon(agent.ended(), GONE_SECONDS)
    await until(lambda: not launcher.is_alive(str(folder)), GONE_SECONDS)
    assert living(token) == []
    await until(lambda: living(str(folder)) == [], GONE_SECONDS)


def an_agent(chance: random.Random) -> tuple[LaunchSpec, str]:
    """Return the spec of an agent, and the token in the command line of all its processes."""
    token = a_token()
    return scripted(*chance.choice(BEHAVIOURS), token, env={"PATH": os.environ["PATH"], "FLEET_RUN_ID": token}), token


def kill_one(pids: list[int], chance: random.Random) -> None:
    if pids:
        try:
            os.kill(chance.choice(pids), signal.SIGKILL)
        except ProcessLookupError:
            return


@asynchronous
async def test_no_process_outlives_a_shim(launcher: HeadlessLauncher, tmp_path: Path, chance: random.Random) -> None:
    for number in range(3):
        await kill_at_work(launcher, tmp_path / f"work{number}", chance)
        await kill_at_start(launcher, tmp_path / f"start{number}", chance)


@asynchronous
async def test_wrapper_process_of_a_shim_is_not_needed(launcher: HeadlessLauncher, tmp_path: Path) -> None:
    agent = await launcher.start(str(tmp_path / "run"), scripted("echo", keep_stdin=True))
    step = int(read(f"/proc/{agent.shim_pid}", "stat").rpartition(b")")[2].split()[1])
    await until(lambda: read(f"/proc/{step}", "cmdline").split(b"\0")[0].endswith((b"unshare", b"fleet-weak")))
    os.kill(step, signal.SIGKILL)
    await agent.write("still\n")
    await agent.close_stdin()
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0
    assert read(tmp_path / "run", "stdout") == b"still\n"
    await until(lambda: not launcher.is_alive(str(tmp_path / "run")), GONE_SECONDS)


@asynchronous
async def test_shim_that_was_not_killed_ends_with_its_wrapper(launcher: HeadlessLauncher, tmp_path: Path) -> None:
    agent = await launcher.start(str(tmp_path / "run"), scripted("end", 3))
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 3
    await until(lambda: not launcher.is_alive(str(tmp_path / "run")), GONE_SECONDS)
    await until(lambda: living(str(tmp_path / "run")) == [], GONE_SECONDS)


@pytest.mark.soak("kills")
@asynchronous
async def test_no_process_outlives_many_shims(
    launcher: HeadlessLauncher, tmp_path: Path, chance: random.Random
) -> None:
    began = time.monotonic()
    for number in range(KILLS // 2):
        await kill_at_work(launcher, tmp_path / f"work{number}", chance)
        await kill_at_start(launcher, tmp_path / f"start{number}", chance)
    log.info("%s: %s kills in %.1f s", launcher.containment, KILLS, time.monotonic() - began)
