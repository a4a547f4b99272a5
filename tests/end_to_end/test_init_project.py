"""`fleet init` in a repository: the project file for its type, settings of older files, and refused callers."""

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleet.core.task import Caller
from live_runs import Records, records
from program import Program
from repositories import commit, make_repository, run_git
from terminals import Screen

__all__ = ["records"]

LEGACY = """
repo_root = "~/code/my-project"
worktree_root = "~/.ai_fleet/worktrees"
tmux_prefix = "team_"
default_agent = "codecs"
claude_flags = "--dangerously-skip-permissions --verbose"
credential_files = ["config/master.key"]
setup_commands = ["make deps"]
quick_setup = true
colour = "red"
"""


@pytest.fixture
def repo(fleet: Program) -> Path:
    """Return a repository in which the program runs."""
    return make_repository(fleet.cwd)


def project(repo: Path) -> dict[str, Any]:
    return tomllib.loads((repo / ".fleet" / "config.toml").read_text("utf-8"))


def legacy(fleet: Program, text: str = LEGACY) -> Path:
    file = fleet.user / ".ai_fleet" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    return file


def trusted(fleet: Program, cwd: Path | None = None) -> dict[str, bool]:
    found = json.loads(fleet.ok("trust", "--show", "--json", cwd=cwd))
    return {each["what"]: each["trusted"] for each in found["commands"]}


def test_project_gets_a_file_for_its_type_and_its_commands_are_trusted(fleet: Program, repo: Path) -> None:
    (repo / "package.json").write_text("{}")
    (repo / "pnpm-lock.yaml").write_text("")
    out = fleet.ok("init")
    assert f"Fleet home initialized at {fleet.home}\n" in out and f"Project initialized at {repo}\n" in out
    assert "wrote .fleet/config.toml for a node project" in out and "fleet create" in out
    install = "pnpm install --frozen-lockfile --prefer-offline"
    assert project(repo) == {
        "project": {"name": "work"},
        "setup": {"credential_files": [".env", ".env.local"], "commands": [install]},
    }
    assert (repo / ".fleet" / "config.toml").stat().st_mode & 0o777 == 0o644
    assert trusted(fleet) == {f"setup.commands: {install}": True}
    assert "ok" in fleet.ok("config", "validate")


def test_project_file_is_at_the_top_of_the_repository(fleet: Program, repo: Path) -> None:
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    fleet.ok("init", "--type", "go", cwd=deep)
    assert project(repo)["setup"]["commands"] == ["go mod download"]
    assert not (deep / ".fleet").exists()
    assert fleet.ok("config", "get", "setup.commands", cwd=deep) == '["go mod download"]\n'


def test_worktree_shares_the_trust_of_its_repository(fleet: Program, repo: Path, tmp_path: Path) -> None:
    fleet.ok("init", "--type", "rust")
    run_git(repo, "add", "--all")
    run_git(repo, "commit", "--quiet", "--message=settings")
    run_git(repo, "worktree", "add", "--quiet", str(tmp_path / "other"), "-b", "other")
    assert trusted(fleet, tmp_path / "other") == {"setup.commands: cargo fetch": True}


def test_only_the_home_is_created_when_asked_or_outside_a_repository(fleet: Program, repo: Path) -> None:
    assert "Project" not in fleet.ok("init", "--home")
    assert not (repo / ".fleet").exists()
    assert "Project" not in fleet.ok("init", cwd=fleet.user)
    for args, cwd in ((["--home"], repo), ([], fleet.user)):
        done = fleet("init", "--type", "go", *args, cwd=cwd)
        assert done.code == 2 and "are for a project" in done.err
    assert not (repo / ".fleet").exists()


def test_repository_that_holds_the_home_is_no_project(fleet: Program) -> None:
    make_repository(fleet.user)
    fleet.ok("init", cwd=fleet.user, FLEET_HOME="")
    assert not (fleet.user / ".fleet" / "config.toml").exists()


