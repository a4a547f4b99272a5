"""The real `fleet` program in its own home, as every end-to-end test runs it."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

import leftovers
from forking import PATIENCE, ForkedCommand, ForkServer, is_forkable

#: A started command.
Process = subprocess.Popen[bytes] | ForkedCommand
PROGRAM = [str(Path(sys.executable).with_name("fleet"))]


class Result(NamedTuple):
    """The result of one call of the program."""

    code: int
    out: str
    err: str


class Program:
    """The `fleet` of the current environment, run without anything of the user."""

    def __init__(self, base: Path) -> None:
        self.user = base / "user"
        self.home = base / "home"
        self.cwd = base / "work"
        self.user.mkdir(exist_ok=True)
        self.cwd.mkdir(exist_ok=True)
        self.argv = list(PROGRAM)
        self.forks = True  # False starts a new process for each call
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.user),
            "FLEET_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TMPDIR": tempfile.gettempdir(),
        }

    def __call__(self, *args: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Result:
        """Run the program once. Keyword arguments in capitals are environment variables."""
        if self._forks(args, self.env | env):
            code, out, err = _fork_server().run([*self.argv, *args], stdin.encode(), cwd or self.cwd, self.env | env)
        else:
            done = subprocess.run(
                [*self.argv, *args],
                input=stdin.encode(),
                capture_output=True,
                cwd=cwd or self.cwd,
                env=self.env | env,
                timeout=PATIENCE,
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        return Result(code, out.decode(errors="replace"), err.decode(errors="replace"))

    def start(self, *args: str, stdout: int, stderr: int, stdin: int | None = None, **env: str) -> Process:
        """Start the program without waiting. Without `stdin`, standard input is empty."""
        argv, given = [*self.argv, *args], self.env | env
        with Path(os.devnull).open("rb") as nothing:
            stdin = nothing.fileno() if stdin is None else stdin
            if self._forks(args, given):
                return _fork_server().start(argv, (stdin, stdout, stderr), self.cwd, given)
            return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=self.cwd, env=given)

    def _forks(self, args: tuple[str, ...], env: dict[str, str]) -> bool:
        return self.forks and self.argv == PROGRAM and is_forkable(args, env)

    def ok(self, *args: str, stdin: str = "", cwd: Path | None = None, **env: str) -> str:
        """Run the program once. Check that it exits with 0, and return its output."""
        result = self(*args, stdin=stdin, cwd=cwd, **env)
        assert result.code == 0, result
        return result.out

    def furnish(self, *calls: tuple[str, ...]) -> None:
        """Make the home as these calls of the program make it.

        This takes half a second of CPU time, so it is done once for all tests with the same calls, and copied.
        """
        base = str(self.home.parent)
        told = tuple((name, value) for name, value in sorted(self.env.items()) if name not in _OF_EACH_HOME)
        in_project = (self.cwd / ".git").exists() and ("--home" not in calls[0])
        if self.home.exists() or in_project or any(name not in _SEARCHED or base in value for name, value in told):
            for words in calls:
                self.ok(*words)
            return
        made = _furnished(tuple(tuple(word.replace(base, _BASE) for word in words) for words in calls), told)
        shutil.copytree(made.home, self.home, symlinks=True)
        for path in (self.home / "runtime.toml", *self.home.glob("bin/*")):
            path.write_bytes(path.read_bytes().replace(bytes(made.home.parent), base.encode()))


#: The placeholder for a test's own folder in a call that is made for all.
_BASE = "/the/folder/of/the/test"
#: Environment variables that name the home or do not affect it, and the search paths of programs.
_OF_EACH_HOME = ("HOME", "FLEET_HOME", "LANG", "TZ", "TMPDIR", "TMUX_TMPDIR")
_SEARCHED = ("PATH", "PYTHONPATH")


@functools.cache
def _fork_server() -> ForkServer:
    return ForkServer()


@functools.cache
def _furnished(calls: tuple[tuple[str, ...], ...], env: tuple[tuple[str, str], ...]) -> Program:
    """Return a program whose home these calls have made."""
    base = Path(tempfile.mkdtemp(prefix="fleet-home-"))
    leftovers.at_end.callback(shutil.rmtree, base, ignore_errors=True)
    made = Program(base)
    made.env |= dict(env)
    for words in calls:
        made.ok(*(word.replace(_BASE, str(base)) for word in words))
    # otherwise replacing the paths in text files would not be enough
    assert bytes(base) not in (made.home / "fleet.db").read_bytes()
    return made


@pytest.fixture
def fleet(tmp_path: Path) -> Program:
    """Return the program with a home that does not exist yet."""
    return Program(tmp_path)
