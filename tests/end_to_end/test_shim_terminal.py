"""A process that starts an agent in a terminal may be killed at any moment: one agent exists then, or none ever."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agents.headless import NAMESPACE, WEAK, namespace_command
from fleet.agents.tmux import TmuxLauncher
from fleet.agents.tmux_command import has_tmux, sessions
from launching import a_token, asynchronous, living, scripted, soon, tmux_socket, until
from needs import require

TESTS = Path(__file__).parents[1]


@pytest.fixture(params=[NAMESPACE, WEAK])
def launcher(request: pytest.FixtureRequest) -> Iterator[TmuxLauncher]:
    require(has_tmux(), "tmux")
    require(request.param == WEAK or namespace_command(), "PID namespaces")
    with tmux_socket() as socket:
        yield TmuxLauncher(socket, containment=request.param)


def starter(launcher: TmuxLauncher, folder: Path, *words: object, path: str = "") -> "subprocess.Popen[bytes]":
    """Start a process that starts an agent in a terminal and holds it."""
    agent = [sys.executable, "-I", "-S", str(TESTS / "workers" / "terminal.py"), *map(str, words)]
    worker = [sys.executable, str(TESTS / "workers" / "tmux_starter.py"), launcher.socket, str(folder)]
    env = os.environ | {"PATH": path + os.environ["PATH"], "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    return subprocess.Popen([*worker, launcher.containment, "--", *agent], env=env)


class SlowTmux:
    """A tmux on the PATH that waits until released, for a minute at most."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = f"{folder}:"
        self._program = folder / "tmux"
        wait = "n=0; while [ ! -e $0.go ] && [ $n -lt 1200 ]; do n=$((n + 1)); sleep 0.05; done"
        self._program.write_text(f'#!/bin/sh\n: > $0.called\n{wait}\nexec {shutil.which("tmux")} "$@"\n')
        self._program.chmod(0o755)

    def called(self) -> bool:
        """Return True if a caller waits for this tmux."""
        return Path(f"{self._program}.called").exists()

    def go(self) -> None:
        """Release it."""
        Path(f"{self._program}.go").touch()


async def killed(process: "subprocess.Popen[bytes]", tmux: SlowTmux) -> None:
    """Wait until a process has called tmux, and kill it with SIGKILL."""
    await until(tmux.called)
    process.kill()
    process.wait()


def deaths(launcher: TmuxLauncher) -> list[bool]:
    """Return for each session whether its command has ended."""
    return [facts.dead for facts in sessions(launcher.socket).values()]


@asynchronous
async def test_late_shim_finds_nothing_to_start(launcher: TmuxLauncher, tmp_path: Path) -> None:
    run, ran, tmux = tmp_path / "run", tmp_path / "ran", SlowTmux(tmp_path / "bin")
    await killed(starter(launcher, run, "mark", ran, path=tmux.path), tmux)
    assert (run / "spec.json").exists()
    assert await launcher.find(str(run)) is None
    assert not (run / "spec.json").exists()
    tmux.go()
    await until(lambda: deaths(launcher) == [True])
    assert not ran.exists()
    assert not launcher.was_started(str(run)) and launcher.last_exit(str(run)) is None


@asynchronous
async def test_late_shim_does_not_replace_another(launcher: TmuxLauncher, tmp_path: Path) -> None:
    run, ran = tmp_path / "run", tmp_path / "ran"
    first, second = SlowTmux(tmp_path / "bin1"), SlowTmux(tmp_path / "bin2")
    await killed(starter(launcher, run, "mark", tmp_path / "late", path=first.path), first)
    process = starter(launcher, run, "mark", ran, path=second.path)
    await until(second.called)
    first.go()
    await until(lambda: deaths(launcher) == [True])
    assert not ran.exists()
    second.go()
    await until(ran.exists)
    agent = await launcher.find(str(run))
    assert agent is not None
    await agent.kill_tree()
    await soon(agent.ended())
    process.wait()
    assert not (tmp_path / "late").exists()


@asynchronous
async def test_start_continues_without_its_starter_and_leaves_no_secret(launcher: TmuxLauncher, tmp_path: Path) -> None:
    run, ran, tmux = tmp_path / "run", tmp_path / "ran", SlowTmux(tmp_path / "bin")
    await killed(starter(launcher, run, "mark", ran, path=tmux.path), tmux)
    tmux.go()
    await until(ran.exists)
    assert not (run / "spec.json").exists()
    agent = await launcher.find(str(run))
    assert agent is not None and launcher.was_started(str(run))
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_find_during_a_start_does_not_disturb_it(
    launcher: TmuxLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, tmux = str(tmp_path / "run"), SlowTmux(tmp_path / "bin")
    monkeypatch.setenv("PATH", tmux.path + os.environ["PATH"])
    starting = asyncio.create_task(launcher.start(run, scripted("sleep", 1000)))
    await until(tmux.called)
    looking = asyncio.create_task(launcher.find(run))
    await asyncio.sleep(0.1)
    tmux.go()
    found = await soon(looking)
    assert found is not None and found.session == (await soon(starting)).session
    await found.kill_tree()
    await soon(found.ended())


@asynchronous
async def test_abandoned_start_completes(
    launcher: TmuxLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, tmux = str(tmp_path / "run"), SlowTmux(tmp_path / "bin")
    monkeypatch.setenv("PATH", tmux.path + os.environ["PATH"])
    starting = asyncio.create_task(launcher.start(run, scripted("sleep", 1000)))
    await until(tmux.called)
    starting.cancel()
    await asyncio.wait([starting])
    tmux.go()
    agent = await soon(launcher.find(run))
    assert starting.cancelled() and agent is not None
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_starter_killed_at_any_moment_leaves_one_agent_or_none(launcher: TmuxLauncher, tmp_path: Path) -> None:
    found = []
    for number in range(12):
        run, token = tmp_path / f"run{number}", a_token()
        process = starter(launcher, run, "mark", tmp_path / f"ran{number}", token)
        await until((run / "starting").exists)
        if number == 11:
            await until((tmp_path / "ran11").exists)
        await asyncio.sleep(number * 0.008)
        process.kill()
        process.wait()
        agent = await launcher.find(str(run))
        found.append(agent is not None)
        if agent is None:
            await asyncio.sleep(0.2)
            await until(lambda run=run: not launcher.is_alive(str(run)))  # type: ignore[misc]  # a late one is going
            assert living(token) == [] and not launcher.was_started(str(run))
            assert not (tmp_path / f"ran{number}").exists()
        else:
            await until((tmp_path / f"ran{number}").exists)
            assert launcher.was_started(str(run))
            await agent.kill_tree()
            await soon(agent.ended())
            assert living(token) == []
    assert found[-1]
