"""Warm commands: the same as cold ones in all that can be seen, and never in the way."""

import json
import os
import pty
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fleet as package
from needs import require
from supervised import Supervised, home
from warming import Warm, children, forked, listener, state_of, wait_until, warm

__all__ = ["home", "warm"]

ODD = ("", "two\nlines", "'quoted' \"twice\" $(id)", "ünï\udcff", "--", "-n")


def told(done: Any) -> dict[str, Any]:
    """What a command found out about itself, without who its parent was."""
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"parent": None, "env": found["env"] | {b"FLEET_WARM".hex(): ""}}


def test_a_warm_command_finds_all_as_a_cold_one_does(warm: Warm) -> None:
    given: dict[str, Any] = {
        "stdin": "grüße\n".encode() * 1000,
        "EMPTY": "",
        "EQUALS": "a=b=c",
        "ODD": "\udcfe\n",
        "TZ": "Asia/Kathmandu",
        "umask": 0o027,
    }
    hot = warm.run("list", "tell", *ODD, FLEET_WARM="", **given)
    cold = warm.run("list", "tell", *ODD, FLEET_WARM="0", **given)
    assert json.loads(hot.stdout)["parent"] == warm.pid != json.loads(cold.stdout)["parent"] == os.getpid()
    assert told(hot) == told(cold)
    assert told(hot)["umask"] == 0o027 and told(hot)["cwd"] == str(warm.cwd) and told(hot)["inherited"] == [0, 1, 2]
    assert (hot.returncode, hot.stderr) == (cold.returncode, cold.stderr) == (7, b"on stderr\n")


def test_no_variable_and_no_directory_of_the_warm_process_is_seen(warm: Warm) -> None:
    warm.stop()
    warm.start(ONLY_THERE="1")
    gone = warm.cwd / "gone"
    gone.mkdir()
    found = told(warm.run("list", "tell", cwd=gone, preexec_fn=gone.rmdir))
    assert b"ONLY_THERE".hex() not in found["env"] and found["cwd"] is None
    assert warm.is_warm(cwd="/")


@pytest.mark.parametrize("what", ["leave", "fail", "flood"])
def test_it_ends_as_a_cold_one_does(warm: Warm, what: str) -> None:
    def ended(**more: str) -> tuple[int, bytes]:
        process = subprocess.Popen(
            [*warm.argv, "list", what], env=warm.env | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().split(b"/crash-")[0]
        process.stderr.close()
        return process.wait(30), said

    assert ended() == ended(FLEET_WARM="0")


def test_without_streams_it_is_left_to_the_caller(warm: Warm) -> None:
    for number in (0, 1, 2):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {number}>&-', "sh", *warm.argv, "list", "parent"],
            env=warm.env,
            capture_output=True,
        )
        assert done.stdout.strip() != str(warm.pid).encode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_reaches_the_command(warm: Warm, number: int) -> None:
    endings = []
    for is_on in ("", "0"):
        warm.env["FLEET_WARM"] = is_on
        with warm.begin() as process:
            assert process.stdout is not None
            pid, parent = map(int, process.stdout.readline().split())
            assert (parent == warm.pid) == (not is_on)
            process.send_signal(number)
            endings.append((process.wait(20), process.communicate()[1]))
            wait_until(lambda pid=pid: not state_of(pid), "the command to be gone")  # type: ignore[misc]
    assert endings[0] == endings[1]


def test_a_changed_window_is_told_and_a_stopped_command_stops(warm: Warm) -> None:
    with warm.begin() as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().split()[0])
        process.send_signal(signal.SIGWINCH)
        assert process.stdout.readline() == "resized\n"
        process.send_signal(signal.SIGTSTP)
        wait_until(lambda: state_of(pid) == state_of(process.pid) == "T", "both to stop")
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: "T" not in state_of(pid) + state_of(process.pid), "both to go on")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(20) == 9


def test_the_callers_death_ends_the_command(warm: Warm) -> None:
    with warm.begin() as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().split()[0])
        process.kill()
    wait_until(lambda: state_of(pid) in ("", "Z"), "the command to end")
    assert warm.is_warm()


def test_a_command_that_is_killed_says_so(warm: Warm) -> None:
    with warm.begin() as process:
        assert process.stdout is not None
        os.kill(int(process.stdout.readline().split()[0]), signal.SIGKILL)
        assert process.wait(20) == 1
        assert process.stderr is not None and "was killed before it was done" in process.stderr.read()


def test_without_the_warm_process_commands_under_way_end_and_others_run_cold(warm: Warm) -> None:
    with warm.begin() as process:
        assert process.stdout is not None and process.stdout.readline()
        assert warm.server is not None
        warm.server.kill()
        warm.server.wait()
        assert not warm.is_warm()
        process.send_signal(signal.SIGUSR1)
        assert process.wait(20) == 9
    warm.start()
    assert warm.is_warm()


