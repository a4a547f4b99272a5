"""The process that starts agents may be killed, short of descriptors or busy: agents are not affected."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.agents.headless import HeadlessLauncher
from launching import a_token, asynchronous, living, read, scripted, soon, until

TESTS = Path(__file__).parents[1]


@pytest.fixture(params=["alone", "starter"])
def launcher(request: pytest.FixtureRequest) -> HeadlessLauncher:
    return HeadlessLauncher(lasting=request.param == "starter")


def starter(folders: list[Path], *behaviour: object, files: int | None = None) -> "subprocess.Popen[str]":
    """Start a process that starts agents in these folders and waits for them."""
    command = [sys.executable, str(TESTS / "workers" / "starter.py"), *map(str, folders), "--", *map(str, behaviour)]
    if files is not None:
        command = ["prlimit", f"--nofile={files}:{files}", "--", *command]
    env = os.environ | {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def answers(process: "subprocess.Popen[str]") -> list[str]:
    """Return the lines that a starter prints before the word `done`."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        if line == "done\n":
            return said
        said.append(line.strip())
    raise AssertionError(f"ended early: {said}")


def put_away(process: "subprocess.Popen[str]", number: int = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@asynchronous
async def test_agents_outlive_a_starter_killed_by_sigkill(launcher: HeadlessLauncher, tmp_path: Path) -> None:
    folders = [tmp_path / f"run{number}" for number in range(5)]
    process = starter(folders, "echo")
    answers(process)
    put_away(process)
    for number, folder in enumerate(folders):
        agent = await launcher.find(str(folder))
        assert agent is not None
        await agent.write(f"adopted {number}\n")
        await until(lambda folder=folder, n=number: read(folder, "stdout") == f"adopted {n}\n".encode())  # type: ignore[misc]
        await agent.close_stdin()
        ended = await soon(agent.ended())
        assert ended is not None and ended.status == 0


@asynchronous
async def test_agent_that_ended_meanwhile_left_its_true_exit(launcher: HeadlessLauncher, tmp_path: Path) -> None:
    process = starter([tmp_path / "run"], "polite")
    answers(process)
    put_away(process)
    agent = await launcher.find(str(tmp_path / "run"))
    assert agent is not None
    await until(lambda: read(tmp_path / "run", "stdout"))
    await agent.signal(signal.SIGTERM)
    agent.close()  # no process listens any more
    await until(lambda: not launcher.is_alive(str(tmp_path / "run")))
    ended = launcher.last_exit(str(tmp_path / "run"))
    assert ended is not None and ended.status == 42
    assert await launcher.find(str(tmp_path / "run")) is None


@asynchronous
async def test_starter_killed_at_any_moment_leaves_agents_that_are_found_or_none(
    launcher: HeadlessLauncher, tmp_path: Path
) -> None:
    for number in range(12):
        token = a_token()
        folders = [tmp_path / f"{number}-{count}" for count in range(8)]
        process = starter(folders, "sleep", 1000, token)
        await asyncio.sleep(0.1 + number * 0.03)
        put_away(process)
        # A shim that was just starting takes its lock along: it is found now or never.
        found = [agent for folder in folders if (agent := await launcher.find(str(folder)))]
        assert len([pid for pid in living(token) if "starter" not in _command(pid)]) <= 8
        for agent in found:
            await agent.kill_tree()
            await soon(agent.ended())
        assert living(token) == []


def _command(pid: int) -> str:
    return read(f"/proc/{pid}", "cmdline").decode(errors="replace")


@asynchronous
async def test_starter_with_64_descriptors_is_refused_cleanly_and_continues(
    launcher: HeadlessLauncher, tmp_path: Path
) -> None:
    folders = [tmp_path / f"run{number}" for number in range(80)]
    process = starter(folders, "echo", files=64)
    said = await asyncio.to_thread(answers, process)
    refused = [line for line in said if line.startswith("refused")]
    assert len(said) == 80
    assert 30 <= len(said) - len(refused) <= 60
    assert all("Too many open files" in line and "ulimit -n" in line for line in refused)
    alive = [folder for folder in folders if launcher.is_alive(str(folder))]
    assert len(alive) == len(said) - len(refused)  # a refusal left no unknown process behind
    for folder in alive:
        agent = await launcher.find(str(folder))
        assert agent is not None
        await agent.kill_tree()
        await soon(agent.ended())
    put_away(process)


@asynchronous
async def test_60_agents_run_at_once(launcher: HeadlessLauncher, tmp_path: Path) -> None:
    token = a_token()
    specs = [scripted("hostile", "stay" if number % 2 else "end", token) for number in range(60)]
    agents = await asyncio.gather(
        *(launcher.start(str(tmp_path / f"run{number}"), spec) for number, spec in enumerate(specs))
    )
    staying = agents[1::2]
    await until(lambda: all(read(tmp_path / f"run{number}", "stdout") for number in range(60)))
    await asyncio.gather(*(agent.kill_tree() for agent in staying))
    ends = await soon(asyncio.gather(*(agent.ended() for agent in agents)))
    assert [ended and ended.status for ended in ends[0::2]] == [0] * 30
    assert [ended and ended.signal for ended in ends[1::2]] == [9] * 30
    assert living(token) == []


@asynchronous
async def test_folder_may_be_deeper_than_the_length_of_a_socket_name(
    launcher: HeadlessLauncher, tmp_path: Path
) -> None:
    folder = str(tmp_path / ("d" * 120) / ("e" * 140))
    assert len(folder) > 250
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    again = await launcher.find(folder)
    assert again is not None
    await again.write("deep\n")
    await until(lambda: read(folder, "stdout") == b"deep\n")
    await again.close_stdin()
    assert await soon(agent.ended()) == await soon(again.ended()) == launcher.last_exit(folder)


@asynchronous
async def test_relative_folder_works(
    launcher: HeadlessLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = await soon((await launcher.start("run", scripted("end", 4))).ended())
    assert ended is not None and ended.status == 4


@asynchronous
async def test_200_starts_leave_no_descriptor_no_zombie_and_no_memory(
    launcher: HeadlessLauncher, tmp_path: Path
) -> None:
    async def ten(base: int) -> None:
        folders = [str(tmp_path / f"run{base + number}") for number in range(10)]
        agents = await asyncio.gather(*(launcher.start(folder, scripted("lines", 3)) for folder in folders))
        ends = await soon(asyncio.gather(*(agent.ended() for agent in agents)))
        assert [ended and ended.status for ended in ends] == [0] * 10
        assert {read(folder, "stdout").count(b"\n") for folder in folders} == {3}

    await ten(0)
    handles, memory = len(os.listdir("/proc/self/fd")), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # noqa: PTH208
    for base in range(10, 210, 10):
        await ten(base)
    await asyncio.sleep(0.1)
    assert len(os.listdir("/proc/self/fd")) <= handles  # noqa: PTH208
    assert _zombies() == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8 * 1024
    assert not [pid for pid in living(str(tmp_path)) if pid != os.getpid()]


def _zombies() -> list[str]:
    tasks = Path("/proc/self/task").iterdir()
    children = [pid for task in tasks for pid in read(task, "children").decode().split()]
    return [pid for pid in children if b") Z " in read(f"/proc/{pid}", "stat")]


@asynchronous
async def test_long_silence_wakes_neither_shim_nor_launcher(launcher: HeadlessLauncher, tmp_path: Path) -> None:
    agent = await launcher.start(str(tmp_path / "run"), scripted("sleep", 1000))
    await until(lambda: read(tmp_path / "run", "stdout"))
    await asyncio.sleep(0.2)
    of_the_shim, ours = _wakes(agent.shim_pid), _wakes(os.getpid())
    await asyncio.sleep(1)
    assert _wakes(agent.shim_pid) == of_the_shim
    assert _wakes(os.getpid()) - ours < 10  # one of them ends this sleep
    await agent.kill_tree()
    await soon(agent.ended())


def _wakes(pid: int | None) -> int:
    """Return how often a process has waited for something."""
    return int(read(f"/proc/{pid}", "status").partition(b"\nvoluntary_ctxt_switches:")[2].split()[0])
