"""Spare sessions: agents start in them as in any other, and nothing is left of those that nobody needed."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.core.errors import FleetError
from fleet.launchers import spare_terminals
from fleet.launchers.headless import NAMESPACE, WEAK, namespace_command
from fleet.launchers.lock import is_locked
from fleet.launchers.shim.title import ROOM
from fleet.launchers.spare_terminal import PREFIX
from fleet.launchers.tmux import TmuxLauncher
from fleet.launchers.tmux_command import call, has_tmux, kill_session, sessions
from launching import a_token, asynchronous, living, printed, read, scripted, soon, tmux_socket, until, with_spares
from needs import require
from program import Program
from supervised import wait_for
from terminals import Terminals

TESTS = Path(__file__).parents[1]


@pytest.fixture(params=[NAMESPACE, WEAK])
def launcher(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TmuxLauncher]:
    """A launcher that has one spare session, and makes no others meanwhile."""
    monkeypatch.setattr(spare_terminals, "QUIET_SECONDS", 60)
    require(has_tmux(), "tmux")
    require(request.param == WEAK or namespace_command(), "PID namespaces")
    with tmux_socket() as socket:
        made = TmuxLauncher(socket, containment=request.param, spares=str(tmp_path / "spares"))
        with with_spares(made):
            yield made


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "run")


def panes(launcher: TmuxLauncher) -> dict[str, int]:
    """The process of each session's pane."""
    return {name: facts.pane_pid for name, facts in sessions(launcher.socket).items()}


def spare_names(launcher: TmuxLauncher) -> list[str]:
    return [name for name in panes(launcher) if name.startswith(PREFIX)]


def shim_of_spare(tmp_path: Path) -> int:
    """The process that waits: the youngest that was given the folder of spares."""
    return max(living(str(tmp_path / "spares")))


@asynchronous
async def test_an_agent_starts_in_a_spare_session_as_in_one_of_its_own(
    launcher: TmuxLauncher, tmp_path: Path, folder: str
) -> None:
    (spare,) = spare_names(launcher)
    before = panes(launcher)[spare]
    told = []
    for place in (folder, f"{folder}2"):  # the second finds no spare
        about = (sys.executable, "-I", "-S", str(TESTS / "workers" / "terminal.py"), "place")
        agent = await soon(launcher.start(place, scripted(argv=about, env={"ONLY": "this", "LINES": "7"})))
        if place == folder:
            assert panes(launcher) == {agent.session: before}
        ended = await soon(agent.ended())
        await until(lambda place=place: printed(place).count(b"\n") == 2)  # type: ignore[misc]
        told.append((ended and (ended.status, ended.error, ended.truncated), printed(place), sorted(os.listdir(place))))  # noqa: PTH208
        await until(lambda agent=agent: sessions(launcher.socket)[agent.session].dead)  # type: ignore[misc]
        modes = {os.stat(f"{place}/{name}").st_mode & 0o077 for name in os.listdir(place)}  # noqa: PTH116, PTH208
        assert modes == {0}
    assert told[0] == told[1]
    assert os.listdir(tmp_path / "spares") == []  # noqa: PTH208


@asynchronous
async def test_the_log_of_a_spare_has_the_first_word_and_all_others(launcher: TmuxLauncher, folder: str) -> None:
    await soon((await launcher.start(folder, scripted("lines", 5000))).ended())
    await until(lambda: printed(folder).count(b"\n") >= 5000)
    assert printed(folder).splitlines() == [b'{"line": %d}' % number for number in range(5000)]


@asynchronous
async def test_the_shim_is_found_by_its_folder_in_the_list_of_processes(launcher: TmuxLauncher, folder: str) -> None:
    agent = await soon(launcher.start(folder, scripted("sleep", 1000)))
    assert agent.shim_pid in living(folder)
    again = await TmuxLauncher(launcher.socket, containment=launcher.containment).find(folder)
    assert again is not None and again.session == agent.session
    await again.kill_tree()
    assert await soon(again.ended()) == await soon(agent.ended())