def test_existing_project_file_is_never_overwritten_without_force(fleet: Program, repo: Path) -> None:
    file = repo / ".fleet" / "config.toml"
    file.parent.mkdir()
    file.write_text('[setup]\ncommands = ["make mine"] # ours\n')
    before = file.read_bytes()
    out = fleet.ok("init", "--type", "node")
    assert "Project initialized" not in out and "nothing for a node project was added to it" in out
    assert "`fleet init --type node --force` rewrites it" in out
    assert ".fleet/config.toml already exists" in out and "not trusted: setup.commands: make mine" in out
    assert file.read_bytes() == before
    assert trusted(fleet) == {"setup.commands: make mine": False}, "it came with the repository"
    home = (fleet.home / "runtime.toml").read_bytes()
    (fleet.home / "runtime.toml").write_bytes(home + b"# mine\n")
    assert "config.toml.bak-1" in fleet.ok("init", "--type", "go", "--force")
    assert file.with_name("config.toml.bak-1").read_bytes() == before
    assert project(repo)["setup"]["commands"] == ["go mod download"]
    assert (fleet.home / "runtime.toml").read_bytes() == home + b"# mine\n", "it is the project that is made anew"


def test_file_of_ai_fleet_is_kept_and_read(fleet: Program, repo: Path) -> None:
    file = repo / ".aifleet" / "config.toml"
    file.parent.mkdir()
    file.write_text('[agent]\ndefault = "codex"\n[ui]\ncolor = true\n[setup]\ncommands = ["make theirs"]\n')
    for force in ([], ["--force"]):
        out = fleet.ok("init", *force)
        assert ".aifleet/config.toml already exists and is used unchanged" in out
    assert not (repo / ".fleet").exists()
    assert fleet.ok("config", "get", "coder") == "codex\n"
    assert f"note: {file}: ui is a setting of ai-fleet that has no effect in fleet\n" in fleet.ok("config", "validate")
    assert trusted(fleet) == {"setup.commands: make theirs": False}


def test_migrate_legacy_takes_over_the_settings_of_ai_fleet(fleet: Program, repo: Path) -> None:
    old = legacy(fleet)
    out = fleet.ok("init", "--migrate-legacy", "--type", "python")
    assert project(repo) == {
        "coder": "codex",
        "project": {"name": "work"},
        "agent": {"claude_flags": "--verbose"},
        "setup": {"credential_files": ["config/master.key"], "commands": ["make deps"], "quick": True},
        "tmux": {"prefix": "team_"},
    }
    for said in (
        "not imported: repo_root, because the project is the current repository; it named another repository",
        "not taken over: project.worktree_root, since fleet keeps worktrees in its home",
        "not taken over: --dangerously-skip-permissions; `fleet init --permissions skip` says it",
        "not taken over: unknown key colour",
        f"{old} is kept as {old}.backup",
    ):
        assert f"note: {said}" in out
    assert old.read_text() == Path(f"{old}.backup").read_text() == LEGACY
    assert set(trusted(fleet).values()) == {True}, "they were the user's own"


def test_migrating_again_keeps_the_project_settings_and_one_copy(fleet: Program, repo: Path) -> None:
    old = legacy(fleet)
    fleet.ok("init", "--type", "go")
    out = fleet.ok("init", "--migrate-legacy")
    assert "note: setup.commands keeps its value in .fleet/config.toml" in out
    assert "added to .fleet/config.toml: coder, agent.claude_flags, setup.quick, tmux.prefix" in out
    held = project(repo)
    assert (held["coder"], held["setup"]["commands"]) == ("codex", ["go mod download"])
    fleet.ok("init", "--migrate-legacy")
    assert project(repo) == held
    old.write_text('tmux_prefix = "new_"\n')
    assert f"{old}.backup-2" in fleet.ok("init", "--migrate-legacy")
    assert Path(f"{old}.backup").read_text() == LEGACY, "a copy is never written over"


def test_commands_of_a_project_file_of_ai_fleet_stay_untrusted_when_migrated(fleet: Program, repo: Path) -> None:
    legacy(fleet)
    (repo / ".aifleet").mkdir()
    (repo / ".aifleet" / "config.toml").write_text('[setup]\ncommands = ["make theirs"]\n')
    out = fleet.ok("init", "--migrate-legacy")
    assert ".aifleet/config.toml is no longer read" in out
    held = project(repo)
    assert (held["setup"]["commands"], held["tmux"]["prefix"]) == (["make theirs"], "team_")
    assert trusted(fleet)["setup.commands: make theirs"] is False, "it came with the repository"


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "does not exist"), ("setup_commands = ", "invalid value"), ('default_agent = "cluade"\n', "")],
)
def test_unusable_legacy_file_is_reported(fleet: Program, repo: Path, text: str | None, said: str) -> None:
    if text is not None:
        legacy(fleet, text)
    done = fleet("init", "--migrate-legacy")
    if said:
        assert done.code == 1 and said in done.err and not (repo / ".fleet").exists()
    else:
        assert done.code == 0 and "not taken over: default_agent, unknown coder 'cluade'" in done.out


