"""Agents in a terminal, with a real tmux on a separate socket."""

import asyncio
import os
import pty
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.agents.base import LaunchSpec
from fleet.agents.headless import NAMESPACE, WEAK, namespace_command
from fleet.agents.tmux import TerminalAgent, TmuxLauncher
from fleet.agents.tmux_command import attach_argv, call, capture, has_tmux, kill_session, sessions
from fleet.core.errors import FleetError
from launching import a_token, asynchronous, living, printed, read, scripted, soon, tmux_socket, until
from needs import require

WORKERS = Path(__file__).parents[1] / "workers"


@pytest.fixture(params=[NAMESPACE, WEAK])
def launcher(request: pytest.FixtureRequest) -> Iterator[TmuxLauncher]:
    require(has_tmux(), "tmux")
    require(request.param == WEAK or namespace_command(), "PID namespaces")
    with tmux_socket() as socket:
        yield TmuxLauncher(socket, containment=request.param)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "run")


def typist(*words: object, **fields: Any) -> LaunchSpec:
    """Return the launch spec of an agent that uses its terminal."""
    return scripted(argv=(sys.executable, "-I", "-S", str(WORKERS / "terminal.py"), *map(str, words)), **fields)


async def started(launcher: TmuxLauncher, folder: str, spec: LaunchSpec) -> TerminalAgent:
    """Return a started agent that has printed something."""
    agent = await soon(launcher.start(folder, spec))
    await until(lambda: read(folder, "stdout"))
    return agent


async def put_away(agent: TerminalAgent) -> None:
    await agent.kill_tree()
    await soon(agent.ended())


def inside(folder: Path | str) -> set[str]:
    """Return the names of the files in a folder."""
    return {path.name for path in Path(folder).iterdir()}


def server_pid(launcher: TmuxLauncher) -> int:
    return int(call(launcher.socket, "display-message", "-p", "#{pid}").stdout)


@asynchronous
async def test_agent_has_its_own_controlling_terminal(launcher: TmuxLauncher, folder: str) -> None:
    os.environ["FLEET_TEST_SECRET"] = "s3cret"
    try:
        spec = typist("place", size=(123, 45), env={"ONLY": "this", "TERM": "dumb", "LINES": "7", "COLUMNS": "8"})
        await soon((await launcher.start(folder, spec)).ended())
        server = read(f"/proc/{server_pid(launcher)}", "environ")
    finally:
        del os.environ["FLEET_TEST_SECRET"]
    await until(lambda: printed(folder).count(b"\n") == 2)
    about, names = printed(folder).decode().splitlines()
    assert about == "123x45 True True []"  # it inherited no descriptor of the shim
    assert set(names.split()) - {"LC_CTYPE"} == {"ONLY", "TERM", "TMUX", "TMUX_PANE"}
    assert b"s3cret" not in server


@asynchronous
async def test_ctrl_c_reaches_the_agent_and_not_its_shim(launcher: TmuxLauncher, folder: str) -> None:
    agent = await started(launcher, folder, typist("interrupted"))
    await agent.press("C-c")
    ended = await soon(agent.ended())
    assert ended is not None and (ended.status, ended.signal) == (7, None)


@asynchronous
async def test_ctrl_z_does_not_leave_the_agent_stopped(launcher: TmuxLauncher, folder: str) -> None:
    agent = await started(launcher, folder, typist("suspended"))
    await agent.press("C-z")
    await until(lambda: b"^Z" in read(folder, "stdout"))
    await agent.press("finish", "Enter")
    ended = await soon(agent.ended(), 5)
    assert ended is not None and ended.status == 8


@asynchronous
async def test_stdin_of_an_agent_in_a_terminal_cannot_be_written(launcher: TmuxLauncher, folder: str) -> None:
    with pytest.raises(FleetError, match="has no stdin"):
        await launcher.start(folder, scripted("sleep", 1000, stdin="prompt"))
    agent = await started(launcher, folder, scripted("sleep", 1000))
    with pytest.raises(FleetError, match="in a terminal"):
        await agent.write("text\n")
    await put_away(agent)


