"""The contract of all launchers, with real processes."""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agents.base import Launcher, LaunchSpec
from fleet.agents.headless import NAMESPACE, WEAK, HeadlessLauncher, namespace_command
from fleet.agents.shim_link import cpu_shares
from fleet.agents.tmux import TmuxLauncher
from fleet.agents.tmux_command import has_tmux
from fleet.core.errors import FleetError
from fleet.core.outcome import Exit
from launching import a_token, asynchronous, living, printed, read, scripted, soon, tmux_socket, until
from needs import require


@pytest.fixture(params=[NAMESPACE, WEAK])
def containment(request: pytest.FixtureRequest) -> str:
    require(request.param == WEAK or namespace_command(), "PID namespaces")
    return str(request.param)


@pytest.fixture(params=["headless", "starter", "tmux"])
def launcher(request: pytest.FixtureRequest, containment: str, caplog: pytest.LogCaptureFixture) -> Iterator[Launcher]:
    if request.param in ("headless", "starter"):
        yield HeadlessLauncher(containment, lasting=request.param == "starter")
        assert "without the starter" not in caplog.text
        return
    require(has_tmux(), "tmux")
    with tmux_socket() as socket:
        yield TmuxLauncher(socket, containment=containment)


@pytest.fixture(params=["alone", "starter"])
def headless(request: pytest.FixtureRequest, containment: str) -> Launcher:
    """Return a launcher whose agents have a writable stdin and unedited streams."""
    return HeadlessLauncher(containment, lasting=request.param == "starter")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "runs" / "1")


@asynchronous
async def test_launcher_reports_how_well_it_contains_a_tree(launcher: Launcher) -> None:
    assert launcher.containment in ("pid namespace", "weak")


@pytest.mark.parametrize("code", [0, 3, 255])
@asynchronous
async def test_launcher_reports_the_real_exit_code(launcher: Launcher, folder: str, code: int) -> None:
    ended = await soon((await launcher.start(folder, scripted("end", code))).ended())
    assert ended is not None
    assert (ended.status, ended.signal, ended.error) == (code, None, "")
    assert launcher.last_exit(folder) == ended


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGTERM, signal.SIGKILL, signal.SIGPIPE])
@asynchronous
async def test_launcher_reports_the_real_signal(launcher: Launcher, folder: str, number: int) -> None:
    ended = await soon((await launcher.start(folder, scripted("crash", int(number)))).ended())
    assert ended is not None
    assert (ended.status, ended.signal) == (None, number)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (scripted(argv=("no-such-program",)), "cannot start no-such-program: No such file or directory"),
        (scripted(argv=("/etc/passwd",)), "cannot start /etc/passwd: Permission denied"),
        (scripted(cwd="/no/such/folder"), "cannot enter /no/such/folder: No such file or directory"),
    ],
)
@asynchronous
async def test_failed_start_says_why(launcher: Launcher, folder: str, spec: LaunchSpec, reason: str) -> None:
    ended = await soon((await launcher.start(folder, spec)).ended())
    assert ended == Exit(error=reason)
    assert launcher.last_exit(folder) == ended


@asynchronous
async def test_stdin_is_passed_completely_and_closed(headless: Launcher, folder: str) -> None:
    text = "prompt with ünicode \U0001f600\n" * 100_000  # far more than a pipe holds
    ended = await soon((await headless.start(folder, scripted("echo", stdin=text))).ended())
    assert ended is not None and ended.status == 0
    assert read(folder, "stdout") == text.encode()


@asynchronous
async def test_open_stdin_takes_text_later(headless: Launcher, folder: str) -> None:
    agent = await headless.start(folder, scripted("echo", stdin="one\n", keep_stdin=True))
    await until(lambda: read(folder, "stdout") == b"one\n")
    await agent.write("two\n")
    await until(lambda: read(folder, "stdout") == b"one\ntwo\n")
    await agent.close_stdin()
    with pytest.raises(FleetError):
        await agent.write("three\n")
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0


@asynchronous
async def test_signal_reaches_the_agent(launcher: Launcher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("polite"))
    await until(lambda: read(folder, "stdout"))
    await agent.signal(signal.SIGTERM)
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 42
    await agent.signal(signal.SIGTERM)  # it has ended: no error
    await agent.kill_tree()


@pytest.mark.parametrize("then", ["stay", "end"])
@asynchronous
async def test_kill_leaves_no_process_of_the_tree(launcher: Launcher, folder: str, then: str) -> None:
    token = a_token()
    agent = await launcher.start(folder, scripted("hostile", then, token))
    if then == "stay":
        await until(lambda: read(folder, "stdout") and len(living(token)) == 4)
        await agent.kill_tree()
    ended = await soon(agent.ended())
    assert living(token) == []
    assert ended is not None
    assert (ended.status, ended.signal) == ((None, 9) if then == "stay" else (0, None))
    assert then == "stay" or ended.survivors == 3