@asynchronous
async def test_the_folder_is_never_seen_free_while_a_spare_becomes_its_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare_terminals, "QUIET_SECONDS", 60)
    require(has_tmux() and namespace_command(), "tmux and PID namespaces")
    stop, gaps = threading.Event(), []

    def look(folder: str) -> None:
        while not is_locked(folder) and not stop.is_set():
            pass
        while not stop.is_set():
            if not is_locked(folder):
                gaps.append(folder)

    with tmux_socket() as socket:
        launcher = TmuxLauncher(socket, containment=NAMESPACE, spares=str(tmp_path / "spares"))
        with with_spares(launcher, 4):
            for number in range(4):
                folder, token = str(tmp_path / str(number)), a_token()
                looking = threading.Thread(target=look, args=(folder,))
                looking.start()
                agent = await soon(launcher.start(folder, scripted("crowd", 20, token)))
                await until(lambda token=token: len(living(token)) == 41)  # type: ignore[misc]
                with pytest.raises(FleetError, match="an agent lives"):
                    await launcher.start(folder, scripted("end", 0))
                stop.set()
                looking.join()
                stop.clear()
                shim = agent.shim_pid
                agent.close()
                assert shim is not None
                os.kill(shim, signal.SIGKILL)
                while launcher.is_alive(folder):
                    pass
                assert living(token) == []  # and it is held until the last is gone
    assert gaps == []


@asynchronous
async def test_a_spare_whose_shim_was_killed_is_no_hindrance(
    launcher: TmuxLauncher, tmp_path: Path, folder: str
) -> None:
    os.kill(shim_of_spare(tmp_path), signal.SIGKILL)
    await until(lambda: panes(launcher) == {})
    agent = await soon(launcher.start(folder, scripted("end", 3)))
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 3
    assert spare_names(launcher) == []


@pytest.mark.parametrize("launcher", [NAMESPACE], indirect=True)  # tmux wakes what it started itself
@asynchronous
async def test_a_spare_that_dies_when_it_is_needed_is_no_hindrance(
    launcher: TmuxLauncher, tmp_path: Path, folder: str
) -> None:
    shim = shim_of_spare(tmp_path)
    os.kill(shim, signal.SIGSTOP)
    starting = asyncio.create_task(launcher.start(folder, scripted("echo", session="wanted")))
    await until(lambda: set(panes(launcher)) == {"wanted"} and not any(Path(tmp_path, "spares").glob("*/lock")))
    os.kill(shim, signal.SIGKILL)
    agent = await soon(starting)
    await agent.press("word", "Enter")
    await until(lambda: printed(folder).startswith(b"word\nword\n"))
    await agent.kill_tree()
    ended = await soon(agent.ended())
    assert ended is not None and ended.signal == signal.SIGKILL
    await until(lambda: not launcher.is_alive(folder), 5)


@pytest.mark.parametrize("way", ["session", "server"])
@asynchronous
async def test_a_spare_goes_with_its_terminal(launcher: TmuxLauncher, tmp_path: Path, folder: str, way: str) -> None:
    if way == "session":
        kill_session(launcher.socket, *spare_names(launcher))
    else:
        os.kill(int(call(launcher.socket, "display-message", "-p", "#{pid}").stdout), signal.SIGKILL)
    await until(lambda: living(str(tmp_path / "spares")) == [], 5)
    ended = await soon((await launcher.start(folder, scripted("end", 4))).ended())
    assert ended is not None and ended.status == 4


@asynchronous
async def test_a_name_that_is_taken_is_as_taken_with_a_spare(launcher: TmuxLauncher, folder: str) -> None:
    spec = scripted("echo", session="same")
    first = await soon(launcher.start(folder, spec))
    with with_spares(launcher), pytest.raises(FleetError, match="session same already, and something runs in it"):
        await launcher.start(f"{folder}2", spec)
    assert not launcher.is_alive(f"{folder}2") and not launcher.was_started(f"{folder}2")
    await first.kill_tree()
    await soon(first.ended())
    await until(lambda: sessions(launcher.socket)["same"].dead)
    with with_spares(launcher):
        third = await soon(launcher.start(folder, spec))
    await third.kill_tree()
    await soon(third.ended())


@asynchronous
async def test_whoever_starts_may_be_killed_at_any_moment(launcher: TmuxLauncher, tmp_path: Path) -> None:
    found = []
    for number in range(8):
        run, ran, token = tmp_path / f"run{number}", tmp_path / f"ran{number}", a_token()
        process = starter(launcher, run, tmp_path / "others", ran, token)
        await until((run / "starting").exists, 20)
        if number == 7:
            await until(ran.exists)
        await asyncio.sleep(number * 0.004)
        process.kill()
        process.wait()
        agent = await soon(launcher.find(str(run)))
        found.append(agent is not None)
        if agent is None:
            await until(lambda run=run: not launcher.is_alive(str(run)), 20)  # type: ignore[misc]
            await until(lambda token=token: living(token) == [], 20)  # type: ignore[misc]
            assert not launcher.was_started(str(run)) and not ran.exists()
        else:
            await until(ran.exists)
            await agent.kill_tree()
            await soon(agent.ended())
            assert living(token) == []
    assert found[-1]
    await until(lambda: len(spare_names(launcher)) == 1, 2)  # ours; of those that were killed there is none


