"""Verify commands that need installed dependencies: folders of the worktree, taken read-only, and setup commands."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.agents.headless import namespace_command
from fleet.core.finding import Evidence, judge_evidence
from fleet.core.run import Ending
from fleet.core.task import WORKTREE
from fleet.core.verification import Verification
from fleet.proof.verify.using import Places, mark_folders
from needs import require
from program import Program
from receipted import Made
from repositories import make_repository, run_git
from supervised import Supervised, home
from verifications import Project, write

__all__ = ["home"]

#: A program of an installed environment. It reads the project through the path that the installation recorded.
PROGRAM = '#!/bin/sh\nexec grep -q "a + b" "$(cat {place}/.venv/project)/calc.py"\n'
GOOD = "def add(a, b):\n    return a + b\n"


class Installed(Project):
    """A project with a worktree in which an environment was installed before an agent worked there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.worktree = folder / "home" / "worktrees" / "work"
        run_git(self.top, "worktree", "add", "--quiet", "-b", "work", str(self.worktree))
        self.install(self.worktree)
        self.marks: dict[str, Any] = mark_folders([".venv"], str(self.worktree))

    def install(self, place: Path) -> None:
        write(
            place,
            {
                ".venv/pyvenv.cfg": "home = /usr/bin\n",
                ".venv/project": f"{place}\n",
                ".venv/bin/check": PROGRAM.format(place=place),
            },
        )

    def commit(self, files: Mapping[str, str | None]) -> str:
        """Commit files on the branch of the worktree, as an agent does. Return the commit."""
        write(self.worktree, files)
        run_git(self.worktree, "add", "--", *files)
        run_git(self.worktree, "commit", "--quiet", "--message=work")
        return run_git(self.worktree, "rev-parse", "HEAD")

    def places(self) -> Places:
        return Places((str(self.worktree), str(self.top)), self.marks)

    def look(self, commit: str, command: str = "check", **wanted: Any) -> Verification:
        room = self.room
        self.room = lambda **changes: room(**({"places": self.places()} | changes))  # type: ignore[method-assign]
        return super().look(commit, command, **({"use": (".venv",)} | wanted))


@pytest.fixture
def project(tmp_path: Path) -> Installed:
    require(namespace_command(), "namespaces")
    return Installed(tmp_path)


def found(made: Verification) -> tuple[str, tuple[str, ...]]:
    """Return the finding of honest work with this verification."""
    seen = Evidence(ending=Ending.FINISHED, tool_calls=1, workspace=WORKTREE, changed=1, verification=made)
    told = judge_evidence(seen)
    return told.finding, told.shown


def test_program_of_the_environment_judges_the_commit_and_not_the_worktree(project: Installed) -> None:
    good = project.commit({"calc.py": GOOD})
    write(project.worktree, {"calc.py": "not what was committed\n"})
    made = project.look(good)
    assert (made.proves, found(made)[0]) == (True, "verified"), made
    assert made.used == (str(project.worktree / ".venv"),)
    assert any(each.startswith(f"{project.worktree}/.venv/bin/check sha256:") for each in made.programs)
    bad = project.commit({"calc.py": "def add(a, b):\n    return a - b\n"})
    write(project.worktree, {"calc.py": GOOD})
    assert found(project.look(bad))[0] == "failed_verify"


def test_command_cannot_write_to_the_folders_that_it_uses(project: Installed) -> None:
    good = project.commit({"calc.py": GOOD})
    for path in (".venv/planted", f"{project.worktree}/.venv/planted", f"{project.worktree}/planted"):
        made = project.look(good, f"touch {path}")
        assert (made.status, "Read-only file system" in made.tail) == (1, True), made
    assert project.look(good, "touch mine && test -e mine && check").proves


