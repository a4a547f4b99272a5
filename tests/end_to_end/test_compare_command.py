"""`fleet compare`: two branches side by side."""

import json

import pytest

from program import Program
from receipted import Made
from repositories import commit, make_repository, run_git


@pytest.fixture
def made(fleet: Program) -> Made:
    """Return two tasks that changed one common file and one separate file each."""
    found = Made(fleet.home, make_repository(fleet.cwd / "repo"))
    fleet.cwd = found.repo
    found.work("one", {"file1.txt": "42\n", "a.txt": "x\n"}, id="fleet-one", run={"cost_usd": 0.5})
    found.work("two", {"file1.txt": "43\n43\n", "b.txt": "y\n"}, id="fleet-two", run={"finding": "failed_verify"})
    return found


def test_compare_shows_files_sizes_and_findings_side_by_side(fleet: Program, made: Made) -> None:
    out = fleet.ok("compare", "one", "fleet-two")
    rows = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert "verified" in rows["finding"] and "failed_verify" in rows["finding"]
    assert "a.txt" in rows["files alone"] and "b.txt" in rows["files alone"]
    assert "both touched: file1.txt" in out
    assert "3 files changed" in out and "+43" not in out, "by file unless the lines are asked for"


def test_compare_shows_the_lines_when_patch_is_passed(fleet: Program, made: Made) -> None:
    out = fleet.ok("compare", "one", "two", "--patch")
    assert "-42\n+43\n+43\n" in out


def test_compare_json_has_both_sides(fleet: Program, made: Made) -> None:
    found = json.loads(fleet.ok("compare", "one", "two", "--json"))
    one, two = found["sides"]
    assert (one["finding"], one["files_alone"], one["cost_usd"]) == ("verified", ["a.txt"], 0.5)
    assert (two["task"], two["files_alone"], two["diff"]) == (
        "fleet-two",
        ["b.txt"],
        {"files": 2, "added": 3, "removed": 1},
    )
    assert found["files_both"] == ["file1.txt"] and one["tip"] == made.tip("one")


def test_compare_accepts_a_branch_without_a_task(fleet: Program, made: Made) -> None:
    run_git(made.repo, "switch", "--quiet", "--create", "mine")
    commit(made.repo, "file1.txt", "42\n")
    commit(made.repo, "a.txt", "x\n")
    run_git(made.repo, "switch", "--quiet", "main")
    out = fleet.ok("compare", "one", "mine")
    assert out.endswith("their results are the same\n")
    found = json.loads(fleet.ok("compare", "one", "mine", "--json"))
    assert (found["difference"], found["sides"][1]["task"], found["sides"][1]["base"]) == ("", None, made.base)


def test_compare_refuses_arguments_that_do_not_name_two_branches(fleet: Program, made: Made) -> None:
    for words in (("one", "one"), ("one", "nope"), ("o*", "one")):
        result = fleet("compare", *words)
        assert (result.code, result.out) in ((1, ""), (2, "")) and result.err.startswith("error: "), words
