"""Agents with forked shims: they behave like others, even if the starter dies."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.agents.base import SandboxSpec
from fleet.agents.headless import NAMESPACE, WEAK, HeadlessLauncher, namespace_command
from fleet.agents.shim_client import ShimAgent
from fleet.core.errors import FleetError
from launching import a_token, asynchronous, living, read, scripted, soon, until
from needs import require

TESTS = Path(__file__).parents[1]


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a word in the environment of this test's processes, the only mark that identifies its starter."""
    word = a_token()
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/{word}")
    return word


def starters(mark: str) -> list[int]:
    """Return the starters of one test. Unlike a shim's, their command line ends in a number."""
    marked = [pid for pid in living("shim.starter") if mark.encode() in read(f"/proc/{pid}", "environ")]
    return [pid for pid in marked if words(pid)[-1].isdigit() and b") Z " not in read(f"/proc/{pid}", "stat")]


def words(pid: int) -> list[bytes]:
    """Return the command line of a process without the empty end, which `ps` omits too."""
    return read(f"/proc/{pid}", "cmdline").rstrip(b"\0").split(b"\0")


async def one_starter(mark: str) -> int:
    await until(lambda: len(starters(mark)) == 1)
    return starters(mark)[0]


def facts(agent: ShimAgent) -> dict[str, object]:
    """Return facts of the system about a shim that must not depend on how it was started."""
    pid = agent.shim_pid
    assert pid is not None
    status = dict(line.split(":\t", 1) for line in read(f"/proc/{pid}", "status").decode().splitlines())
    names = ("Uid", "Gid", "Groups", "Umask", "Threads", "NoNewPrivs", "Seccomp", "NSpid")
    same = [name for name in status if re.match("Sig|Shd|Cap", name) and name not in ("SigQ", "SigPnd", "ShdPnd")]
    parents = [int(status["PPid"])]
    while parents[-1] > 1 and agent_folder(agent) in read(f"/proc/{parents[-1]}", "cmdline").decode():
        parents.append(parent_of(parents[-1]))
    return {
        **{name: status[name].split()[1:] if name == "NSpid" else status[name] for name in (*names, *same)},
        "environment": set(read(f"/proc/{pid}", "environ").split(b"\0")),
        "descriptors": held(pid),
        "of the one before": held(parents[0]) if len(parents) > 1 else None,
        "root": Path(f"/proc/{pid}/root").readlink(),
        "limits": read(f"/proc/{pid}", "limits"),
        "users": read(f"/proc/{pid}", "uid_map"),
        "mounts": len(mounts(agent)),
        "steps to whoever takes orphans": len(parents),
        "leads its session": os.getsid(pid) == pid,
        "in our session": os.getsid(pid) == os.getsid(0),
        "priority": os.getpriority(os.PRIO_PROCESS, pid),
    }


def mounts(agent: ShimAgent) -> list[str]:
    """Return the mounts that a shim sees, without the small disks of other tests."""
    lines = read(f"/proc/{agent.shim_pid}", "mountinfo").decode().splitlines()
    return [line for line in lines if "/pytest-of-" not in line or agent_folder(agent) in line]


def parent_of(pid: int | None) -> int:
    return int(read(f"/proc/{pid}", "stat").decode().rpartition(")")[2].split()[1])


def held(pid: int) -> list[str]:
    """Return the open files of a process."""
    found = []
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(handle.readlink().name.partition(":")[0])
    return sorted(found)


def agent_folder(agent: ShimAgent) -> str:
    return str(Path(f"/proc/{agent.shim_pid}/cwd").readlink())