def test_init_refuses_to_write_through_a_link(fleet: Program, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repo / ".fleet").symlink_to(tmp_path / "elsewhere")
    done = fleet("init")
    assert done.code == 1 and "is a link" in done.err
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["-x", "a b", 'q"uote', "ünï", "new\nline"])
def test_any_directory_name_gives_a_valid_file(fleet: Program, name: str) -> None:
    repo = make_repository(fleet.cwd / name)
    fleet.ok("init", cwd=repo)
    assert "error" not in fleet.ok("config", "validate", cwd=repo)
    said = project(repo).get("project", {}).get("name")
    assert said == (None if name in ("-x", "new\nline") else name)


def test_init_and_trust_are_refused_when_an_agent_calls(records: Records) -> None:
    repo = make_repository(records.fleet.cwd)
    task = records.create("a task")
    claim, run = records.begin(task)
    token = records.store.tokens.issue(claim, Caller(task_id=task, run_id=run.id, epoch=claim.epoch))
    for words in (["init"], ["init", "--type", "go"], ["trust"]):
        done = records.fleet(*words, FLEET_RUN_TOKEN=token)
        assert done.code == 1 and "an agent may not" in done.err, words
    assert not (repo / ".fleet").exists()
    assert records.store.trust.get("repository", str(repo / ".git")) is None


class Person(NamedTuple):
    """A person at a terminal with 80 columns."""

    fleet: Program

    def at(self, *words: str) -> Screen:
        self.fleet.env["COLUMNS"] = "80"
        return Screen(self, *words)  # type: ignore[arg-type]


def make_checked(repo: Path, recipe: str) -> Path:
    """Commit a Makefile with a test target. Return a file that the target would write outside of its checkout."""
    ran = repo.parent / "ran"
    commit(repo, "Makefile", f"test:\n\t@touch {ran} || true\n\t@{recipe}\n")
    return ran


def test_init_asks_to_try_the_verify_command_that_it_found(fleet: Program, repo: Path) -> None:
    make_checked(repo, "echo 3 passed in 0.1s")
    screen = Person(fleet).at("init", "--permissions", "user", "--no-trust-worktrees")
    screen.wait_for("Found a verify command for this project: `make test`")
    screen.wait_for("Try it now? [Y/n]")
    assert b"Next:" not in screen.seen
    screen.press(b"\n")
    screen.wait_for("`make test` ended with exit code 0 after ")
    screen.wait_for("Use it as the verify command? [Y/n]")
    assert b"Next:" not in screen.seen, "the questions come first"
    screen.press(b"\n")
    assert screen.end() == 0 and b"Next: " in screen.seen
    assert project(repo)["verify"]["command"] == "make test"
    assert trusted(fleet)["verify.command: make test"] is True
    lines = screen.seen.decode().replace("\r\n", "\n").split("\n")
    told = [line.rpartition("\r\x1b[K")[2] for line in lines if " " in line.strip()]
    assert [line for line in told if len(line) > 80] == []


def test_init_proposes_no_command_that_fails(fleet: Program, repo: Path) -> None:
    make_checked(repo, "echo so wrong; exit 1")
    screen = Person(fleet).at("init", "--permissions", "user", "--no-trust-worktrees")
    screen.wait_for("Try it now?")
    screen.press(b"y\n")
    screen.wait_for("so wrong")
    screen.wait_for("Use it as the verify command? [y/N]")
    screen.press(b"\n")
    assert screen.end() == 0 and "verify" not in project(repo)


def test_init_without_a_terminal_tries_nothing_unless_told(fleet: Program, repo: Path) -> None:
    ran = make_checked(repo, "true")
    result = fleet("init")
    assert (result.code, result.err, ran.exists()) == (0, "", False) and "verify" not in project(repo)
    result = fleet("init", "--force", "--try")
    assert result.code == 0 and "`make test` ended with exit code 0" in result.err
    assert "not trusted" not in result.err and trusted(fleet)["verify.command: make test"] is True
    assert project(repo)["verify"]["command"] == "make test"
    fleet.ok("init", "--force", "--verify", "make check")
    assert project(repo)["verify"]["command"] == "make check", "recorded untried"


def test_init_says_what_a_command_lacks_in_a_clean_checkout(fleet: Program, repo: Path) -> None:
    make_checked(repo, "true")
    result = fleet("init", "--try", "--verify", "frobnicate")
    assert "cannot run in a clean checkout: frobnicate not found" in result.err and "verify.use" in result.err
    assert project(repo)["verify"]["command"] == "frobnicate"
