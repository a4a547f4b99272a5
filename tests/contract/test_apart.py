"""Isolated processes, with the real shim: which files they cannot see or write, and what they cannot reach."""

import os
import sys
from pathlib import Path

import pytest

from fleet.agents.base import LaunchSpec, SandboxSpec
from fleet.agents.headless import NAMESPACE, WEAK, HeadlessLauncher, namespace_command
from fleet.agents.tmux import TmuxLauncher
from fleet.agents.tmux_command import has_tmux
from fleet.core.outcome import Exit
from launching import a_token, asynchronous, living, printed, soon, tmux_socket, until
from needs import require

#: The capabilities of this process, among others.
MINE = Path("/proc/self/status").read_text().splitlines() if sys.platform == "linux" else []


@pytest.fixture(params=[NAMESPACE, WEAK])
def launcher(request: pytest.FixtureRequest) -> HeadlessLauncher:
    require(namespace_command(), "namespaces")
    return HeadlessLauncher(request.param)


class Room:
    """A hidden folder with a visible folder inside."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "place"
        self.others, self.own = folder / "others", folder / "others" / "own"
        self.own.mkdir(parents=True)
        (self.others / "secret").write_text("a secret")
        self.outside = folder / "outside"
        self.outside.mkdir()

    async def run(self, launcher: HeadlessLauncher, script: str, **apart: object) -> tuple[Exit, str]:
        spec = LaunchSpec(
            argv=("/bin/sh", "-c", f"exec 2>&1\n{script}"),
            env={"PATH": os.environ["PATH"]},
            cwd=str(self.own),
            apart=SandboxSpec(**apart),  # type: ignore[arg-type]
        )
        exit = await soon((await launcher.start(str(self.place), spec)).ended(), 30)
        assert exit is not None
        return exit, printed(self.place).decode()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@asynchronous
async def test_hidden_folder_is_empty_except_for_kept_paths(launcher: HeadlessLauncher, room: Room) -> None:
    script = f"ls {room.others}; echo mine > kept; pwd; umount -l {room.others}; cat {room.others}/secret"
    exit, said = await room.run(launcher, script, hidden=(str(room.others),), kept=(str(room.own),), writable=())
    assert "hidden" in exit.apart
    assert said.startswith("own\n") and "a secret" not in said
    assert (room.others / "secret").read_text() == "a secret"
    exit, said = await room.run(launcher, "echo mine > kept; ls", hidden=(str(room.others),), kept=(str(room.own),))
    assert (exit.status, said, (room.own / "kept").read_text()) == (0, "kept\n", "mine\n")


@asynchronous
async def test_headless_agent_cannot_see_a_hidden_folder(launcher: HeadlessLauncher, room: Room) -> None:
    late = room.others / "late"
    script = f"ls -A {room.others} | wc -l; touch {room.outside}/fine && id -u; cat /proc/self/status | grep CapBnd"
    spec = {"hidden": (str(room.others),)}
    elsewhere = Room(room.outside / "elsewhere")
    elsewhere.place = room.place
    exit, said = await elsewhere.run(launcher, script, **spec)
    assert exit.apart == ("hidden",)
    assert said.splitlines()[:2] == ["0", str(os.geteuid())]
    assert (room.outside / "fine").exists() and not late.exists()
    assert said.splitlines()[2] in MINE


@asynchronous
async def test_agent_in_a_terminal_cannot_see_a_hidden_folder(launcher: HeadlessLauncher, room: Room) -> None:
    require(has_tmux(), "tmux")
    with tmux_socket() as socket:
        spec = LaunchSpec(
            argv=("/bin/sh", "-c", f"ls -A {room.others} | wc -l; tty"),
            env={"PATH": os.environ["PATH"]},
            cwd="/",
            session=a_token(),
            apart=SandboxSpec(hidden=(str(room.others),)),
        )
        agent = await TmuxLauncher(socket, containment=launcher.containment).start(str(room.place), spec)
        exit = await soon(agent.ended(), 30)
        assert exit is not None and (exit.status, exit.apart) == (0, ("hidden",))
        await until(lambda: b"/dev/" in printed(room.place))
        assert printed(room.place).split()[0] == b"0"


@asynchronous
async def test_process_writes_only_to_allowed_folders(launcher: HeadlessLauncher, room: Room) -> None:
    # The room hides /tmp, where tests may have links to programs.
    script = (
        f"PATH={os.defpath}; touch here || exit 3; touch {room.outside}/evil; touch /tmp/mine /dev/shm/mine || exit 4"
    )
    temporary = room.own / "tmp"
    temporary.mkdir()
    exit, said = await room.run(launcher, script, writable=(str(room.own),), temporary=str(temporary))
    assert (exit.status, exit.apart) == (0, ("temporary", "writes", "ipc")), said
    assert "Read-only file system" in said or "No such file" in said
    assert (room.own / "here").exists() and (temporary / "mine").exists()
    assert not (room.outside / "evil").exists()


@asynchronous
async def test_process_tree_is_killed_when_it_grows_without_end(launcher: HeadlessLauncher, room: Room) -> None:
    token = a_token()
    script = f"while :; do sleep 300 & : {token}; done"
    exit, _ = await room.run(launcher, script, processes=40)
    assert exit.crowded and exit.status is None
    assert living(token) == []


@asynchronous
async def test_process_ends_by_its_deadline_when_its_starter_is_gone(launcher: HeadlessLauncher, room: Room) -> None:
    token = a_token()
    words = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)", token)
    spec = LaunchSpec(argv=words, env={"PATH": os.environ["PATH"]}, cwd="/", seconds=0.3)
    agent = await launcher.start(str(room.place), spec)
    agent.close()  # as if its starter had been killed
    await until(lambda: not launcher.is_alive(str(room.place)), 20)
    assert living(token) == []
    ended = launcher.last_exit(str(room.place))
    assert ended is not None and ended.signal == 9


@asynchronous
async def test_missing_program_raises_the_usual_error(launcher: HeadlessLauncher, room: Room) -> None:
    spec = LaunchSpec(argv=("no-such-program",), env={"PATH": "/bin"}, cwd="/", apart=SandboxSpec(offline=True))
    exit = await soon((await launcher.start(str(room.place), spec)).ended())
    assert exit is not None and "cannot start no-such-program" in exit.error
