"""Commands forked from a process that has imported fleet: a tenth of the cost of starting Python for each.

`ForkServer` starts `fork_server.py` and sends it commands; `is_forkable` names what a fork cannot imitate.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import costs
import leftovers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TESTS = Path(__file__).parent
#: Folders of PYTHONPATH whose code a fork can import as well as a new process can.
PLACES = ("", str(TESTS), str(TESTS / "workers"))
#: Longer command lines are left to a real exec.
LONGEST = 100_000
#: Room for a request: its command line and its environment.
ROOM = 8 * LONGEST
#: The interpreter and `workers/sitecustomize.py` read these when they start.
READ_AT_START = ("LANG", "LC_ALL", "LC_CTYPE", "LD_PRELOAD", "CRASH")
LANG = "C.UTF-8"

#: How long one call may take, in seconds.
PATIENCE = 120


def is_forkable(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Return True if a fork of the server behaves as a new process with these words and this environment would.

    Benchmarks measure the installed program: commands are forked only while pytest runs.
    """
    if "PYTEST_VERSION" not in os.environ or not hasattr(os, "pidfd_open"):
        return False
    if any(env.get(name, "") != (LANG if name == "LANG" else "") for name in READ_AT_START):
        return False
    if any(name.startswith("PYTHON") and name != "PYTHONPATH" for name in env):
        return False
    if any(place not in PLACES for place in env.get("PYTHONPATH", "").split(":")):
        return False  # the folder may hide a module of fleet, or run code when Python starts
    return sum(map(len, argv)) < LONGEST


class ForkedCommand:
    """A command that runs in a fork of the server. Looks like a `subprocess.Popen`."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code if the command has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once the command has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0)
            told = os.read(self._status, 100).split()
            os.close(self._status)
            assert told, "the fork server ended before its command"
            self.returncode = int(told[0])
            costs.elsewhere += float(told[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the command unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the command to end unless it has ended."""
        self.send_signal(signal.SIGTERM)


class ForkServer:
    """The tests' end of the server; the server ends when this process does."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        env = {"PATH": os.environ["PATH"], "LANG": LANG, "TMPDIR": tempfile.gettempdir()}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(TESTS / "fork_server.py"), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env=env,
            cwd="/",
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        leftovers.at_end.callback(self.close)

    def start(self, argv: Sequence[str], streams: Sequence[int], cwd: Path, env: Mapping[str, str]) -> ForkedCommand:
        """Start a command with these streams."""
        status, theirs = os.pipe()
        request = {"argv": list(argv), "cwd": str(cwd), "env": dict(env)}
        try:
            socket.send_fds(self._link, [json.dumps(request).encode()], [*streams, theirs])
        finally:
            os.close(theirs)
        return ForkedCommand(int(os.read(status, 11)), status)

    def run(self, argv: Sequence[str], text: bytes, cwd: Path, env: Mapping[str, str]) -> tuple[int, bytes, bytes]:
        """Run a command with this text as stdin.

        Return exit code, stdout and stderr once no process can write to them.
        """
        with contextlib.ExitStack() as stack:
            given = stack.enter_context(os.fdopen(os.memfd_create("stdin"), "w+b"))
            given.write(text)
            given.seek(0)
            (out, write_out), (err, write_err) = os.pipe(), os.pipe()
            stack.callback(os.close, out)
            stack.callback(os.close, err)
            try:
                command = self.start(argv, (given.fileno(), write_out, write_err), cwd, env)
            finally:
                os.close(write_out)
                os.close(write_err)
            told = _read(argv, out, err)
            return command.wait(PATIENCE), told[out], told[err]

    def close(self) -> None:
        """End the server, and leave the commands that still run alone."""
        self._link.close()
        self._process.wait(PATIENCE)


def _read(argv: Sequence[str], *pipes: int) -> dict[int, bytes]:
    """Return all that comes out of each pipe. Raises TimeoutExpired."""
    told = dict.fromkeys(pipes, b"")
    end = time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(end - time.monotonic())
            if not ready:
                raise subprocess.TimeoutExpired(list(argv), PATIENCE)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                told[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return told
