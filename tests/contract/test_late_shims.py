"""Shims that start after their starter gave up: once `start` has raised, no agent runs and none appears."""

import asyncio
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agents import headless, tmux
from fleet.agents.base import Launcher
from fleet.agents.headless import NAMESPACE, WEAK, HeadlessLauncher, namespace_command
from fleet.agents.tmux import TmuxLauncher
from fleet.agents.tmux_command import has_tmux
from fleet.core.errors import FleetError
from launching import a_token, asynchronous, living, read, scripted, soon, tmux_socket, until
from needs import require


@pytest.fixture(params=[NAMESPACE, WEAK])
def containment(request: pytest.FixtureRequest) -> str:
    require(request.param == WEAK or namespace_command(), "PID namespaces")
    return str(request.param)


@pytest.fixture(params=["alone", "starter", "tmux"])
def launcher(request: pytest.FixtureRequest, containment: str) -> Iterator[Launcher]:
    if request.param != "tmux":
        yield HeadlessLauncher(containment, lasting=request.param == "starter")
        return
    require(has_tmux(), "tmux")
    with tmux_socket() as socket:
        yield TmuxLauncher(socket, containment=containment)


def give_up_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    for module in (headless, tmux):
        monkeypatch.setattr(module, "START_SECONDS", seconds)


def slow_python(folder: Path, go: Path) -> str:
    """Write an interpreter that starts only when a file exists. Return its path."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nuntil test -e {go}; do sleep 0.02; done\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    return str(python)


def shims(folder: str) -> list[int]:
    """Return the processes with a folder in their command line, except for the tmux server."""
    return [pid for pid in living(folder) if not read(f"/proc/{pid}", "comm").startswith(b"tmux")]


@asynchronous
async def test_start_leaves_no_agent_when_its_shim_is_late(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, folder, token = tmp_path / "go", str(tmp_path / "run"), a_token()
    monkeypatch.setattr(sys, "executable", slow_python(tmp_path, go))
    give_up_after(monkeypatch, 0.3)
    asyncio.get_running_loop().call_later(2.0, go.touch)  # some wait until the late shim has ended
    with pytest.raises(FleetError):
        await soon(launcher.start(folder, scripted("sleep", 1000, token)))
    go.touch()
    await until(lambda: shims(folder) == [] and not launcher.is_alive(folder))
    assert living(token) == []
    assert b"sleeping" not in read(folder, "stdout") and read(folder, "spec.json") == b""


@asynchronous
async def test_start_ends_its_agent_when_it_gives_up_at_any_moment(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, token = random.Random(os.environ.get("FLEET_SEED")), a_token()
    for number in range(6):
        folder = str(tmp_path / str(number))
        give_up_after(monkeypatch, chance.uniform(0, 0.2))
        try:
            agent = await soon(launcher.start(folder, scripted("sleep", 1000, token)))
        except FleetError:
            assert await soon(launcher.end(folder))
        else:
            await agent.kill_tree()
            await soon(agent.ended())
        assert living(token) == []
    await asyncio.sleep(0.5)
    assert living(token) == []