@pytest.mark.parametrize("way", ["kill -9 of the server", "kill-session"])
@asynchronous
async def test_no_process_outlives_the_terminal(launcher: TmuxLauncher, folder: str, way: str) -> None:
    token = a_token()
    agent = await started(launcher, folder, scripted("hostile", "stay", token))
    await until(lambda: len(living(token)) == 4)
    if way == "kill-session":
        await agent.close_session()
    else:
        os.kill(server_pid(launcher), signal.SIGKILL)
    ended = await soon(agent.ended(), 10)
    assert ended is not None and (ended.status, ended.signal) == (None, signal.SIGHUP)
    assert living(token) == []
    assert await launcher.find(folder) is None
    assert launcher.last_exit(folder) == ended
    assert agent.session not in sessions(launcher.socket)
    await until(lambda: living(folder) == [])  # neither do the shim and its starter


@asynchronous
async def test_agent_is_killed_when_it_ignores_the_end_of_its_terminal(launcher: TmuxLauncher, folder: str) -> None:
    agent = await started(launcher, folder, scripted("stubborn"))
    await agent.close_session()
    ended = await soon(agent.ended(), 10)
    assert ended is not None and ended.signal == signal.SIGKILL


@asynchronous
async def test_agent_can_clean_up_when_its_terminal_closes(launcher: TmuxLauncher, folder: str, tmp_path: Path) -> None:
    agent = await started(launcher, folder, typist("orderly", tmp_path / "order"))
    await agent.close_session()
    ended = await soon(agent.ended(), 10)
    assert ended is not None and ended.status == 9
    assert (tmp_path / "order").read_text() == "in order"


@asynchronous
async def test_lock_is_held_until_the_tree_is_gone(folder: str) -> None:
    require(has_tmux() and namespace_command(), "tmux and PID namespaces")
    with tmux_socket() as socket:
        launcher = TmuxLauncher(socket, containment=NAMESPACE)
        for _ in range(5):
            token = a_token()
            agent = await launcher.start(folder, scripted("crowd", 20, token))
            await until(lambda token=token: len(living(token)) == 41)  # type: ignore[misc]
            shim = agent.shim_pid
            agent.close()
            assert shim is not None
            os.kill(shim, signal.SIGKILL)
            while launcher.is_alive(folder):
                pass
            assert living(token) == []
            assert launcher.last_exit(folder) is None and launcher.was_started(folder)


@asynchronous
async def test_screen_is_read_with_its_history(launcher: TmuxLauncher, folder: str) -> None:
    agent = await started(launcher, folder, scripted("lines", 3000, size=(80, 24)))
    await soon(agent.ended())
    await until(lambda: sessions(launcher.socket)[agent.session].dead)
    shown = (await agent.screen()).splitlines()
    assert '{"line": 2999}' in shown and '{"line": 2900}' not in shown and len(shown) <= 24
    assert '{"line": 2900}' in (await agent.screen(200)).splitlines()
    assert '{"line": 0}' in capture(launcher.socket, agent.session, 50_000).splitlines()
    await agent.close_session()
    with pytest.raises(FleetError, match=f"cannot read the session {agent.session}"):
        await agent.screen()


@pytest.mark.parametrize(("words", "code"), [(("end", 3), b"3"), (("crash", 15), b"143")])
@asynchronous
async def test_launcher_reports_the_exit_code_of_the_agent(
    launcher: TmuxLauncher, folder: str, words: tuple[object, ...], code: bytes
) -> None:
    """On a busy machine, tmux itself loses the exit code of some processes that end at once.

    It must know one of many.
    """
    told: list[bytes] = []
    for number in range(20):
        agent = await launcher.start(f"{folder}{number}", scripted(*words))
        await soon(agent.ended())
        await until(lambda agent=agent: sessions(launcher.socket)[agent.session].dead)  # type: ignore[misc]
        ask = ("display-message", "-p", "-t", f"={agent.session}:", "#{pane_dead_status}")
        told.append(call(launcher.socket, *ask).stdout.strip())
        if told[-1]:
            break
    assert told[-1] == code, told


@asynchronous
async def test_paste_of_200_kb_arrives_unchanged(launcher: TmuxLauncher, folder: str, tmp_path: Path) -> None:
    agent = await started(launcher, folder, typist("pasted", tmp_path / "paste"))
    line = 'it\'s "quoted" $(touch x) `y` \\ #{pane_id} %H ; ünicode \U0001f600\ttab\x01\x7f\r\n'
    text = (line * 5000)[:200_000]
    # Removing one sequence from within another would create a new one.
    await agent.paste(text + "\x1b[20\x1b[201~1~" + "\x9b20\x1b[201~1~" + "end;")
    await agent.press("q")
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0
    assert (tmp_path / "paste").read_bytes() == text.encode() + b"end;"
    assert (tmp_path / "paste.typed").read_bytes() == b"q"
    assert call(launcher.socket, "list-buffers").stdout == b""


