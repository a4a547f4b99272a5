"""Tools that give each agent a worktree and a tmux session, used as their users do, with a stub agent.

ai-fleet comes from PyPI with the newest libtmux that it works with, as pinned in the lock beside this file. The stub is
a `claude` on PATH that records when and where it was started, and then waits.
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
    """A tool with its own home, repository and tmux. Each measurement is in seconds."""

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
        # ai-fleet types into a login shell, which takes its PATH from this file.
        (self.program.user / ".profile").write_text(f'PATH="{stub.parent}:$PATH"\n')
        # The folder is short because the length of a socket's path is limited.
        self.sockets = tempfile.TemporaryDirectory(prefix="tmux")
        self.program.env |= {
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
            "TMUX_TMPDIR": self.sockets.name,
            "ANTHROPIC_API_KEY": "sk-ant-none",
            "SHELL": "/bin/sh",
        }

    def create(self, branch: str) -> float:
        """Return the seconds from the command to the running agent."""
        return self._until_running(1, "create", branch, "--prompt", PROMPT)

    def fanout(self, count: int, prefix: str) -> float:
        """Return the seconds from the command to the last running agent."""
        return self._until_running(count, "fanout", str(count), prefix, "--prompt", PROMPT)

    def kill(self, pattern: str) -> float:
        """Return the seconds from the command to its end and the removal of each worktree."""
        began = time.monotonic()
        self._run("kill", "--force", pattern)
        wait_until(lambda: self.worktrees() == 0, f"the worktrees of {pattern} to be gone")
        return time.monotonic() - began

    def show(self, count: int) -> float:
        """Return the seconds that listing this many agents takes."""
        began = time.monotonic()
        shown = self._run("list")
        taken = time.monotonic() - began
        if shown.count("five-") < count:
            raise SystemExit(f"{self.name} list does not show {count} agents:\n{shown}")
        return taken

    def worktrees(self) -> int:
        """Return the number of worktrees beside the main checkout."""
        folder = self.repo / ".git" / "worktrees"
        return len(list(folder.iterdir())) if folder.is_dir() else 0

    def stop(self) -> None:
        """End its tmux and all agents in it."""
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
    """ai-fleet, initialized without setup commands."""

    name = "ai-fleet"

    def __init__(self, base: Path) -> None:
        super().__init__(base, [str(installed())])
        told = self.program("init", "--type", "minimal", stdin="y\n")
        if told.code:
            raise SystemExit(f"ai-fleet init failed: {told}")


class Fleet(Tool):
    """This fleet, as the installed program with default settings: agents in tmux sessions."""

    name = "fleet"
    socket = "fleet"

    def __init__(self, base: Path) -> None:
        super().__init__(base, [str(Path(sys.executable).with_name("fleet"))])
        self._run("init", "--home", "--permissions", "skip")

    def stop(self) -> None:
        """End the supervisor, which `create` started, and the tmux."""
        self.program("run", "stop", "--stop-agents")
        super().stop()


class Pair(NamedTuple):
    """Both tools side by side."""

    ai_fleet: AiFleet
    fleet: Fleet


@contextmanager
def side_by_side() -> Iterator[Pair]:
    """Yield both tools, each with a repository of 2,000 files. Remove everything afterwards."""
    folder, started = Path(tempfile.mkdtemp()), list[Tool]()
    try:
        started.append(one := AiFleet(folder / "ai-fleet"))
        started.append(other := Fleet(folder / "fleet"))
        yield Pair(one, other)
    finally:
        for tool in started:
            tool.stop()
        # Some moved folders may still be in deletion.
        wait_until(lambda: is_removed(folder), "everything to be gone")


def is_removed(folder: Path) -> bool:
    """Remove a folder as far as possible. Return True if it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def installed() -> Path:
    """Return ai-fleet's program. The first call installs it in a separate environment."""
    words = [sys.executable, str(ROOT / "tools" / "venv.py"), "--program", "ai-fleet", "tests/bench/ai-fleet.lock"]
    found = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        sys.exit(found.returncode)
    # The package is called ai-fleet and its program fleet.
    return Path(found.stdout.strip()).with_name("fleet")


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.002)
