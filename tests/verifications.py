"""A small project with a bug, branches that fix it or pretend to, and fleet's verification of them."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.agents.headless import HeadlessLauncher
from fleet.core.verification import Verification, VerifyRequest
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.home import Home
from fleet.proof.verify.commit import VerifyFolders, tests_by, verify
from fleet.settings import Settings
from fleet.supervisor.run.environment import verify_environment
from repositories import IDENTITY, run_git

COMMAND = "python3 -m unittest discover -s tests"
BUG = "def add(a, b):\n    return a - b\n"
MENDED = "def add(a, b):\n    return a + b\n"
TEST = """\
import unittest
import calc


class Adding(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(2, 2), 4)
"""
BASE = {
    "calc.py": BUG,
    "tests/test_calc.py": TEST,
    "verify.sh": f"#!/bin/sh\nexec {COMMAND}\n",
    "Makefile": f"test:\n\t{COMMAND}\n",
}
TESTS = tests_by(Settings(origins={}, model_owner=""))


def write(top: Path, files: Mapping[str, str | None]) -> None:
    """Write files or links (`-> target`), and delete files whose text is None."""
    for name, text in files.items():
        path = top / name
        if text is None:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.unlink(missing_ok=True)
            path.symlink_to(text.removeprefix("-> "))
            continue
        path.write_text(text, "utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)


def make_project(top: Path) -> Path:
    """Create the project with its bug, on branch main."""
    top.mkdir(parents=True)
    run_git(top, "init", "--quiet", "--initial-branch=main")
    write(top, BASE)
    run_git(top, "add", "--all")
    run_git(top, "commit", "--quiet", "--message=first")
    return top


class Project:
    """One project of a user with one branch of an agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = folder / "project"
        if not self.top.exists():
            make_project(self.top)
        self.home = Home(str(folder / "home"))
        self.view = View(self.home, find_repository(str(self.top)))
        self.base = run_git(self.top, "rev-parse", "HEAD")
        self.launcher = HeadlessLauncher()
        self.ours = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LANG": "C.UTF-8"}

    @property
    def place(self) -> Path:
        """Return the folder of the shim's files."""
        return self.folder / "home" / "tasks" / "t" / "verify"

    @property
    def checkout(self) -> Path:
        """Return the folder of the clean checkout."""
        return self.folder / "home" / "verify" / "t-1"

    def branch(self, files: Mapping[str, str | None] | None = None) -> str:
        """Commit the checkout with these files, as an agent would. Return the commit."""
        write(self.top, files or {})
        run_git(self.top, "add", "--all", "--force")
        env = os.environ | IDENTITY
        subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--allow-empty", "--message=work"],
            cwd=self.top,
            env=env,
            check=True,
        )
        return run_git(self.top, "rev-parse", "HEAD")

    def room(self, **changes: Any) -> VerifyFolders:
        env = verify_environment(self.home, self.ours, scratch=str(self.checkout))
        return VerifyFolders(str(self.place), str(self.checkout), env)._replace(**changes)

    def look(self, commit: str, command: str = COMMAND, **wanted: Any) -> Verification:
        """Verify a commit with fleet."""
        asked = VerifyRequest(command=command, **({"seconds": 60.0} | wanted))
        return asyncio.run(
            verify(self.launcher, self.view, asked, self.room(), commit=commit, base=self.base, tests=TESTS)
        )