def test_forks_wait_for_callers_and_go_with_the_warm_process(warm: Warm) -> None:
    assert warm.server is not None
    before = waiting(warm)
    with warm.begin() as process:
        assert process.stdout is not None
        command = int(process.stdout.readline().split()[0])
        wait_until(lambda: len(children(warm.pid)) == 3, "another in its place")
        process.kill()
    assert command in before, "it was there before it was called"
    first, _ = waiting(warm)
    os.kill(first, signal.SIGKILL)
    left = waiting(warm)
    assert first not in left and warm.is_warm()
    left = waiting(warm)
    warm.server.kill()
    wait_until(lambda: not any(state_of(pid) for pid in left), "their end")
    warm.server.wait()


def waiting(warm: Warm) -> list[int]:
    """The forks that wait, once there are two that nobody calls: a look whether somebody listens is a call too."""
    seen: list[list[int]] = []

    def are_the_same() -> bool:
        seen.append(children(warm.pid))
        return len(seen[-1]) == 2 and len(seen) > 20 and all(each == seen[-1] for each in seen[-20:])

    wait_until(are_the_same, "two that wait")
    return seen[-1]


def test_a_warm_process_that_does_not_answer_is_not_waited_for(warm: Warm) -> None:
    os.killpg(warm.pid, signal.SIGSTOP)  # with the forks that wait
    assert not warm.is_warm()
    os.killpg(warm.pid, signal.SIGCONT)
    assert warm.is_warm()


def test_twenty_at_once(warm: Warm) -> None:
    with ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda n: told(warm.run("list", "tell", str(n), stdin=b"%d" % n, N=str(n))), range(20)))
    for number, found in enumerate(done):
        assert (found["argv"][-1], found["stdin"]) == (str(number), str(number))
        assert found["env"][b"N".hex()] == str(number).encode().hex()


def test_an_upgraded_program_is_never_served_by_old_code(warm: Warm, tmp_path: Path) -> None:
    """Also where a file is changed in its place, so that only it is newer."""
    warm.stop()
    there = tmp_path / "installed"
    shutil.copytree(Path(package.__file__).parent, there / "fleet", ignore=shutil.ignore_patterns("__pycache__"))
    warm.env["PYTHONPATH"] = str(there)
    warm.start()
    assert warm.is_warm()
    with (there / "fleet" / "cli" / "errors.py").open("a") as file:
        file.write("\n")
    assert not warm.is_warm()
    assert warm.server is not None
    assert warm.server.wait(20) == -signal.SIGTERM  # its supervisor starts another
    warm.start()
    assert warm.is_warm()


NAMESPACE = ("unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "--")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(NAMESPACE, id="another PID namespace"),
        pytest.param(("unshare", "--user", "--map-current-user", "--net", "--"), id="another network"),
        pytest.param(("setpriv", "--no-new-privs"), id="no new privileges"),
        pytest.param(("prlimit", "--nofile=200"), id="another limit"),
        pytest.param(("nice", "-n", "5"), id="another priority"),
        pytest.param(("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"), id="a signal ignored"),
        pytest.param(("env", "PYTHONUTF8=0"), id="another interpreter's switch"),
        pytest.param(("env", "LC_ALL=C"), id="another locale"),
        pytest.param(("env", "PYTHONUNBUFFERED=1"), id="unbuffered"),
        pytest.param(("env", "FLEET_RUN_TOKEN=x"), id="an agent"),
        pytest.param(("env", "FLEET_WARM=off"), id="turned off"),
        pytest.param(("env", "FLEET_HOME=/nowhere"), id="another home"),
    ],
)
def test_in_other_circumstances_a_command_runs_where_it_is_called(warm: Warm, before: tuple[str, ...]) -> None:
    able = subprocess.run([*before, "true"], check=False, capture_output=True).returncode == 0
    require(shutil.which(before[0]) and able, f"{' '.join(before)} (not possible here)")
    assert warm.is_warm()
    assert not warm.is_warm(*before)


def test_what_asks_keeps_the_terminal_of_its_caller(warm: Warm) -> None:
    ours, theirs = pty.openpty()
    try:

        def is_warm(*words: str, **streams: int) -> bool:
            with warm.begin(*words, **streams) as process:
                out = process.communicate(timeout=20)[0] or os.read(ours, 1000).decode()
            return int(out) == warm.pid

        assert not is_warm("kill", "parent", stdin=theirs)
        assert is_warm("kill", "parent", "--force", stdin=theirs)
        assert is_warm("kill", "parent")
        assert not is_warm("diff", "parent", stdout=theirs)
        assert is_warm("list", "parent", stdin=theirs, stdout=theirs)
        assert not is_warm("attach", "parent")
    finally:
        os.close(ours)
        os.close(theirs)