@pytest.mark.parametrize("containment", [NAMESPACE, WEAK])
@pytest.mark.parametrize("apart", [None, SandboxSpec(hidden=("/no/such/place",))])
@asynchronous
async def test_forked_shim_equals_one_that_was_started_alone(
    tmp_path: Path, mark: str, containment: str, apart: SandboxSpec | None
) -> None:
    require(containment == WEAK or namespace_command(), "PID namespaces")
    agents, inside = [], []
    show = (
        "/bin/sh",
        "-c",
        "umask; ulimit -a; grep -E 'Sig[BIC]|Cap' /proc/self/status; ls /proc/self/fd; echo seen; cat",
    )
    for lasting in (False, True):
        launcher = HeadlessLauncher(containment, lasting=lasting)
        folder = tmp_path / str(lasting) / "run"
        agent = await launcher.start(str(folder), scripted(argv=show, keep_stdin=True, apart=apart))
        await until(lambda folder=folder: b"seen" in read(folder, "stdout"))  # type: ignore[misc]
        inside.append(read(folder, "stdout"))
        agents.append(agent)
        assert agent_folder(agent) == str(folder)
        assert len(starters(mark)) == lasting
        assert (b"shim.starter" in read(f"/proc/{agent.shim_pid}", "cmdline")) == lasting
        step = read(f"/proc/{parent_of(agent.shim_pid)}", "cmdline").split(b"\0")[0]
        assert containment == WEAK or step.endswith(b"unshare")  # must not be confused with the shim
    with suppress(AssertionError):  # the wrapper of a shim closes its pipes a moment later
        await until(lambda: facts(agents[0]) == facts(agents[1]), 10)
    assert facts(agents[0]) == facts(agents[1])
    assert inside[0] == inside[1]
    for agent in agents:
        await agent.kill_tree()
        await soon(agent.ended())


@asynchronous
async def test_command_line_of_a_starter_ends_with_its_last_word(tmp_path: Path, mark: str) -> None:
    launcher = HeadlessLauncher(lasting=True)
    agent = await launcher.start(str(tmp_path / "run"), scripted("sleep", 1000))
    starter = await one_starter(mark)
    assert not [word for word in words(starter) if not word.strip()]
    assert words(starter)[:-1] == words(agent.shim_pid or 0)[:-2]
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_starter_has_no_children_and_holds_no_files_of_its_agents(tmp_path: Path, mark: str) -> None:
    launcher = HeadlessLauncher(lasting=True)
    agents = [await launcher.start(str(tmp_path / str(number)), scripted("sleep", 1000)) for number in range(5)]
    starter = await one_starter(mark)
    await until(lambda: read(f"/proc/{starter}/task/{starter}", "children") == b"")
    assert held(starter) == ["null", "null", "null", "socket"]
    await asyncio.gather(*(agent.kill_tree() for agent in agents))
    await soon(asyncio.gather(*(agent.ended() for agent in agents)))


@asynchronous
async def test_agents_outlive_the_starter(tmp_path: Path, mark: str) -> None:
    launcher = HeadlessLauncher(lasting=True)
    agents = [await launcher.start(str(tmp_path / str(number)), scripted("echo", keep_stdin=True)) for number in (0, 1)]
    os.kill(await one_starter(mark), signal.SIGKILL)
    await until(lambda: not starters(mark))
    for number, agent in enumerate(agents):
        await agent.write("still\n")
        await agent.close_stdin()
        ended = await soon(agent.ended())
        assert ended is not None and ended.status == 0
        assert read(tmp_path / str(number), "stdout") == b"still\n"


@asynchronous
async def test_killed_starter_is_replaced(tmp_path: Path, mark: str) -> None:
    launcher = HeadlessLauncher(lasting=True)
    for number in range(3):
        ended = await soon((await launcher.start(str(tmp_path / str(number)), scripted("end", number))).ended())
        assert ended is not None and ended.status == number
        os.kill(await one_starter(mark), signal.SIGKILL)
        await until(lambda: not starters(mark))


@asynchronous
async def test_starts_in_progress_complete_when_the_starter_is_killed(tmp_path: Path, mark: str) -> None:
    launcher, token = HeadlessLauncher(lasting=True), a_token()
    await soon((await launcher.start(str(tmp_path / "first"), scripted("end", 0))).ended())
    starter = await one_starter(mark)
    os.kill(starter, signal.SIGSTOP)
    folders = [str(tmp_path / str(number)) for number in range(12)]
    starting = asyncio.gather(*(launcher.start(folder, scripted("sleep", 1000, token)) for folder in folders))
    await until(lambda: all(launcher.is_alive(folder) for folder in folders))
    os.kill(starter, signal.SIGKILL)
    agents = await soon(starting)
    await until(lambda: all(read(folder, "stdout") for folder in folders))
    assert len(living(token)) == 12
    await asyncio.gather(*(agent.kill_tree() for agent in agents))
    await soon(asyncio.gather(*(agent.ended() for agent in agents)))
    assert living(token) == []


