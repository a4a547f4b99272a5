"""The real `fleet` program in a home of its own: what every end-to-end test runs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest


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
        self.argv = [str(Path(sys.executable).with_name("fleet"))]
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.user),
            "FLEET_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "FLEET_WARM": "0",  # the tests of warm commands turn them on
        }

    def __call__(self, *args: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Result:
        """Run once; keyword arguments in capitals are variables of the environment."""
        done = subprocess.run(
            [*self.argv, *args],
            input=stdin.encode(),
            capture_output=True,
            cwd=cwd or self.cwd,
            env=self.env | env,
            timeout=60,
        )
        return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def ok(self, *args: str, stdin: str = "", cwd: Path | None = None, **env: str) -> str:
        """Run once, demand exit code 0, and return what was printed."""
        result = self(*args, stdin=stdin, cwd=cwd, **env)
        assert result.code == 0, result
        return result.out


@pytest.fixture
def fleet(tmp_path: Path) -> Program:
    """The program, with a home that does not exist yet."""
    return Program(tmp_path)
