"""Completion of command lines, by a real bash and as zsh and fish request it."""

import subprocess
import sys
from pathlib import Path

import pytest

from builders import a_task
from live_runs import Records, records
from program import Program
from repositories import make_repository, run_git

__all__ = ["records"]

# Calls the completion function as readline does, with the words after the dash-dash, and prints the candidates.
ASK = """
source <(fleet completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
function=$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
$function "$1" "${!#}" "" 2>errors
for each in "${COMPREPLY[@]}"; do printf '%s\\n' "$each"; done
"""


def offered(fleet: Program, *words: str, cwd: Path | None = None) -> list[str]:
    """Return the candidates of bash for the last of these words."""
    env = fleet.env | {"PATH": f"{Path(sys.executable).parent}:{fleet.env['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", *words], env=env, cwd=cwd or fleet.cwd, capture_output=True, timeout=60
    )
    assert done.stderr == b"", done.stderr
    assert ((cwd or fleet.cwd) / "errors").read_bytes() == b"", "somebody is in the midst of typing"
    return done.stdout.decode().split("\n")[:-1]


def asked(fleet: Program, shell: str, line: str, word: str) -> list[str]:
    """Return fleet's answer to the function of another shell. `word` is the last word for fish, else its index."""
    done = fleet(COMP_WORDS=line, COMP_CWORD=word, _FLEET_COMPLETE=f"{shell}_complete")
    assert done.err == ""
    return done.out.splitlines()


@pytest.fixture
def work(records: Records) -> Records:
    """Return a home with agents on branches of two repositories, and a task without a branch."""
    here, there = str(records.fleet.cwd), str(records.fleet.user)
    for number, (branch, repo) in enumerate(
        [("fix-a", here), ("fix-b", here), ("feature/x", here), ("fix-there", there)], 1
    ):
        records.store.tasks.add(
            a_task(id=f"fleet-w{number}", title=f"number {number}", branch=branch, repo=repo, workspace="worktree")
        )
    records.store.tasks.add(a_task(id="fleet-plain", title="no branch"))
    return records


def test_bash_completes_commands_of_both_programs(fleet: Program) -> None:
    assert offered(fleet, "fleet", "compl") == ["completion"]
    assert offered(fleet, "flt", "compl") == ["completion"]
    commands = offered(fleet, "fleet", "")
    assert {"init", "bd", "kill", "completion"} <= set(commands)
    assert offered(fleet, "fleet", "--v") == ["--version"]
    assert not fleet.home.exists(), "asking makes nothing"


def test_bash_completes_options_and_their_choices(fleet: Program) -> None:
    assert offered(fleet, "fleet", "init", "--migr") == ["--migrate-legacy"]
    assert offered(fleet, "fleet", "init", "--type", "r") == ["rails", "rust"]
    assert offered(fleet, "fleet", "completion", "") == ["bash", "zsh", "fish"]


def test_bash_completes_verbs_of_bd_and_then_tasks(work: Records) -> None:
    assert offered(work.fleet, "fleet", "bd", "cr") == ["create"]
    assert offered(work.fleet, "fleet", "bd", "label", "list") == ["list", "list-all"]
    assert offered(work.fleet, "fleet", "bd", "show", "fleet-p") == ["fleet-plain"]


def names(work: Records, incomplete: str, cwd: Path | None = None) -> list[str]:
    return offered(work.fleet, "fleet", "bd", "show", incomplete, cwd=cwd)


def test_names_are_tasks_and_branches_of_the_current_repository(work: Records, tmp_path: Path) -> None:
    deep = work.fleet.cwd / "a" / "b"
    deep.mkdir(parents=True)
    assert sorted(names(work, "fix-", cwd=deep)) == ["fix-a", "fix-b"]
    assert names(work, "fix-", cwd=work.fleet.user) == ["fix-there"]
    assert sorted(names(work, "fix-", cwd=tmp_path)) == ["fix-a", "fix-b", "fix-there"]
    assert names(work, "feature/") == ["feature/x"]
    assert set(names(work, "")) >= {"fix-a", "feature/x", "fleet-plain"}
    assert "fleet-w1" not in names(work, "") and names(work, "fleet-w1") == ["fleet-w1"]


