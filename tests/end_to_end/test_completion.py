"""Completion of command lines: by a real bash, and as zsh and fish ask for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from builders import a_task
from live_runs import Records, records
from program import Program

__all__ = ["records"]

# Calls the function as readline would, with the words after the dash-dash, and prints what it would offer.
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
    """What bash offers for the last of these words."""
    env = fleet.env | {"PATH": f"{Path(sys.executable).parent}:{fleet.env['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", *words], env=env, cwd=cwd or fleet.cwd, capture_output=True, timeout=60
    )
    assert done.stderr == b"", done.stderr
    assert ((cwd or fleet.cwd) / "errors").read_bytes() == b"", "somebody is in the midst of typing"
    return done.stdout.decode().split("\n")[:-1]


def asked(fleet: Program, shell: str, line: str, word: str) -> list[str]:
    """What fleet answers to the function of another shell; `word` is the last one, for fish, or its number."""
    done = fleet(COMP_WORDS=line, COMP_CWORD=word, _FLEET_COMPLETE=f"{shell}_complete")
    assert done.err == ""
    return done.out.splitlines()


@pytest.fixture
def work(records: Records) -> Records:
    """A home with agents on branches of two repositories, and a task without a branch."""
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


def test_bash_completes_the_verbs_of_bd_and_then_tasks(work: Records) -> None:
    assert offered(work.fleet, "fleet", "bd", "cr") == ["create"]
    assert offered(work.fleet, "fleet", "bd", "label", "list") == ["list", "list-all"]
    assert offered(work.fleet, "fleet", "bd", "show", "fleet-p") == ["fleet-plain"]


def names(work: Records, incomplete: str, cwd: Path | None = None) -> list[str]:
    return offered(work.fleet, "fleet", "bd", "show", incomplete, cwd=cwd)


def test_names_are_branches_of_the_repository_one_is_in_and_tasks(work: Records, tmp_path: Path) -> None:
    deep = work.fleet.cwd / "a" / "b"
    deep.mkdir(parents=True)
    assert sorted(names(work, "fix-", cwd=deep)) == ["fix-a", "fix-b"]
    assert names(work, "fix-", cwd=work.fleet.user) == ["fix-there"]
    assert sorted(names(work, "fix-", cwd=tmp_path)) == ["fix-a", "fix-b", "fix-there"]
    assert names(work, "feature/") == ["feature/x"]
    assert set(names(work, "")) >= {"fix-a", "feature/x", "fleet-plain"}
    assert "fleet-w1" not in names(work, "") and names(work, "fleet-w1") == ["fleet-w1"]


def test_stopped_tasks_are_offered_only_to_those_who_retry(work: Records) -> None:
    work.fleet.ok("kill", "fleet-w1", "fleet-plain")
    assert sorted(offered(work.fleet, "fleet", "retry", "fix-")) == ["fix-a", "fix-b"]
    assert offered(work.fleet, "fleet", "kill", "fix-") == ["fix-b"]


@pytest.mark.parametrize(
    "branch", ["x;reboot", "$(touch pwned)", "`touch pwned`", "a b", "x|y", "x&y", "*", "-rf", "x'y"]
)
def test_a_name_that_a_shell_would_obey_is_not_offered(records: Records, branch: str) -> None:
    records.store.tasks.add(a_task(id="fleet-1", branch=branch, repo="", workspace="worktree"))
    assert names(records, "") == []
    assert not (records.fleet.cwd / "pwned").exists()


def test_a_hostile_title_breaks_no_answer(records: Records) -> None:
    records.store.tasks.add(a_task(id="fleet-1", title="one\nplain\nevil\n\x1b[2J," + "x" * 500))
    lines = asked(records.fleet, "zsh", "fleet bd show ", "3")
    assert lines[:2] == ["plain", "fleet-1"] and len(lines) == 3
    assert lines[2].startswith("one⏎plain") and len(lines[2]) <= 60 and "\x1b" not in lines[2]


def test_zsh_and_fish_are_told_what_commands_do(fleet: Program) -> None:
    lines = asked(fleet, "zsh", "fleet compl", "1")
    assert lines == ["plain", "completion", "print the script that completes command lines in a shell"]
    [line] = asked(fleet, "fish", "fleet compl", "compl")
    assert line.startswith("plain,completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_serves_both_names_and_says_where_it_belongs(fleet: Program, shell: str) -> None:
    script = fleet.ok("completion", shell)
    assert script.startswith("# To have it in every new shell, put `") and f"completion {shell}" in script
    registered = {
        "bash": "complete -o nosort -F _fleet_completion fleet flt\n",
        "zsh": "compdef _fleet_completion fleet flt\n",
        "fish": "complete --no-files --command fleet --command flt ",
    }
    assert registered[shell] in script


@pytest.mark.parametrize("words", [["nonsense", ""], ["bd", "show", ""], ["kill", ""], ["init", "--nope", ""]])
def test_where_nothing_can_be_offered_nothing_is_said(fleet: Program, words: list[str]) -> None:
    assert offered(fleet, "fleet", *words) == []


def test_a_broken_home_is_not_complained_about(records: Records) -> None:
    Path(records.home.database).write_bytes(b"no database" * 1000)
    (records.fleet.home / "runtime.toml").write_text("= broken")
    assert names(records, "") == []
    assert offered(records.fleet, "fleet", "ini") == ["init"]


def test_an_unknown_shell_is_refused_and_an_unknown_question_is_not_answered(fleet: Program) -> None:
    assert fleet("completion", "tcsh").code == 2
    assert asked(fleet, "tcsh", "fleet ", "1") == []


def test_the_commands_are_offered_without_importing_them(fleet: Program) -> None:
    code = "import sys; from fleet.cli.main import call; call([]); print(*sys.modules, file=sys.stderr)"
    fleet.argv = [sys.executable, "-c", code]
    done = fleet(COMP_WORDS="fleet ", COMP_CWORD="1", _FLEET_COMPLETE="bash_complete")
    assert "plain,kill" in done.out
    assert not {"msgspec", "tomlkit", "fleet.cli.init", "fleet.cli.config"} & set(done.err.split())
