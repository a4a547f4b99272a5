"""Warm commands watched from outside: a warm process of its own, and who answered a command."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from needs import require

WORKER = Path(__file__).parent / "workers" / "warmed.py"
PATIENCE = 20.0


class Warm:
    """A home with a warm process for a command that tells what it is."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.home.mkdir(mode=0o700)
        (self.home / "logging").mkdir()
        self.socket = self.home / "warm" / "commands"
        self.cwd = base / "work"
        self.cwd.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(base), "FLEET_HOME": str(self.home), "LANG": "C.UTF-8"}
        self.worker = WORKER
        self.server: subprocess.Popen[bytes] | None = None

    def start(self, **more: str) -> int:
        """Start the warm process, after the one there was; its id."""
        self.stop()
        self.server = subprocess.Popen(
            [*self.argv, "serve", str(self.home)], stdin=subprocess.PIPE, env=self.env | more, start_new_session=True
        )
        server = self.server
        wait_until(lambda: listener(self.socket) == server.pid or server.poll() is not None, "the warm process")
        assert server.poll() is None
        return server.pid

    def stop(self) -> None:
        """Let go of its stdin, which ends it."""
        if self.server is not None:
            assert self.server.stdin is not None
            self.server.stdin.close()
            self.server.send_signal(signal.SIGCONT)
            self.server.wait(PATIENCE)
            self.server = None

    @property
    def pid(self) -> int:
        """Of the warm process."""
        assert self.server is not None
        return self.server.pid

    @property
    def argv(self) -> list[str]:
        """The program."""
        return [sys.executable, str(self.worker)]

    def run(self, *words: str, before: tuple[str, ...] = (), stdin: bytes = b"", **given: Any) -> Any:
        """Run the command; `before` stands before it, capitals are variables of its environment."""
        env = self.env | {name: given.pop(name) for name in list(given) if name.isupper()}
        words = words or ("list", "tell")
        given = dict[str, Any](cwd=self.cwd, timeout=60) | given
        return subprocess.run([*before, *self.argv, *words], env=env, input=stdin, capture_output=True, **given)

    def begin(self, *words: str, **more: Any) -> "subprocess.Popen[str]":
        """Start the command that waits; whoever is it stands in the first line that it prints."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        argv = [*self.argv, *(words or ("list", "wait"))]
        return subprocess.Popen(argv, cwd=self.cwd, env=self.env, text=True, **(streams | more))

    def is_warm(self, *before: str, words: tuple[str, ...] = ("list", "parent"), **more: Any) -> bool:
        """Whether the command, called in this way, is run by a fork of the warm process."""
        done = self.run(*words, before=before, **more)
        assert done.returncode == 0, done
        return int(done.stdout) == self.pid


def listener(path: Path) -> int:
    """The process that listens on a socket; 0 when none does."""
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(str(path))
        except OSError:
            return 0
        return int(struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.005)


def state_of(pid: int) -> str:
    """The letter that the kernel has for what a process does; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """The children of a process that live."""
    found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in found if state_of(child) not in ("", "Z")]


def forked(pid: int) -> int:
    """A number that grows with each child that a process had and has waited for."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    require(sys.platform == "linux", "warm commands (Linux)")
    made = Warm(tmp_path)
    made.start()
    yield made
    made.stop()