def test_batches_refs_and_settings_are_offered(work: Records) -> None:
    work.store.tasks.add(a_task(id="fleet-w9", branch="fix-z", batch="fanout-z", repo="", workspace="worktree"))
    assert offered(work.fleet, "fleet", "kill", "--batch", "fan") == ["fanout-z"]
    repo = make_repository(work.fleet.cwd / "repo")
    run_git(repo, "branch", "release")
    assert sorted(offered(work.fleet, "fleet", "create", "x", "--base", "", cwd=repo)) == ["main", "release"]
    assert offered(work.fleet, "fleet", "create", "x", "--base", "rel", cwd=repo) == ["release"]
    assert offered(work.fleet, "fleet", "create", "x", "--base", "") == [], "no repository is here"
    assert offered(work.fleet, "fleet", "config", "get", "verify.com") == ["verify.command"]
    assert offered(work.fleet, "fleet", "config", "set", "verify.com") == ["verify.command="]


def test_stopped_tasks_are_offered_only_for_retry(work: Records) -> None:
    work.fleet.ok("kill", "fleet-w1", "fleet-plain")
    assert sorted(offered(work.fleet, "fleet", "retry", "fix-")) == ["fix-a", "fix-b"]
    assert offered(work.fleet, "fleet", "kill", "fix-") == ["fix-b"]


@pytest.mark.parametrize(
    "branch", ["x;reboot", "$(touch pwned)", "`touch pwned`", "a b", "x|y", "x&y", "*", "-rf", "x'y"]
)
def test_branch_name_is_not_offered_when_a_shell_would_interpret_it(records: Records, branch: str) -> None:
    records.store.tasks.add(a_task(id="fleet-1", branch=branch, repo="", workspace="worktree"))
    assert names(records, "") == []
    assert not (records.fleet.cwd / "pwned").exists()


def test_hostile_title_breaks_no_completion(records: Records) -> None:
    records.store.tasks.add(a_task(id="fleet-1", title="one\nplain\nevil\n\x1b[2J," + "x" * 500))
    lines = asked(records.fleet, "zsh", "fleet bd show ", "3")
    assert lines[:2] == ["plain", "fleet-1"] and len(lines) == 3
    assert lines[2].startswith("one⏎plain") and len(lines[2]) <= 60 and "\x1b" not in lines[2]


def test_zsh_and_fish_get_descriptions_of_commands(fleet: Program) -> None:
    lines = asked(fleet, "zsh", "fleet compl", "1")
    assert lines == ["plain", "completion", "Print a shell completion script"]
    [line] = asked(fleet, "fish", "fleet compl", "compl")
    assert line.startswith("plain,completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_serves_both_names_and_names_its_install_path(fleet: Program, shell: str) -> None:
    script = fleet.ok("completion", shell)
    assert script.startswith("# To have it in every new shell, put `") and f"completion {shell}" in script
    registered = {
        "bash": "complete -o nosort -F _fleet_completion fleet flt\n",
        "zsh": "compdef _fleet_completion fleet flt\n",
        "fish": "complete --no-files --command fleet --command flt ",
    }
    assert registered[shell] in script


@pytest.mark.parametrize("words", [["nonsense", ""], ["bd", "show", ""], ["kill", ""], ["init", "--nope", ""]])
def test_completion_prints_nothing_when_it_has_no_candidates(fleet: Program, words: list[str]) -> None:
    assert offered(fleet, "fleet", *words) == []


def test_completion_works_silently_when_the_home_is_broken(records: Records) -> None:
    Path(records.home.database).write_bytes(b"no database" * 1000)
    (records.fleet.home / "runtime.toml").write_text("= broken")
    assert names(records, "") == []
    assert offered(records.fleet, "fleet", "ini") == ["init"]


def test_unknown_shell_is_refused(fleet: Program) -> None:
    assert fleet("completion", "tcsh").code == 2
    assert asked(fleet, "tcsh", "fleet ", "1") == []


def test_command_completion_imports_no_command(fleet: Program) -> None:
    code = "import sys; from fleet.cli.main import call; call([]); print(*sys.modules, file=sys.stderr)"
    fleet.argv = [sys.executable, "-c", code]
    done = fleet(COMP_WORDS="fleet ", COMP_CWORD="1", _FLEET_COMPLETE="bash_complete")
    assert "plain,kill" in done.out
    assert not {"msgspec", "tomlkit", "fleet.cli.init", "fleet.cli.config"} & set(done.err.split())
