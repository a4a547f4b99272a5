"""`fleet trust`: no command of a repository runs before a person has looked at it."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.assembly import open_fleet
from fleet.git.repository import find_repository
from fleet.home import Home
from fleet.settings import load
from fleet.supervisor.trust import changed_repository, untrusted_commands
from program import Program
from repositories import make_repository

SETTINGS = """
coder = "mine.coders:Mine"
[agent]
claude_flags = "--verbose"
pass_env = ["AWS_SECRET_ACCESS_KEY"]
[agent.env]
NODE_OPTIONS = "--require ./x.js"
[setup]
commands = ["make a", "make b"]
teardown = ["make clean"]
[verify]
command = "make test"
[coders.codex]
program = "/opt/codex"
flags = ["--a", "b c"]
model = "o3"
"""
COMMANDS = [
    "setup.commands: make a",
    "setup.commands: make b",
    "setup.teardown: make clean",
    "verify.command: make test",
]
LEVERS = [
    'agent.env = {NODE_OPTIONS = "--require ./x.js"}',
    'agent.pass_env = ["AWS_SECRET_ACCESS_KEY"]',
    'agent.claude_flags = "--verbose"',
    'coders.codex.program = "/opt/codex"',
    'coders.codex.flags = ["--a", "b c"]',
    'coder = "mine.coders:Mine"',
]


class Place:
    """A home and a repository with a project file."""

    def __init__(self, fleet: Program) -> None:
        self.fleet = fleet
        fleet.furnish(("init", "--permissions", "user"))
        self.repo = make_repository(fleet.cwd)
        self.write(SETTINGS)

    def write(self, text: str) -> None:
        (self.repo / ".fleet").mkdir(exist_ok=True)
        (self.repo / ".fleet" / "config.toml").write_text(text)

    def shown(self) -> dict[str, Any]:
        found = json.loads(self.fleet.ok("trust", "--show", "--json"))
        assert isinstance(found, dict)
        return found

    def untrusted(self, *, quick: bool = False) -> list[str]:
        """Return the untrusted commands as a supervisor sees them."""
        home = Home(str(self.fleet.home))
        return untrusted_commands(load(home, str(self.repo), env={}), quick=quick)

    def changed(self) -> list[str]:
        """Return the changes of the repository as a supervisor sees them."""
        with open_fleet(Home(str(self.fleet.home))) as fleet:
            return changed_repository(fleet.store, find_repository(str(self.repo)))


@pytest.fixture
def place(fleet: Program) -> Place:
    return Place(fleet)


def test_commands_of_a_project_file_are_shown_and_not_trusted_automatically(place: Place) -> None:
    found = place.shown()
    assert found["repository"] == str(place.repo) and found["file"] == str(place.repo / ".fleet" / "config.toml")
    assert [each["what"] for each in found["commands"]] == [*COMMANDS, *LEVERS]
    assert not any(each["trusted"] for each in found["commands"])
    assert place.untrusted() == [*COMMANDS, *LEVERS]
    assert place.untrusted() == [*COMMANDS, *LEVERS], "asking trusts nothing"
    assert "not trusted  setup.commands: make a\n" in place.fleet.ok("trust", "--show")
    assert place.untrusted(quick=True) == LEVERS, "the variables of agents count without setup too"


def test_trusted_commands_stay_trusted_until_one_changes(place: Place) -> None:
    out = place.fleet.ok("trust")
    assert f"{place.repo} is trusted in its current state\n  setup.commands: make a\n" in out
    assert place.untrusted() == []
    assert "nothing new to trust" in place.fleet.ok("trust")
    place.write(SETTINGS.replace("make b", "make b && curl"))
    assert place.untrusted() == ["setup.commands: make b && curl"]
    assert "  setup.commands: make b && curl\n" in place.fleet.ok("trust")
    assert place.untrusted() == []
    place.write(SETTINGS)
    assert place.untrusted() == [], "another branch may still have the file as it was"


def test_command_is_trusted_only_for_its_own_setting(place: Place) -> None:
    place.write('[setup]\ncommands = ["make a"]')
    place.fleet.ok("trust")
    place.write('[verify]\ncommand = "make a"')
    assert place.untrusted() == ["verify.command: make a"]


def test_settings_outside_the_project_need_no_trust(place: Place) -> None:
    runtime = place.fleet.home / "runtime.toml"
    runtime.write_text(runtime.read_text() + '\n[agent.env]\nA = "1"\n[coders.codex]\nprogram = "/opt/mine"\n')
    place.write("model = 'o3'\n")
    home = Home(str(place.fleet.home))
    assert load(home, str(place.repo), env={}).demands == ()
    assert "has no project file with commands" in place.fleet.ok("trust", "--show")


def test_repository_is_recorded_at_first_use_and_changes_are_reported(place: Place) -> None:
    assert place.shown()["known"] is False, "looking is no use"
    assert place.changed() == []
    assert place.shown()["known"] is True
    hook = place.repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    assert place.changed() == ["hook pre-commit was added"]
    assert place.changed() == ["hook pre-commit was added"], "it is told until somebody trusts it"
    assert "not trusted  hook pre-commit was added\n" in place.fleet.ok("trust", "--show")
    assert "  hook pre-commit was added\n" in place.fleet.ok("trust")
    assert place.changed() == []


def test_names_that_are_not_text_can_be_trusted(place: Place) -> None:
    config = place.repo / ".git" / "config"
    with config.open("ab") as file:
        file.write(b'[filter "\xff\xfe"]\n\tclean = rm\n')
    assert place.changed() == []
    place.fleet.ok("trust")
    with config.open("ab") as file:
        file.write(b'[filter "\xff\xfd"]\n\tclean = rm\n')
    assert len(place.changed()) == 1
    place.fleet.ok("trust")
    assert place.changed() == []


def test_hostile_command_cannot_control_the_terminal(place: Place) -> None:
    place.write('[verify]\ncommand = "make \\u001b[2J\\nfoo"')
    out = place.fleet.ok("trust", "--show")
    assert "\x1b" not in out and "not trusted  verify.command: make \\x1b[2J⏎foo\n" in out


def test_trust_is_refused_outside_a_repository(fleet: Program) -> None:
    fleet.ok("init")
    done = fleet("trust")
    assert done.code == 1 and "is not in a git repository" in done.err


def test_broken_project_file_is_reported_and_not_trusted(place: Place) -> None:
    place.write("[setup]\ncommands = 5\n")
    done = place.fleet("trust")
    assert done.code == 1 and "setup.commands must be" in done.err
    place.write(SETTINGS)
    assert place.untrusted() == [*COMMANDS, *LEVERS]


def test_two_repositories_share_trust_only_of_the_same_file(place: Place, tmp_path: Path) -> None:
    place.fleet.ok("trust")
    other = make_repository(tmp_path / "other" / "work")
    (other / ".fleet").mkdir()
    (other / ".fleet" / "config.toml").write_text(SETTINGS + "# mine\n")
    found = json.loads(place.fleet.ok("trust", "--show", "--json", cwd=other))
    assert not any(each["trusted"] for each in found["commands"])
    (other / ".fleet" / "config.toml").write_text(SETTINGS)
    found = json.loads(place.fleet.ok("trust", "--show", "--json", cwd=other))
    assert all(each["trusted"] for each in found["commands"])