def starter(launcher: TmuxLauncher, folder: Path, spares: Path, *words: object) -> "subprocess.Popen[bytes]":
    """A process that makes a spare session, starts an agent in it and holds it."""
    agent = [sys.executable, "-I", "-S", str(TESTS / "workers" / "terminal.py"), "mark", *map(str, words)]
    worker = [sys.executable, str(TESTS / "workers" / "tmux_starter.py"), launcher.socket, str(folder)]
    env = os.environ | {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    return subprocess.Popen([*worker, launcher.containment, str(spares), "--", *agent], env=env)


@asynchronous
async def test_as_many_are_kept_as_were_started_at_once_and_none_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(has_tmux(), "tmux")
    monkeypatch.setattr(spare_terminals, "QUIET_SECONDS", 0.5)
    with tmux_socket() as socket:
        launcher = TmuxLauncher(socket, spares=str(tmp_path / "spares"))

        async def burst(count: int) -> None:
            ways = [str(tmp_path / a_token()) for _ in range(count)]
            agents = await asyncio.gather(*(launcher.start(way, scripted("end", 0)) for way in ways))
            await soon(asyncio.gather(*(agent.ended() for agent in agents)))

        async def settled(count: int) -> None:
            await until(lambda: len(spare_names(launcher)) == count)
            await asyncio.sleep(0.5)  # another one would have been begun
            assert len(spare_names(launcher)) == count

        assert spare_names(launcher) == []
        await burst(3)
        await settled(3)
        await burst(1)
        await settled(3)
        monkeypatch.setattr(spare_terminals, "MOST", 2)
        await burst(1)
        await settled(2)
        monkeypatch.setattr(spare_terminals, "UNUSED_SECONDS", 0.5)
        await burst(1)
        await until(lambda: spare_names(launcher) == [])
        await until(lambda: living(str(tmp_path / "spares")) == [] and os.listdir(tmp_path / "spares") == [])  # noqa: PTH208


@pytest.fixture
def home(fleet: Program) -> Iterator[Terminals]:
    """Fleet with spare sessions, in a small repository."""
    made = Terminals(fleet)
    del fleet.env["FLEET_WARM"]
    yield made
    made.stop()
    wait_for(lambda: made.agents() == [], "the end of all", made.describe)


def waiting(place: Path) -> list[int]:
    """The shims that wait for a folder: the last word of their command line is empty."""
    lines = {pid: read(f"/proc/{pid}", "cmdline") for pid in living(str(place))}
    return [pid for pid, line in lines.items() if b"python" in line.split(b"\0")[0] and ROOM.encode() in line]


def test_a_supervisor_keeps_spares_and_none_is_left_when_it_is_killed(home: Terminals) -> None:
    home.typed("fleet create one --prompt idle")
    wait_for(lambda: len(home.spares()) == 1, "a spare session", home.describe)
    assert list(home.listed()) == ["one"]
    assert PREFIX not in home.typed("fleet list --repair") + home.typed("fleet doctor || true")
    assert len(home.spares()) == 1
    (spare,) = home.spares()
    pid = home.tmux("display-message", "-p", "-t", f"={spare}:", "#{pane_pid}")
    home.typed("fleet create two --prompt idle")
    assert home.tmux("display-message", "-p", "-t", "=ai_two:", "#{pane_pid}") == pid
    wait_for(lambda: len(home.spares()) == 1, "another spare session", home.describe)
    place = home.fleet.home / "spares"
    wait_for(lambda: len(waiting(place)) == 1, "its shim", home.describe)
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: home.spares() == set() and not waiting(place), "their end", home.describe, 2)
    assert home.sessions() == {"ai_one", "ai_two"}
    (place / "left").mkdir(exist_ok=True)  # as one leaves that is killed itself
    home.typed("fleet create three --prompt idle")
    wait_for(lambda: len(home.spares()) == 1 and not (place / "left").exists(), "another spare", home.describe)
    home.fleet.ok("run", "stop")
    wait_for(lambda: not home.spares(), "no spare", home.describe, 2)
    assert home.sessions() == {"ai_one", "ai_two", "ai_three"}