@asynchronous
async def test_text_that_cannot_be_typed_is_refused(launcher: TmuxLauncher, folder: str) -> None:
    agent = await started(launcher, folder, scripted("stubborn"))
    kill_session(launcher.socket, agent.session)
    with pytest.raises(FleetError, match=agent.session):
        await agent.paste("text")
    with pytest.raises(FleetError, match=agent.session):
        await agent.press("Enter")
    await agent.close_session()
    await soon(agent.ended())


@asynchronous
async def test_launcher_notifies_when_the_screen_changes(launcher: TmuxLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("echo"))
    agent.activity.clear()
    with pytest.raises(TimeoutError):
        await soon(agent.activity.wait(), 1)
    await agent.press("word", "Enter")
    await soon(agent.activity.wait(), 3)
    await put_away(agent)


@pytest.mark.parametrize(
    "name",
    ["with space", 'it\'s "both"', "$(touch x)`touch y`", "#{pid}#[fg=red]##%H%%", "semi;", "-rf", "ünï\udcff\n\\"],
)
@asynchronous
async def test_folder_may_have_any_name(
    launcher: TmuxLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    folder = str(tmp_path / name / "run;")
    ended = await soon((await launcher.start(folder, scripted("lines", 1))).ended())
    assert ended is not None and ended.status == 0
    await until(lambda: printed(folder) == b'{"line": 0}\n')
    assert inside(tmp_path) == {name, "here"} and inside(tmp_path / "here") == set()  # nothing else happened
    assert {os.stat(f"{folder}/{name}").st_mode & 0o077 for name in inside(folder)} == {0}  # noqa: PTH116


@asynchronous
async def test_log_keeps_the_first_output_and_ends_at_its_limit(launcher: TmuxLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("forever", stdout_cap=100_000))
    await until(lambda: len(read(folder, "stdout")) > 99_000)
    await agent.kill_tree()
    ended = await soon(agent.ended())
    assert ended is not None and ended.truncated
    assert printed(folder).startswith(b"again and again\nagain")
    assert len(read(folder, "stdout")) <= 100_000


@asynchronous
async def test_ended_session_makes_room_for_another(launcher: TmuxLauncher, folder: str) -> None:
    spec = typist("interrupted", session="same")
    await soon((await launcher.start(folder, scripted("end", 0, session="same"))).ended())
    await until(lambda: sessions(launcher.socket)["same"].dead)
    agent = await started(launcher, folder, spec)
    facts = sessions(launcher.socket)["same"]
    assert not facts.dead and facts.attached == 0 and facts.created > 0
    with pytest.raises(FleetError, match="session same already exists, and a program runs in it"):
        await launcher.start(f"{folder}2", spec)
    assert "spec.json" not in inside(f"{folder}2") and not launcher.was_started(f"{folder}2")
    assert launcher.is_alive(folder)
    await put_away(agent)


@asynchronous
async def test_start_succeeds_when_the_last_session_ends_at_the_same_time(
    launcher: TmuxLauncher, tmp_path: Path
) -> None:
    last = await launcher.start(str(tmp_path / "0"), scripted("sleep", 1000))
    for number in range(1, 9):
        _, agent = await asyncio.gather(
            last.close_session(), launcher.start(str(tmp_path / str(number)), scripted("sleep", 1000))
        )
        await soon(last.ended())
        assert agent.session in sessions(launcher.socket) and launcher.is_alive(str(tmp_path / str(number)))
        last = agent
    await put_away(last)


@asynchronous
async def test_session_name_is_never_matched_by_prefix(launcher: TmuxLauncher, folder: str) -> None:
    agent = await started(launcher, folder, scripted("sleep", 1000, session="fix-it"))
    kill_session(launcher.socket, "fix")
    assert capture(launcher.socket, "fix") == ""
    assert "sleeping" in capture(launcher.socket, "fix-it")
    await put_away(agent)


@pytest.mark.parametrize("name", ["", "a.b", "a:b", "=x", "a b", "x" * 200])
@asynchronous
async def test_name_that_tmux_would_change_is_refused(launcher: TmuxLauncher, folder: str, name: str) -> None:
    with pytest.raises(FleetError, match="cannot have a session named"):
        await launcher.start(folder, scripted("end", 0, session=name))


@asynchronous
async def test_failed_start_says_why_and_leaves_nothing(launcher: TmuxLauncher, folder: str) -> None:
    os.makedirs(f"{folder}/control/x")  # prevents the socket  # noqa: PTH103
    with pytest.raises(FleetError, match=r"cannot start an agent in .*: Is a directory"):
        await launcher.start(folder, scripted("end", 0))
    assert not launcher.is_alive(folder) and "spec.json" not in inside(folder)


@asynchronous
async def test_failed_shim_says_why_and_leaves_no_session(
    launcher: TmuxLauncher, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FleetError, match="did not start") as caught:
        await soon(launcher.start(folder, scripted("end", 0)))
    assert launcher.containment == WEAK or "/no/such/python: No such file" in str(caught.value)
    assert sessions(launcher.socket) == {}
    assert not launcher.is_alive(folder) and not launcher.was_started(folder)


@asynchronous
async def test_twenty_sessions_start_at_once(launcher: TmuxLauncher, tmp_path: Path) -> None:
    token = a_token()
    folders = [str(tmp_path / str(number)) for number in range(20)]
    agents = await asyncio.gather(*(launcher.start(folder, scripted("sleep", 1000, token)) for folder in folders))
    assert len({agent.session for agent in agents}) == 20
    await until(lambda: all(printed(folder) == b"sleeping\n" for folder in folders))
    assert set(sessions(launcher.socket)) == {a.session for a in agents}
    await asyncio.gather(*(agent.kill_tree() for agent in agents))
    ends = await soon(asyncio.gather(*(agent.ended() for agent in agents)))
    assert [ended and ended.signal for ended in ends] == [9] * 20
    assert living(token) == []


@asynchronous
async def test_session_can_be_attached_from_inside_another_tmux(launcher: TmuxLauncher, folder: str) -> None:
    agent = await started(launcher, folder, scripted("sleep", 1000))
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "TMUX": "/elsewhere,1,0"}
    enter = attach_argv(launcher.socket, agent.session)
    person = await asyncio.create_subprocess_exec(*enter, stdin=theirs, stdout=theirs, env=env)
    os.close(theirs)
    await until(lambda: sessions(launcher.socket)[agent.session].attached == 1)
    os.write(ours, b"\x02d")  # Ctrl-b d
    await soon(person.wait())
    os.close(ours)
    assert sessions(launcher.socket)[agent.session].attached == 0
    assert launcher.is_alive(folder)
    await put_away(agent)


