"""Frozen agents: the contract of all launchers for fencing, with real processes."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agents.base import Agent, Launcher
from fleet.agents.headless import NAMESPACE, WEAK, HeadlessLauncher, namespace_command
from fleet.agents.shim_client import ShimAgent
from fleet.agents.shim_link import ShimCall
from fleet.agents.tmux import TmuxLauncher
from fleet.agents.tmux_command import has_tmux
from fleet.core.clock import machine_seconds
from launching import a_token, asynchronous, living, printed, read, scripted, soon, tmux_socket, until
from needs import require


@pytest.fixture(params=[NAMESPACE, WEAK])
def containment(request: pytest.FixtureRequest) -> str:
    require(request.param == WEAK or namespace_command(), "PID namespaces")
    return str(request.param)


@pytest.fixture(params=["headless", "tmux"])
def launcher(request: pytest.FixtureRequest, containment: str) -> Iterator[Launcher]:
    if request.param == "headless":
        yield HeadlessLauncher(containment)
        return
    require(has_tmux(), "tmux")
    with tmux_socket() as name:
        yield TmuxLauncher(name, containment=containment)


@pytest.fixture
def headless(containment: str) -> Launcher:
    """Return a launcher for tests that need no terminal."""
    return HeadlessLauncher(containment)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "runs" / "1")


def state_of(pid: int) -> str:
    """Return the kernel's letter for the state of a process, or "" if the process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def words_of(pid: int) -> bytes:
    """Return the command line of a process, or b"" if the process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def moving(token: str, *, agents_only: bool = True) -> list[int]:
    """Return the processes with this token that can run now."""
    found = [pid for pid in living(token) if state_of(pid) not in ("T", "Z", "")]
    shims = {pid for pid in found if b"fleet.agents.shim" in words_of(pid)}
    return [pid for pid in found if pid not in shims] if agents_only else found


async def started(launcher: Launcher, folder: str, *words: str, **fields: object) -> Agent:
    agent = await launcher.start(folder, scripted(*words, **fields))
    await until(lambda: read(folder, "stdout"))
    return agent


async def gone(agent: Agent) -> None:
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_frozen_tree_stops_until_its_deadline_is_extended(launcher: Launcher, folder: str) -> None:
    token = a_token()
    agent = await started(launcher, folder, "hostile", "stay", token)
    await until(lambda: len(living(token)) == 4)
    assert launcher.freeze([folder]) == {folder}
    assert moving(token) == [] and len(living(token)) == 4
    frozen = await agent.put_off(60)
    assert frozen > 0 and agent.is_fenced
    await until(lambda: len(moving(token)) == 4)
    await gone(agent)


@asynchronous
async def test_frozen_agent_prints_nothing_and_resumes_where_it_stopped(launcher: Launcher, folder: str) -> None:
    agent = await started(launcher, folder, "ticking", a_token())
    launcher.freeze([folder])
    await asyncio.sleep(0.2)  # output on its way reaches the file
    size = len(printed(folder))
    await asyncio.sleep(0.3)
    assert len(printed(folder)) == size
    await agent.put_off(None)
    assert not agent.is_fenced
    await until(lambda: len(printed(folder)) > size)
    await gone(agent)


@asynchronous
async def test_freeze_stops_a_tree_that_forks_without_end(headless: Launcher, folder: str) -> None:
    token = a_token()
    agent = await started(headless, folder, "forking", token)
    for _ in range(5):
        assert headless.freeze([folder]) == {folder}
        before = set(living(token))
        assert moving(token) == []
        await asyncio.sleep(0.1)
        assert set(living(token)) == before
        await agent.put_off(60)
        await until(lambda: moving(token))
    await gone(agent)


@asynchronous
async def test_agent_freezes_when_its_deadline_passes(launcher: Launcher, folder: str) -> None:
    token = a_token()
    agent = await started(launcher, folder, "hostile", "stay", token, deadline=(60, machine_seconds()))
    assert agent.is_fenced
    await until(lambda: len(moving(token)) == 4)
    await agent.put_off(0.5)
    agent.close()  # type: ignore[attr-defined]  # its supervisor is gone
    await until(lambda: moving(token) == [])
    again = await soon(launcher.find(folder))
    assert again is not None and again.is_fenced
    await again.put_off(60)
    await until(lambda: len(moving(token)) == 4)
    await gone(again)


@asynchronous
async def test_agent_keeps_running_when_its_deadline_is_extended_in_time(folder: str) -> None:
    headless, token = HeadlessLauncher(), a_token()
    agent = await started(headless, folder, "ticking", token, deadline=(60, machine_seconds()))
    assert await agent.put_off(0.8) == 0
    await asyncio.sleep(0.2)
    for _ in range(4):
        assert await agent.put_off(1.0) == 0
        await asyncio.sleep(0.3)
    assert moving(token)
    await until(lambda: not moving(token))
    assert await agent.put_off(60) > 0
    await gone(agent)


@asynchronous
async def test_stale_deadline_request_does_not_extend_the_deadline(headless: Launcher, folder: str) -> None:
    token = a_token()
    agent = await started(headless, folder, "ticking", token)
    with ShimCall(folder) as call:
        call.ask("deadline", seconds=2.0, at=machine_seconds() - 5)
        assert "ok" in call.answer(time.monotonic() + 60)
    assert moving(token) == []
    await gone(agent)


@asynchronous
async def test_agent_freezes_when_its_deadline_is_not_a_number(headless: Launcher, folder: str) -> None:
    token = a_token()
    agent = await started(headless, folder, "ticking", token)
    await agent.put_off(float("nan"))
    assert moving(token) == []
    await gone(agent)


@asynchronous
async def test_process_that_was_already_stopped_stays_stopped_after_a_freeze(headless: Launcher, folder: str) -> None:
    token = a_token()
    agent = await started(headless, folder, "halting", token)
    (still,) = [pid for pid in living(token) if state_of(pid) == "T"]
    headless.freeze([folder])
    await agent.put_off(60)
    await until(lambda: len(moving(token)) == 1)
    assert state_of(still) == "T"
    await gone(agent)
    assert living(token) == []


@asynchronous
async def test_frozen_process_is_stopped_again_when_another_program_continues_it(
    headless: Launcher, folder: str
) -> None:
    token = a_token()
    agent = await started(headless, folder, "ticking", token)
    headless.freeze([folder])
    (pid,) = [pid for pid in living(token) if state_of(pid) == "T"]
    os.kill(pid, signal.SIGCONT)
    await until(lambda: state_of(pid) != "T", 1)
    await until(lambda: state_of(pid) == "T", 5)
    await gone(agent)


@asynchronous
async def test_frozen_tree_can_be_killed(launcher: Launcher, folder: str) -> None:
    token = a_token()
    agent = await started(launcher, folder, "hostile", "stay", token)
    launcher.freeze([folder])
    await agent.kill_tree()
    ended = await soon(agent.ended())
    assert ended is not None and ended.signal == signal.SIGKILL
    assert living(token) == []


@asynchronous
async def test_age_of_an_agent_excludes_frozen_time(headless: Launcher, folder: str) -> None:
    agent = await started(headless, folder, "ticking", a_token())
    headless.freeze([folder])
    await asyncio.sleep(1.0)
    found = await soon(headless.find(folder))
    assert found is not None and found.age_seconds is not None
    assert found.frozen_seconds >= 1.0 and found.age_seconds < 1.0
    found.close()  # type: ignore[attr-defined]
    await gone(agent)


@asynchronous
async def test_frozen_agent_ends_without_running_when_its_terminal_closes(containment: str, folder: str) -> None:
    require(has_tmux(), "tmux")
    with tmux_socket() as name:
        launcher = TmuxLauncher(name, containment=containment)
        agent = await started(launcher, folder, "ticking", a_token())
        launcher.freeze([folder])
        await asyncio.sleep(0.2)
        size = len(printed(folder))
        await agent.close_session()  # type: ignore[attr-defined]
        ended = await soon(agent.ended(), 10)
    assert ended is not None and ended.signal in (signal.SIGKILL, signal.SIGHUP)
    assert len(printed(folder)) - size <= len(b"tick\n") * 2  # tmux continues it before it closes the terminal


@asynchronous
async def test_other_agents_freeze_when_one_shim_does_not_answer(tmp_path: Path) -> None:
    launcher, tokens = HeadlessLauncher(), [a_token() for _ in range(4)]
    folders = [str(tmp_path / f"{number}") for number in range(4)]
    pairs = zip(folders, tokens, strict=True)
    agents = [await started(launcher, folder, "ticking", token) for folder, token in pairs]
    deaf = agents[0]
    assert isinstance(deaf, ShimAgent) and deaf.shim_pid is not None
    os.kill(deaf.shim_pid, signal.SIGSTOP)
    try:
        assert launcher.freeze(folders) == set(folders[1:])
        assert [bool(moving(token)) for token in tokens] == [True, False, False, False]
    finally:
        os.kill(deaf.shim_pid, signal.SIGCONT)
    for agent in agents:
        await gone(agent)
    everywhere = {*folders, str(tmp_path / "none")}
    await until(lambda: launcher.freeze(everywhere) == everywhere)  # nothing runs there, so nothing can move