def as_nobody() -> None:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


def test_another_user_is_not_served(warm: Warm, tmp_path: Path) -> None:
    """Even where the folders let one in."""
    require(os.geteuid() == 0, "another user (needs root)")
    for folder in (*(each for each in tmp_path.parents if each != Path("/")), tmp_path, warm.home, warm.socket.parent):
        folder.chmod(folder.stat().st_mode | 0o055)
    warm.socket.chmod(0o777)
    look = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(4); "
    look += "s.connect(sys.argv[1]); print(s.recv(1))"
    words = ["/usr/bin/python3", "-c", look, str(warm.socket)]
    require(Path(words[0]).exists(), "a Python that another user can run")
    found = subprocess.run(words, preexec_fn=as_nobody, capture_output=True, cwd="/", timeout=20)
    assert found.stdout == b"b''\n", found.stderr
    assert not warm.is_warm()  # nor does one trust a folder that others may enter
    warm.socket.parent.chmod(0o700)
    assert warm.is_warm()


def test_a_socket_of_another_user_is_not_spoken_to(warm: Warm) -> None:
    require(os.geteuid() == 0, "another user (needs root)")
    heard = warm.cwd / "heard"
    warm.stop()
    listen = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.setresuid(*[65534] * 3);"
        "s.listen(); print('listening', flush=True); c = s.accept()[0]; print(c.recv(9), flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", listen, str(warm.socket)], stdout=subprocess.PIPE, text=True
    ) as stranger:
        assert stranger.stdout is not None and stranger.stdout.readline() == "listening\n"
        assert warm.run("list", "parent").returncode == 0
        assert stranger.stdout.readline() == "b''\n"
    warm.socket.unlink()
    assert not heard.exists()
    warm.start()


def garbled(path: Path, data: bytes) -> bytes:
    """What comes back of something that nobody understands."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(20)
        link.connect(str(path))
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        try:
            return link.recv(100)
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 4, b"\0\0\0\x05hello", os.urandom(100_000)])
def test_nonsense_is_not_answered(warm: Warm, data: bytes) -> None:
    assert garbled(warm.socket, data) == b""
    assert warm.is_warm()


def test_a_crowd_that_says_nothing_does_not_keep_anybody_from_working(warm: Warm) -> None:
    links = [socket.socket(socket.AF_UNIX) for _ in range(80)]
    for link in links:
        link.connect(str(warm.socket))
    assert not warm.is_warm()
    for link in links:
        link.close()
    wait_until(warm.is_warm, "room for one more")


def test_the_supervisor_keeps_one_and_commands_tell_the_same(home: Supervised) -> None:
    del home.fleet.env["FLEET_WARM"]
    home.create("ok")
    home.start()
    keeper = warm_process(home)
    before = forked(keeper)
    for words in (("tasks", "--json"), ("list", "--json"), ("kill", "nobody"), ("list", "--bogus"), ("create", "a..b")):
        hot, cold = home.fleet(*words), home.fleet(*words, FLEET_WARM="0")
        assert hot == cold or words[0] == "tasks"
        assert hot.code == cold.code
    wait_until(lambda: forked(keeper) > before, "its forks to be reaped")
    os.kill(keeper, signal.SIGKILL)
    assert home.fleet("list").code == 0
    wait_until(lambda: warm_process(home) not in (0, keeper), "another")
    last = warm_process(home)
    home.stop()
    assert not state_of(last) and not (home.fleet.home / "warm" / "commands").exists()


def test_it_goes_with_a_supervisor_that_is_killed_and_is_not_there_where_it_is_not_wanted(home: Supervised) -> None:
    del home.fleet.env["FLEET_WARM"]
    home.start()
    keeper = warm_process(home)
    home.kill()
    wait_until(lambda: not state_of(keeper), "it to go too")
    home.set("supervisor.warm_commands=false")
    home.start()
    home.wait_status(home.create("ok"), "closed")
    assert find_warm(home) == 0


def warm_process(home: Supervised) -> int:
    """The process id, once it listens."""
    found: Callable[[], int] = lambda: find_warm(home)  # noqa: E731
    wait_until(lambda: found() and listener(home.fleet.home / "warm" / "commands") == found(), "a warm process")
    return found()


def find_warm(home: Supervised) -> int:
    """The process that was started with this home's name to serve; 0 when there is none."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if b"serve_warm" in b" ".join(words) and str(home.fleet.home).encode() in words:
            return int(entry.name)
    return 0


def test_the_limits_that_are_compared_are_the_callers(warm: Warm) -> None:
    """A lower one of our own, which the command would not have elsewhere."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    lower = (0, hard) if soft else (4096, hard)
    if hard not in (resource.RLIM_INFINITY,) and hard < 4096:
        pytest.skip("no other limit is possible here")
    assert not warm.is_warm(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, lower))