@asynchronous
async def test_history_is_long_unless_the_user_has_a_tmux_configuration(tmp_path: Path) -> None:
    require(has_tmux(), "tmux")
    (tmp_path / "tmux.conf").write_text("set -g history-limit 123\n")
    for config, limit in ((None, b"50000"), (str(tmp_path / "tmux.conf"), b"123")):
        with tmux_socket() as socket:
            launcher = TmuxLauncher(socket, config)
            agent = await launcher.start(str(tmp_path / "run"), scripted("end", 0))
            await soon(agent.ended())
            told = call(socket, "display-message", "-p", "-t", f"={agent.session}:", "#{history_limit}").stdout
            assert told.strip() == limit
            assert agent.session in sessions(socket)  # the session still exists


@asynchronous
async def test_start_explains_what_to_do_when_tmux_is_missing(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = TmuxLauncher()
    monkeypatch.setenv("PATH", "/nowhere")
    assert sessions(launcher.socket) == {}
    with pytest.raises(FleetError, match="tmux is not installed") as caught:
        await launcher.start(folder, scripted("end", 0))
    assert "headless" in (caught.value.hint or "")
    assert not launcher.was_started(folder) and "spec.json" not in inside(folder)


def test_session_list_is_empty_when_no_server_runs() -> None:
    require(has_tmux(), "tmux")
    nowhere = f"fleet-{secrets.token_hex(6)}"
    assert sessions(nowhere) == {}
    assert capture(nowhere, "any") == ""
    kill_session(nowhere, "any")
