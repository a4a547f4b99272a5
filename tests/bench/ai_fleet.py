"""Tools that give each agent a worktree and a tmux session, driven as their users drive them, with a stub for an agent.

ai-fleet comes from PyPI, as its lock beside this file says: with the newest libtmux that it works with. The stub is a
`claude` on PATH that notes when and where it was started, and then waits.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from program import Program
from repositories import big_repository

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
PROMPT = "refactor the authentication module"
STUB = """\
#!/bin/sh
[ "$1" != --version ] || { echo '2.0.0 (stub)'; exit; }
echo "$(date +%s.%N) $PWD" >> '{notes}'
exec sleep 100000
"""


class Tool:
    """A tool in a home, a repository and a tmux of its own; each measurement in seconds."""

    name = ""
    socket = "default"

    def __init__(self, base: Path, argv: list[str]) -> None:
        base.mkdir()
        self.program = Program(base)
        self.program.argv = argv
        self.notes = base / "notes"
        self.notes.touch()
        self.repo = big_repository(base / "repo")
        self.program.cwd = self.repo
        stub = base / "bin" / "claude"
        stub.parent.mkdir()
        stub.write_text(STUB.replace("{notes}", str(self.notes)))
        stub.chmod(0o755)
        # A login shell, which ai-fleet types into, takes its PATH from here.
        (self.program.user / ".profile").write_text(f'PATH="{stub.parent}:$PATH"\n')
        # Short, for the name of a socket has an end.
        self.sockets = tempfile.TemporaryDirectory(prefix="tmux")
        self.program.env |= {
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
            "TMUX_TMPDIR": self.sockets.name,
            "ANTHROPIC_API_KEY": "sk-ant-none",
            "SHELL": "/bin/sh",
        }

    def create(self, branch: str) -> float:
        """From typing the command to its agent running."""
        return self._until_running(1, "create", branch, "--prompt", PROMPT)

    def fanout(self, count: int, prefix: str) -> float:
        """From typing the command to the last of its agents running."""
        return self._until_running(count, "fanout", str(count), prefix, "--prompt", PROMPT)

    def kill(self, pattern: str) -> float:
        """From typing the command to its end and that of every worktree."""
        began = time.monotonic()
        self._run("kill", "--force", pattern)
        wait_until(lambda: self.worktrees() == 0, f"the worktrees of {pattern} to be gone")
        return time.monotonic() - began

    def show(self, count: int) -> float:
        """How long it takes to show that many agents."""
        began = time.monotonic()
        shown = self._run("list")
        taken = time.monotonic() - began
        if shown.count("five-") < count:
            raise SystemExit(f"{self.name} list does not show {count} agents:\n{shown}")
        return taken

    def worktrees(self) -> int:
        """How many the repository has beside its main checkout."""
        folder = self.repo / ".git" / "worktrees"
        return len(list(folder.iterdir())) if folder.is_dir() else 0

    def stop(self) -> None:
        """End its tmux, and every agent with it."""
        words = ["tmux", "-L", self.socket, "kill-server"]
        subprocess.run(words, env=self.program.env, stderr=subprocess.DEVNULL)
        self.sockets.cleanup()

    def _until_running(self, count: int, *words: str) -> float:
        before, began = len(self._starts()), time.time()
        process = subprocess.Popen(
            [*self.program.argv, *words],
            cwd=self.repo,
            env=self.program.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said = process.communicate(timeout=PATIENCE)[0].decode(errors="replace")
        if process.returncode:
            raise SystemExit(f"{self.name} {' '.join(words)} ended with {process.returncode}:\n{said}")
        wait_until(lambda: len(self._starts()) == before + count, f"{count} agents of {self.name} to run:\n{said}")
        return self._starts()[-1] - began

    def _starts(self) -> list[float]:
        return [float(line.split()[0]) for line in self.notes.read_text().splitlines()]

    def _run(self, *words: str) -> str:
        result = self.program(*words)
        if result.code:
            raise SystemExit(f"{self.name} {' '.join(words)} failed: {result}")
        return result.out


class AiFleet(Tool):
    """ai-fleet, initialised without any setup commands."""

    name = "ai-fleet"

    def __init__(self, base: Path) -> None:
        super().__init__(base, [str(installed())])
        told = self.program("init", "--type", "minimal", stdin="y\n")
        if told.code:
            raise SystemExit(f"ai-fleet init failed: {told}")


class Fleet(Tool):
    """This fleet, the installed program, with its default settings: agents in tmux sessions."""

    name = "fleet"
    socket = "fleet"

    def __init__(self, base: Path) -> None:
        super().__init__(base, [str(Path(sys.executable).with_name("fleet"))])
        self._run("init", "--home", "--permissions", "skip")

    def stop(self) -> None:
        """End the supervisor too, which `create` started."""
        self.program("run", "stop", "--stop-agents")
        super().stop()


class Pair(NamedTuple):
    """Both, side by side."""

    ai_fleet: AiFleet
    fleet: Fleet


@contextmanager
def side_by_side() -> Iterator[Pair]:
    """Both tools, each in a repository of 2,000 files; nothing of them is left behind."""
    folder, started = Path(tempfile.mkdtemp()), list[Tool]()
    try:
        started.append(one := AiFleet(folder / "ai-fleet"))
        started.append(other := Fleet(folder / "fleet"))
        yield Pair(one, other)
    finally:
        for tool in started:
            tool.stop()
        # What was taken out of the way may still be in the course of being deleted.
        wait_until(lambda: is_removed(folder), "everything to be gone")


def is_removed(folder: Path) -> bool:
    """Remove what can be removed; whether that was all."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def installed() -> Path:
    """ai-fleet's program, in an environment of its own; made at the first call."""
    words = [sys.executable, str(ROOT / "tools" / "venv.py"), "--program", "ai-fleet", "tests/bench/ai-fleet.lock"]
    found = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        sys.exit(found.returncode)
    # Its package is called ai-fleet, and its program fleet.
    return Path(found.stdout.strip()).with_name("fleet")


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.002)
