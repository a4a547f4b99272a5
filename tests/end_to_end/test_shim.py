"""The shim under stress: hidden process trees, killed shims and rude clients."""

import asyncio
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fleet.agents import shim_client
from fleet.agents.headless import NAMESPACE, WEAK, HeadlessLauncher, namespace_command
from fleet.agents.shim_client import ShimAgent
from fleet.core.errors import FleetError
from launching import AGENT, a_token, asynchronous, living, read, scripted, soon, until
from needs import require

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture(params=["alone", "starter"])
def launcher(request: pytest.FixtureRequest) -> HeadlessLauncher:
    require(namespace_command(), "PID namespaces")
    return HeadlessLauncher(NAMESPACE, lasting=request.param == "starter")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "run")


def pid_of_shim(agent: ShimAgent) -> int:
    pid = agent.shim_pid
    assert pid is not None
    return pid


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@asynchronous
async def test_shim_killed_by_sigkill_takes_its_whole_tree_along(launcher: HeadlessLauncher, folder: str) -> None:
    token = a_token()
    agent = await launcher.start(folder, scripted("hostile", "stay", token))
    await until(lambda: len(living(token)) == 4)
    os.kill(pid_of_shim(agent), signal.SIGKILL)
    assert await soon(agent.ended()) is None  # the exit status is unknown …
    assert living(token) == []  # … but the tree is gone
    assert not launcher.is_alive(folder)
    assert await launcher.find(folder) is None
    assert launcher.last_exit(folder) is None


@asynchronous
async def test_lock_is_held_until_the_tree_is_gone(launcher: HeadlessLauncher, folder: str) -> None:
    for _ in range(10):
        token = a_token()
        agent = await launcher.start(folder, scripted("crowd", 20, token))
        await until(lambda token=token: len(living(token)) == 41)  # type: ignore[misc]
        agent.close()
        os.kill(pid_of_shim_by_lock(folder), signal.SIGKILL)
        while launcher.is_alive(folder):
            pass
        assert living(token) == []


def pid_of_shim_by_lock(folder: str) -> int:
    """Return the shim as an administrator finds it: the youngest process with the folder in its command line."""
    return max(living(folder))


@asynchronous
async def test_weak_shim_killed_by_sigkill_takes_at_least_the_agent_along(folder: str) -> None:
    token = a_token()
    agent = await HeadlessLauncher(WEAK).start(folder, scripted("sleep", 1000, token))
    await until(lambda: read(folder, "stdout"))
    os.kill(pid_of_shim(agent), signal.SIGKILL)
    assert await soon(agent.ended()) is None
    await until(lambda: living(token) == [])


