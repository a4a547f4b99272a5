"""Branches that change the rules of their own judgment: they are merged only if a person says so."""

import pytest

from fleet.core.filter import Filter
from merges import Merges, branch_with, left_out, merged
from program import Program
from repositories import run_git

WEAK = '[verify]\ncommand = "true"\n[findings]\nfailed_verify = "close"\n'
FILES = (".fleet/config.toml", ".aifleet/config.toml", "lib/.Fleet/CONFIG.toml", ".fleet")


@pytest.fixture
def home(fleet: Program) -> Merges:
    return Merges(fleet)


def test_verified_branch_that_changes_its_rules_is_merged_only_if_a_person_says_so(home: Merges) -> None:
    bad = [home.work(f"weak-{number}", {file: WEAK}, batch="night") for number, file in enumerate(FILES)]
    bad.append(home.work("breaks", {"broken": "x\n", ".fleet/config.toml": WEAK}, batch="night"))
    good = home.work("good", batch="night")
    config = (home.repo / ".fleet" / "config.toml").read_text()

    told = home.merge("night", "--yes", "--dry-run")
    assert merged(told) == [good]
    told = home.merge("night", "--yes", "--unverified")
    assert merged(told) == [good]
    why = left_out(told)
    for task, file in zip(bad, FILES, strict=False):
        assert f"it changes {file}, which decides how work is judged" in why[task], why
        assert "name it and pass --unverified" in why[task]
    assert (home.repo / ".fleet" / "config.toml").read_text() == config

    picked = home.fleet("pick", "weak-2", "good", "--merge", "--json")
    assert "weak-2" not in str(home.tip()) and ".Fleet" not in str(home.files()), picked
    assert not merged(home.merge(bad[-1], "--unverified")), "its own rules do not judge it"
    assert merged(home.merge(bad[2], "--unverified")) == [bad[2]]


def test_branch_whose_base_has_other_rules_than_the_target_is_merged(home: Merges) -> None:
    run_git(home.repo, "branch", "older")
    branch_with(home.repo, "main", {"lib/.fleet/config.toml": WEAK})
    run_git(home.repo, "reset", "--quiet", "--hard", "main")
    task = home.work("work", on="older")
    assert merged(home.merge(task)) == [task]


def test_branch_based_on_weakened_tests_is_merged_only_if_a_person_says_so(home: Merges) -> None:
    """Its receipt says verified, because it was compared with its own base, which another task had weakened."""
    branch_with(home.repo, "main", {"tests/wanted": "good", "code": "good"})
    run_git(home.repo, "reset", "--quiet", "--hard", "main")
    home.settle(verify="cat code; diff tests/wanted code")
    branch_with(home.repo, "weakens", {"tests/wanted": "bad", "code": "bad"})
    task = home.work("child", on="weakens")
    told = home.merge(task)
    assert not merged(told) and "passes only with changed tests: tests/wanted" in str(told), told
    stricter = home.work("stricter", {"tests/more": "x"})
    assert merged(home.merge(stricter)) == [stricter], "new tests are not contested"
    assert merged(home.merge(task, "--unverified")) == [task]


def test_conflict_task_is_not_judged_by_a_command_that_an_agent_chose(home: Merges) -> None:
    home.fleet.ok("init", "--home", "--permissions", "user")
    home.fleet.ok("config", "set", "coder=demo")
    home.work("one", {"file1.txt": "one\n"})
    home.work("agents", {"file1.txt": "two\n"}, made_by="fleet-x", verify="true")
    home.work("persons", {"file1.txt": "three\n"}, verify="test -e file1.txt")
    home.merge("one", "agents", "persons", "--conflicts", "agent")
    home.fleet("run", "stop", "--stop-agents")
    with home.open() as fleet:
        made = {
            task.branch: task.verify for task in fleet.store.tasks.find(Filter(), sort="id") if task.origin == "merge"
        }
    assert made == {"merge/agents": "", "merge/persons": "test -e file1.txt"}
