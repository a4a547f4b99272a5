"""The real `fleet` program in a home of its own: what every end-to-end test runs."""

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

#: A command that was started.
Process = subprocess.Popen[bytes] | ForkedCommand
PROGRAM = [str(Path(sys.executable).with_name("fleet"))]


class Result(NamedTuple):
    """How one call of the program ended."""

    code: int
    out: str
    err: str


class Program:
    """Runs `fleet …` of the current environment, with nothing of the user's own around it."""

    def __init__(self, base: Path) -> None:
        self.user = base / "user"
        self.home = base / "home"
        self.cwd = base / "work"
        self.user.mkdir(exist_ok=True)
        self.cwd.mkdir(exist_ok=True)
        self.argv = list(PROGRAM)
        self.forks = True  # False starts a process of its own for each call
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.user),
            "FLEET_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TMPDIR": tempfile.gettempdir(),
        }

    def __call__(self, *args: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Result:
        """Run once; keyword arguments in capitals are variables of the environment."""
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
        """Start the program and wait for nothing; without `stdin` there is nothing to read."""
        argv, given = [*self.argv, *args], self.env | env
        with Path(os.devnull).open("rb") as nothing:
            stdin = nothing.fileno() if stdin is None else stdin
            if self._forks(args, given):
                return _fork_server().start(argv, (stdin, stdout, stderr), self.cwd, given)
            return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=self.cwd, env=given)

    def _forks(self, args: tuple[str, ...], env: dict[str, str]) -> bool:
        return self.forks and self.argv == PROGRAM and is_forkable(args, env)

    def ok(self, *args: str, stdin: str = "", cwd: Path | None = None, **env: str) -> str:
        """Run once, demand exit code 0, and return what was printed."""
        result = self(*args, stdin=stdin, cwd=cwd, **env)
        assert result.code == 0, result
        return result.out

    def furnish(self, *calls: tuple[str, ...]) -> None:
        """Make the home as these calls of the program make it.

        That takes half a second of a processor, so it is done once for all tests that ask for the same, and copied.
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


#: What stands for a test's own folder in a call that is made for all.
_BASE = "/the/folder/of/the/test"
#: Variables of the environment that name the home, or that no home is made by; and those that programs are found by.
_OF_EACH_HOME = ("HOME", "FLEET_HOME", "LANG", "TZ", "TMPDIR", "TMUX_TMPDIR")
_SEARCHED = ("PATH", "PYTHONPATH")


@functools.cache
def _fork_server() -> ForkServer:
    return ForkServer()


@functools.cache
def _furnished(calls: tuple[tuple[str, ...], ...], env: tuple[tuple[str, str], ...]) -> Program:
    """A program whose home these calls have made."""
    base = Path(tempfile.mkdtemp(prefix="fleet-home-"))
    leftovers.at_end.callback(shutil.rmtree, base, ignore_errors=True)
    made = Program(base)
    made.env |= dict(env)
    for words in calls:
        made.ok(*(word.replace(_BASE, str(base)) for word in words))
    assert bytes(base) not in (made.home / "fleet.db").read_bytes()  # else a copy would need more than other words
    return made


@pytest.fixture
def fleet(tmp_path: Path) -> Program:
    """The program, with a home that does not exist yet."""
    return Program(tmp_path)
