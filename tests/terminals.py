"""fleet in a repository, with its agents in a separate tmux: used as people type, judged from outside.

The checks use no code of fleet. They read git, tmux, processes and the database's tables.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from needs import require
from program import Program, Result
from repositories import branches, make_repository, run_git, worktrees
from supervised import PATIENCE, Supervised, wait_for

LEAVE = b"\x02d"  # Ctrl-b d
#: Seconds between two keys; tmux treats faster keys as a paste.
BETWEEN_KEYS = 0.05


class Terminals(Supervised):
    """A home with the demo coder, a repository, and a separate tmux server."""

    def __init__(self, fleet: Program, repo: Path | None = None) -> None:
        require(shutil.which("tmux"), "tmux")
        self.fleet = fleet
        self.process, self.seed = None, 0
        self.repo = repo or make_repository(fleet.cwd / "repo")
        self.socket = "story"
        fleet.env["PATH"] = f"{Path(sys.executable).parent}:{fleet.env['PATH']}"
        fleet.cwd = self.repo
        room = ("supervisor.min_free_disk_mb=1", "supervisor.min_free_memory_mb=1")
        settings = ("coder=demo", f"tmux.socket={self.socket}", *room)
        fleet.furnish(("init", "--home", "--permissions", "user"), ("config", "set", *settings))
        # Short, because the name of a socket has a maximum length.
        self.sockets = fleet.env["TMUX_TMPDIR"] = tempfile.mkdtemp(prefix="tmux")

    def type(self, line: str, stdin: str = "") -> Result:
        """Run what a person types at a shell in the repository, character for character."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.fleet.cwd,
            env=self.fleet.env,
            input=stdin.encode(),
            capture_output=True,
            timeout=PATIENCE,
        )
        return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def typed(self, line: str) -> str:
        """Run the same, which must succeed. Return its output."""
        result = self.type(line)
        assert result.code == 0, (line, result, self.describe())
        return result.out

    def told(self, *words: str, **options: Any) -> Any:
        """Return the JSON answer of a command."""
        return json.loads(self.fleet.ok(*words, "--json", **options))

    def listed(self, *words: str, **options: Any) -> dict[str, dict[str, Any]]:
        """Return the rows of `fleet list`, by branch."""
        return {row["branch"]: row for row in self.told("list", *words, **options)}

    def wait_listed(self, branch: str, *statuses: str) -> dict[str, Any]:
        """Wait until `list` shows a branch with one of these statuses. Return its row."""
        found: dict[str, Any] = {}

        def is_so() -> bool:
            found.clear()
            found.update(self.listed("--all").get(branch, {}))
            return found.get("status") in statuses

        wait_for(is_so, f"{branch} to be {statuses}", lambda: f"{found}\n{self.describe()}")
        return found

    def wait_alive(self, *names: str) -> None:
        """Wait until the agents of these branches took their first step and wait for a person."""
        for name in names:
            self.wait_listed(name, "idle")

    def tmux(self, *words: str) -> str:
        """Return tmux's output on the socket of this home, or "" if no server runs."""
        argv = ["tmux", "-L", self.socket, *words]
        return subprocess.run(argv, env=self.fleet.env, capture_output=True, text=True, timeout=PATIENCE).stdout

    def sessions(self) -> set[str]:
        """Return the names of the sessions whose program lives."""
        lines = self.tmux("list-panes", "-a", "-F", "#{pane_dead} #{session_name}").splitlines()
        return {name for dead, _, name in (line.partition(" ") for line in lines) if dead == "0"}

    def screen(self, session: str) -> str:
        """Return the text of a session's terminal."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-2000", "-t", f"={session}:")

    def heard(self, task: str) -> list[str]:
        """Return all messages to an agent from its own session file."""
        lines = [
            json.loads(line)
            for path in sorted((self.fleet.home / "tasks" / task).glob("runs/*/session.jsonl"))
            for line in path.read_text("utf-8").splitlines()
        ]
        return [str(line["text"]) for line in lines if line.get("type") == "user"]

    def branches(self) -> set[str]:
        """Return the branches other than main."""
        return set(branches(self.repo)) - {"main"}

    def worktrees(self) -> set[str]:
        """Return the paths of the worktrees other than the main checkout."""
        return set(worktrees(self.repo)[1:])

    def fsck(self) -> str:
        """Return the faults that git finds in the repository."""
        return run_git(self.repo, "fsck", "--full", "--no-dangling")

    def rows_of_branch(self, branch: str) -> list[dict[str, Any]]:
        """Return the tasks of a branch from the database."""
        return self.rows("select * from tasks where branch = ?", branch)

    def describe(self) -> str:
        """Return details that help to find a fault."""
        parts = [f"FLEET_SEED={self.seed}", str(self.sessions()), str(self.worktrees())]
        with suppress(Exception):  # also if the home does not exist yet
            parts.append(str(self.rows("select id, status, reason, branch from tasks")))
            parts.append(str([line for line in self.log_lines() if line.get("level") != "info"][-20:]))
        return "\n".join(parts)

    def stop(self) -> None:
        """End the supervisor, the agents and their tmux."""
        if not self._end_supervisor():
            self.fleet("run", "stop", "--stop-agents")
        self.tmux("kill-server")
        shutil.rmtree(self.sockets, ignore_errors=True)

    def _end_supervisor(self) -> bool:
        """Ask the holder of the home's lock to end with its agents, without a program.

        Return True if the lock is free.
        """
        lock = self.fleet.home / "supervisor.lock"
        if not lock.exists():
            return True
        asked = 0
        with lock.open("rb") as file:
            end = time.monotonic() + PATIENCE / 2
            while time.monotonic() < end:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:  # the lock is held, so its pid is valid
                    note = lock.read_bytes()
                    if note and not asked:
                        asked = json.loads(note)["pid"]
                        os.kill(asked, signal.SIGUSR1)
                    time.sleep(0.02)
                else:
                    return True
        return False


class Screen:
    """A pseudoterminal with a program in it, as a person uses."""

    def __init__(self, home: Terminals, *words: str) -> None:
        self.ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.seen = b""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *home.fleet.argv, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=home.fleet.cwd,
            env=home.fleet.env | {"TERM": "xterm-256color"},
        )
        os.close(theirs)

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Read until the screen shows this text."""
        end = time.monotonic() + patience
        while text.encode() not in self.seen:
            if time.monotonic() > end or not self._read(0.1):
                pytest.fail(f"waited for {text!r} on the screen, which shows {self.seen[-3000:]!r}")

    def press(self, keys: bytes) -> None:
        """Press keys, one after the other."""
        for key in keys:
            time.sleep(BETWEEN_KEYS)
            os.write(self.ours, bytes([key]))

    def end(self, patience: float = 20) -> int:
        """Wait for the program's end. Return its exit code."""
        end = time.monotonic() + patience
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.05)
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            pytest.fail(f"it did not end; the screen shows {self.seen[-3000:]!r}")
        while self._read(0.05) and select.select([self.ours], [], [], 0)[0]:
            pass
        os.close(self.ours)
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            self.seen += os.read(self.ours, 65536)
        except OSError:  # its other side is closed
            return False
        return True


@pytest.fixture
def home(fleet: Program) -> Iterator[Terminals]:
    """Yield fleet in a small repository; no process that it started outlives the test."""
    made = Terminals(fleet)
    yield made
    made.stop()
    assert made.agents() == []