@pytest.mark.parametrize("how", ["edited", "added", "removed"])
def test_folder_that_an_agent_changed_proves_nothing(project: Installed, how: str) -> None:
    program = project.worktree / ".venv" / "bin" / "check"
    seen = program.stat()
    if how == "edited":  # as long as before, and with the same times
        program.write_text(program.read_text().replace("exec grep -q", "exit 0; grep"))
        os.utime(program, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    elif how == "added":
        write(project.worktree, {".venv/bin/grep": "#!/bin/sh\nexit 0\n"})
    else:
        (project.worktree / ".venv" / "project").unlink()
        program.write_text("#!/bin/sh\nexit 0\n")
    made = project.look(project.commit({"new.txt": "x\n"}))
    assert made.ok and not made.proves
    finding, shown = found(made)
    assert finding == "unverified" and ".venv changed after the worktree was ready" in shown[0]


def test_caches_of_tools_are_not_taken(project: Installed) -> None:
    write(project.worktree, {".venv/.cache/planted": "x\n"})
    made = project.look(project.commit({"calc.py": GOOD}), "check && ! test -e .venv/.cache/planted")
    assert made.proves, made


def test_folder_without_a_known_state_proves_nothing(project: Installed) -> None:
    project.marks = {}
    made = project.look(project.commit({"calc.py": GOOD}))
    assert made.ok and "was not compared with its state before an agent worked" in found(made)[1][0]


def test_folder_of_the_main_checkout_is_used_if_the_worktree_has_none(project: Installed) -> None:
    run_git(project.worktree, "clean", "-qfdx")
    project.install(project.top)
    made = project.look(project.commit({"calc.py": GOOD}))
    assert made.proves and made.used == (str(project.top / ".venv"),), made
    assert "a - b" in (project.top / "calc.py").read_text(), "the main checkout has the bug"


def test_link_and_missing_folder_are_not_used(project: Installed) -> None:
    good = project.commit({"calc.py": GOOD})
    elsewhere = project.folder / "elsewhere"
    (project.worktree / ".venv").rename(elsewhere)
    made = project.look(good)
    assert made.notes == ("there is no .venv to use",)
    assert made.in_words == "cannot run in a clean checkout: check not found (exit code 127)"
    (project.worktree / ".venv").symlink_to(elsewhere)
    made = project.look(good)
    assert made.lacks == "check" and "is a link or no folder" in made.notes[0]


def test_setup_commands_run_first_in_the_checkout(project: Installed) -> None:
    good = project.commit({"calc.py": GOOD})
    setup = ("echo one > made", "cat .venv/project >> made")
    made = project.look(good, "test $(wc -l < made) = 2 && check", setup=setup)
    assert made.proves, made
    assert not (project.worktree / "made").exists()


def test_failed_setup_is_a_setup_failure_unless_the_branch_broke_it(project: Installed) -> None:
    good = project.commit({"calc.py": GOOD})
    made = project.look(good, setup=("true", "echo no; exit 3"))
    assert found(made) == ("unverified", ("setup failure: its setup `echo no; exit 3` ended with exit code 3",))
    assert made.tail == "no"
    made = project.look(project.commit({"broken.txt": "x\n"}), setup=("! test -e broken.txt",))
    finding, shown = found(made)
    assert finding == "failed_verify" and "at the base the setup passes" in shown[0]


def test_build_file_that_a_setup_runs_is_contested(project: Installed) -> None:
    planted = {"setup.py": "open('.venv-free', 'w')\n", "calc.py": "# a + b\n"}
    made = project.look(project.commit(planted), "test -e .venv-free", setup=("test ! -e setup.py || : > .venv-free",))
    assert made.contested == ("setup.py",) and made.ok and not made.proves


def test_pick_says_that_the_command_cannot_run_in_a_clean_checkout(fleet: Program) -> None:
    made = Made(fleet.home, make_repository(fleet.cwd / "repo"))
    fleet.cwd = made.repo
    for branch in ("one", "two"):
        made.work(branch, {"a.txt": f"{branch}\n"}, id=f"fleet-{branch}")
    result = fleet("pick", "one", "two", "--verify", "frobnicate --all")
    assert result.code == 1 and "frobnicate not found" in result.err
    assert "the verify command cannot run in a clean checkout: frobnicate not found" in result.err
    assert "verify.use" in result.err
    assert "/verify-" not in fleet.ok("receipt", "one"), "nothing was found out about the work"


def test_work_in_a_worktree_is_verified_with_what_its_setup_installed(home: Supervised) -> None:
    repo = make_repository(home.fleet.cwd.parent / "repo")
    home.fleet.cwd = repo
    install = (
        "mkdir -p .venv/bin && touch .venv/pyvenv.cfg && printf 'ls demo-*' > .venv/bin/check && chmod +x .venv/bin/*"
    )
    (repo / ".fleet").mkdir()
    (repo / ".fleet" / "config.toml").write_text(
        f'[setup]\ncommands = ["""{install}"""]\n[verify]\ncommand = "check"\nuse = [".venv"]\n'
    )
    (repo / ".git" / "info" / "exclude").write_text(".venv/\n.fleet/\n")
    home.fleet.ok("trust")
    home.set("coder=demo")
    home.start()
    home.fleet.ok("create", "work", "--headless", "-p", "work")
    home.fleet.ok("wait", "work", "--timeout", "60")
    told = json.loads(home.fleet.ok("receipt", "work", "--json"))
    verify = told["pieces"]["verify"]
    assert (told["finding"], verify["doubts"], len(verify["used"])) == ("verified", [], 1), told
    planted = Path(verify["used"][0]) / "bin" / "check"
    planted.write_text("exit 0\n")
    result = home.fleet("verify", "work")
    assert (result.code, result.out) == (
        1,
        "work: unverified – .venv changed after the worktree was ready: bin/check\n",
    )