@asynchronous
async def test_agent_is_killed_when_it_ignores_signals(launcher: Launcher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("stubborn"))
    await until(lambda: read(folder, "stdout"))
    await agent.signal(signal.SIGTERM)
    with pytest.raises(TimeoutError):
        await soon(agent.ended(), 0.3)
    await agent.kill_tree()
    ended = await soon(agent.ended(), 5)
    assert ended is not None and ended.signal == signal.SIGKILL


@asynchronous
async def test_end_is_not_delayed_when_a_process_holds_stdout(launcher: Launcher, folder: str) -> None:
    token = a_token()
    ended = await soon((await launcher.start(folder, scripted("holder", token))).ended(), 5)
    assert ended is not None and (ended.status, ended.survivors) == (0, 1)
    await until(lambda: printed(folder) == b"done\n")
    assert living(token) == []


@asynchronous
async def test_launcher_notifies_when_output_grows_and_at_the_end(headless: Launcher, folder: str) -> None:
    agent = await headless.start(folder, scripted("echo", keep_stdin=True))
    for number in range(3):
        agent.activity.clear()
        with pytest.raises(TimeoutError):
            await soon(agent.activity.wait(), 0.1)
        await agent.write(f"{number}\n")
        await until(lambda: agent.activity.is_set(), 1)
        await until(lambda number=number: read(folder, "stdout").endswith(f"{number}\n".encode()), 1)  # type: ignore[misc]
    await agent.close_stdin()
    await soon(agent.ended())
    assert agent.activity.is_set()


@asynchronous
async def test_cpu_work_of_a_silent_tree_is_measured(launcher: Launcher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("busy", 0.5))
    begin, spent = time.monotonic(), 0.0
    while spent < 0.4:
        assert time.monotonic() - begin < 60
        await asyncio.sleep(0.05)
        now = await agent.cpu_seconds()
        assert now >= spent
        spent = now
    await agent.kill_tree()
    ended = await soon(agent.ended())
    assert ended is not None and ended.cpu_seconds >= spent - 0.05 and ended.peak_rss_kb > 1000
    assert await agent.cpu_seconds() == ended.cpu_seconds
    assert await agent.usage() == (ended.cpu_seconds, None)


@asynchronous
async def test_share_of_cpu_is_measured_when_a_command_asks(launcher: Launcher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("busy", 1000))
    await until(lambda: cpu_shares([folder, f"{folder}-gone"]).get(folder, 0.0) > 0)
    await agent.kill_tree()
    await soon(agent.ended())
    assert cpu_shares([folder]) == {}


@asynchronous
async def test_memory_of_the_whole_tree_is_measured(launcher: Launcher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("sleep", 1000))
    await until(lambda: read(folder, "stdout"))
    alone = (await agent.usage()).rss_kb
    assert alone is not None and 1000 < alone < 40_000
    await agent.kill_tree()
    await soon(agent.ended())
    hold = "import os,sys; held = b'x' * 50_000_000; os.fork(); os.write(1, b'held'); sys.stdin.read()"
    agent = await launcher.start(folder, scripted(argv=(sys.executable, "-c", hold), keep_stdin=True))
    await until(lambda: read(folder, "stdout").count(b"held") == 2)
    both = (await agent.usage()).rss_kb
    assert both is not None and 98_000 < both < 98_000 + 2 * 40_000  # pages shared by parent and child count twice
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_agent_is_found_again_by_its_folder(launcher: Launcher, folder: str) -> None:
    assert await launcher.find(folder) is None
    assert launcher.last_exit(folder) is None
    first = await launcher.start(folder, scripted("polite"))
    await until(lambda: printed(folder) == b"waiting\n")
    second = await launcher.find(folder)
    assert second is not None
    assert launcher.last_exit(folder) is None
    await second.signal(signal.SIGTERM)
    ended = await soon(second.ended())
    assert ended is not None and ended.status == 42
    assert await soon(first.ended()) == ended
    assert await launcher.find(folder) is None
    assert launcher.last_exit(folder) is not None


@asynchronous
async def test_second_agent_in_a_folder_is_refused(launcher: Launcher, folder: str) -> None:
    results = await asyncio.gather(
        *(launcher.start(folder, scripted("echo", keep_stdin=True)) for _ in range(5)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, FleetError)]
    (agent,) = [result for result in results if not isinstance(result, BaseException)]
    assert len(refused) == 4
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_folder_can_be_used_again(launcher: Launcher, folder: str) -> None:
    await soon((await launcher.start(folder, scripted("lines", 5))).ended())
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    assert launcher.last_exit(folder) is None
    assert read(folder, "stdout") == b""
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_folder_records_that_an_agent_was_started(launcher: Launcher, folder: str) -> None:
    assert not launcher.was_started(folder)
    agent = await soon(launcher.start(folder, scripted("end", 0)))
    assert launcher.was_started(folder)
    await soon(agent.ended())
    assert launcher.was_started(folder)