@asynchronous
async def test_killing_the_starter_during_many_starts_loses_and_duplicates_none(tmp_path: Path, mark: str) -> None:
    launcher = HeadlessLauncher(lasting=True)
    await soon((await launcher.start(str(tmp_path / "first"), scripted("end", 0))).ended())
    for turn in range(6):
        token, folders = a_token(), [tmp_path / f"{turn}-{number}" for number in range(8)]
        starting = asyncio.gather(*(launcher.start(str(folder), scripted("sleep", 1000, token)) for folder in folders))
        await until(lambda folders=folders, turn=turn: sum(map(Path.exists, folders)) > turn)  # type: ignore[misc]
        for pid in starters(mark):
            os.kill(pid, signal.SIGKILL)
        agents = await soon(starting)
        await until(lambda token=token: len(living(token)) == 8)  # type: ignore[misc]
        await asyncio.gather(*(agent.kill_tree() for agent in agents))
        await soon(asyncio.gather(*(agent.ended() for agent in agents)))
        assert living(token) == []


def owner_of_a_starter(folder: Path) -> "subprocess.Popen[str]":
    """Start a process that starts an agent through a starter, and holds both."""
    words = [sys.executable, str(TESTS / "workers" / "starter.py"), str(folder), "--lasting", "--", "echo"]
    env = os.environ | {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)


@asynchronous
async def test_starter_ends_when_its_owner_is_killed(tmp_path: Path, mark: str) -> None:
    owner = owner_of_a_starter(tmp_path / "run")
    assert owner.stdout is not None
    with owner.stdout:
        await until(lambda: len(starters(mark)) == 1 and HeadlessLauncher().is_alive(str(tmp_path / "run")))
        assert [owner.stdout.readline(), owner.stdout.readline()][1] == "done\n"
        owner.kill()
        owner.wait()
    await until(lambda: not starters(mark))
    agent = await HeadlessLauncher().find(str(tmp_path / "run"))
    assert agent is not None
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_starter_ends_with_its_launcher(tmp_path: Path, mark: str) -> None:
    launcher = HeadlessLauncher(lasting=True)
    await soon((await launcher.start(str(tmp_path / "run"), scripted("end", 0))).ended())
    await one_starter(mark)
    del launcher
    await until(lambda: not starters(mark))


@asynchronous
async def test_agents_start_alone_when_no_starter_can_run(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    tries = tmp_path / "tries"
    python.write_text(
        f'#!/bin/sh\ncase "$4" in *starter*) echo >> {tries}; exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    launcher = HeadlessLauncher(lasting=True)
    tried = []
    for number in range(5):
        ended = await soon((await launcher.start(str(tmp_path / str(number)), scripted("end", number))).ended())
        assert ended is not None and ended.status == number
        tried.append(len(tries.read_text()))
    assert tried[0] < tried[1] < tried[2] == tried[3] == tried[4]  # then the launcher stops trying


@asynchronous
async def test_failed_start_of_an_agent_does_not_count_against_the_starter(tmp_path: Path, mark: str) -> None:
    launcher = HeadlessLauncher(lasting=True)
    for number in range(4):
        os.makedirs(tmp_path / str(number) / "control")  # so that the socket cannot be made  # noqa: PTH103
        with pytest.raises(FleetError, match="Address already in use"):
            await launcher.start(str(tmp_path / str(number)), scripted("end", 0))
        assert not launcher.is_alive(str(tmp_path / str(number)))
    await soon((await launcher.start(str(tmp_path / "good"), scripted("end", 0))).ended())
    await one_starter(mark)