@asynchronous
async def test_process_between_init_and_the_shim_is_not_needed(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    os.kill(parent_of(pid_of_shim(agent)), signal.SIGKILL)
    await agent.write("still\n")
    await agent.close_stdin()
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0
    assert read(folder, "stdout") == b"still\n"


@asynchronous
async def test_agent_cannot_kill_its_shim(launcher: HeadlessLauncher, folder: str) -> None:
    ended = await soon((await launcher.start(folder, scripted("attack"))).ended())
    assert ended is not None and ended.status == 0
    assert read(folder, "stdout") == b"still here\n"


@asynchronous
async def test_writer_outside_the_tree_does_not_delay_the_end(launcher: HeadlessLauncher, folder: str) -> None:
    token = a_token()
    agent = await launcher.start(folder, scripted("sleep", 1000, token))
    await until(lambda: read(folder, "stdout"))
    held = os.open(f"/proc/{living(token)[0]}/fd/1", os.O_WRONLY)
    await agent.kill_tree()
    ended = await soon(agent.ended())
    os.close(held)
    assert ended is not None and ended.signal == signal.SIGKILL
    assert launcher.last_exit(folder) == ended


@asynchronous
async def test_crowd_of_processes_is_killed_at_once(launcher: HeadlessLauncher, folder: str) -> None:
    token = a_token()
    agent = await launcher.start(folder, scripted("crowd", 50, token))
    await until(lambda: len(living(token)) == 101)
    await agent.kill_tree()
    await soon(agent.ended())
    assert living(token) == []


@asynchronous
async def test_unresponsive_shim_is_killed_with_its_tree(
    launcher: HeadlessLauncher, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = a_token()
    agent = await launcher.start(folder, scripted("hostile", "stay", token))
    await until(lambda: len(living(token)) == 4)
    monkeypatch.setattr(shim_client, "ANSWER_SECONDS", 0.3)
    os.kill(pid_of_shim(agent), signal.SIGSTOP)
    await agent.kill_tree()
    assert await soon(agent.ended()) is None
    assert living(token) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("containment", [NAMESPACE, WEAK])
@asynchronous
async def test_only_sigkill_ends_a_shim(folder: str, number: int, containment: str) -> None:
    require(containment == WEAK or namespace_command(), "PID namespaces")
    agent = await HeadlessLauncher(containment).start(folder, scripted("echo", keep_stdin=True))
    assert os.getsid(pid_of_shim(agent)) != os.getsid(0)
    os.kill(pid_of_shim(agent), number)
    await agent.write("still\n")
    await agent.close_stdin()
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0


@asynchronous
async def test_rude_clients_harm_neither_shim_nor_agent(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    shim = pid_of_shim(agent)
    rude = []
    for number in range(60):
        client = socket.socket(socket.AF_UNIX)
        client.connect(f"{folder}/control")
        client.setblocking(False)
        rude.append(client)
        try:
            if number % 3 == 1:
                client.send(b'not json\n{"do": "nothing"}\n[]\n{"do": "signal", "number": "x"}\n\xff\n' * 500)
            elif number % 3 == 2:
                client.send(b'{"id": 1, "do": "state"}\n' * 5000)  # and never reads the answers
        except OSError:
            pass
    # all clients were accepted, so the first connection, which is ours, was dropped
    await until(lambda: select.select(rude[-1:], [], [], 0)[0])
    assert len(os.listdir(f"/proc/{shim}/fd")) <= 30  # noqa: PTH208
    await agent.cpu_seconds()
    assert agent.connected  # reconnected automatically
    text = "line\n" * 10_000
    await agent.write(text)
    status = read(f"/proc/{shim}", "status")
    assert int(status.partition(b"VmHWM:")[2].split()[0]) < 24 * 1024  # KiB
    await until(lambda: read(folder, "stdout") == text.encode())
    await agent.close_stdin()
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0
    for client in rude:
        client.close()


@asynchronous
async def test_lost_connection_is_restored(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    assert agent._link is not None
    agent._link.writer.transport.abort()
    await agent.cpu_seconds()
    assert agent.connected
    await agent.close_stdin()
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0


@asynchronous
async def test_older_shim_reports_no_memory(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def older(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"version": 1, "state": {"ok": true}}\n')
        while line := await reader.readline():
            writer.write(json.dumps({"id": json.loads(line)["id"], "ok": True, "cpu": 1.5}).encode() + b"\n")
        writer.close()
        gone.set()

    server = await asyncio.start_unix_server(older, tmp_path / "control")
    agent = await ShimAgent.reach(str(tmp_path), socket.socket(socket.AF_UNIX))
    assert await soon(agent.usage()) == (1.5, None)
    agent.close()
    await soon(gone.wait())
    server.close()


@asynchronous
async def test_growth_is_reported_at_once_and_then_at_a_limited_rate(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("forever", stdout_cap=1000))
    reader, writer = await asyncio.open_unix_connection(f"{folder}/control")
    greeting = json.loads(await reader.readline())
    assert greeting["version"] == 1 and greeting["state"]["containment"] == NAMESPACE
    end, heard = asyncio.get_running_loop().time() + 1, list[int]()
    while len(heard) < 5 or asyncio.get_running_loop().time() < end:
        heard.append(json.loads(await reader.readline())["grew"])
    assert len(heard) <= 25
    assert heard == sorted(heard)
    writer.close()
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_agent_gets_exactly_what_its_spec_says(launcher: HeadlessLauncher, folder: str, tmp_path: Path) -> None:
    old = os.umask(0o027)
    secret = "s3cret"
    os.environ["FLEET_TEST_SECRET"] = secret
    try:
        env = {"ONLY": "this", "ODD": "\udcff é"}
        agent = await launcher.start(folder, scripted("look", env=env, cwd=str(tmp_path)))
        environment_of_shim = read(f"/proc/{agent.shim_pid}", "environ")
        await soon(agent.ended())
    finally:
        os.umask(old)
        del os.environ["FLEET_TEST_SECRET"]
    seen = json.loads(read(folder, "stdout"))
    assert {name: seen["env"][name] for name in env} == env
    assert set(seen["env"]) - set(env) <= {"LC_CTYPE"}  # Python sets it itself
    expected = {"cwd": str(tmp_path), "handles": [], "umask": 0o027, "leader": True, "terminal": False}
    assert {name: seen[name] for name in expected} == expected
    ours = int(read("/proc/self", "status").split(b"SigIgn:")[1].split()[0], 16)  # signals that our own parent ignores
    itself = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1  # signals that Python ignores
    assert seen["ignored"] & ~(ours | itself) == 0
    assert secret.encode() not in environment_of_shim


@asynchronous
async def test_files_in_the_run_folder_are_private(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    live = modes(folder)
    assert {"lock", "stdout", "stderr", "control"} <= set(live)
    assert "spec.json" not in live  # its environment may hold secrets
    await agent.close_stdin()
    await soon(agent.ended())
    left = modes(folder)
    assert set(left) == {"lock", "stdout", "stderr", "exit.json"}
    assert {mode & 0o077 for mode in (live | left).values()} == {0}
    record = json.loads(read(folder, "exit.json"))
    assert record["containment"] == NAMESPACE
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["started_at"])
    assert record["started_at"] <= record["ended_at"]


def modes(folder: str) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in Path(folder).iterdir()}


@asynchronous
async def test_shim_that_cannot_start_reports_the_cause(launcher: HeadlessLauncher, folder: str) -> None:
    os.makedirs(f"{folder}/control")  # so that the socket cannot be made  # noqa: PTH103
    with pytest.raises(FleetError, match="Address already in use"):
        await launcher.start(folder, scripted("end", 0))
    assert not launcher.is_alive(folder)


def test_shim_imports_only_a_small_part_of_the_standard_library() -> None:
    look = "import sys; sys.path.append(sys.argv[1]); import fleet.agents.shim.{}; print(*sys.modules)"
    for module, most in (("program", 46), ("weak", 61), ("terminal", 49), ("starter", 80)):
        command = [sys.executable, "-I", "-S", "-c", look.format(module), str(SRC)]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        ours = {name for name in loaded if name.startswith("fleet")}
        assert {name for name in ours if not name.startswith("fleet.agents.shim")} == {"fleet", "fleet.agents"}
        assert {name.partition(".")[0] for name in loaded} - {"fleet"} <= sys.stdlib_module_names | {"__main__"}
        assert len(loaded) <= most, loaded


@pytest.mark.parametrize("way", [(), ("--lasting",)])
def test_tree_is_contained_without_root(way: tuple[str, ...]) -> None:
    require(os.geteuid() == 0, "another user (needs root)")
    python = next(
        (name for name in (sys.executable, "/usr/bin/python3") if _as_nobody(name, "-c", TRIAL, AGENT)[0]), ""
    )
    require(python, "a Python that another user can run")
    require(_as_nobody("unshare", "--user", "--map-current-user", "true")[0], "user namespaces")
    token = a_token()
    starter = str(SRC.parent / "tests/workers/starter.py")
    with tempfile.TemporaryDirectory() as base:  # not below pytest's own folder, which is private
        shutil.chown(base, "nobody")
        _, said = _as_nobody(python, "-B", starter, f"{base}/run", *way, "--", "hostile", "end", token)
        assert said.split("\n")[:3] == [NAMESPACE, "done", "ended"] and "without the starter" not in said, said
        assert living(token) == []
        assert json.loads(read(f"{base}/run", "exit.json"))["survivors"] == 3


TRIAL = "import sys; sys.exit(sys.version_info < (3, 11) or not open(sys.argv[1]).read())"


def _as_nobody(*command: str) -> tuple[bool, str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{SRC}:{SRC.parent / 'tests'}"}
    try:
        done = subprocess.run(
            command, user="nobody", extra_groups=[], env=env, capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        return False, str(error)
    return done.returncode == 0, done.stdout + done.stderr
