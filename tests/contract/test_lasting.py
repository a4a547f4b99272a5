"""Git processes that are asked again and again: the same answers, whatever befalls them, and nothing stays."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contract.worktree_builders import BRANCH, Scene, write
from fleet.workspaces import diffs, lasting
from fleet.workspaces.git import GitFault
from fleet.workspaces.known import know
from fleet.workspaces.leftovers import commit_leftovers, move_on
from fleet.workspaces.work_done import file_changes
from repositories import commit, run_git


class Told:
    """A scene in which trees of commits are known, as those of runs are."""

    def __init__(self, folder: Path) -> None:
        self.scene = Scene(folder)
        self.view = self.scene.view

    def commit(self, name: str, text: str) -> str:
        made = commit(self.scene.top, name, text)
        know(made, run_git(self.scene.top, "rev-parse", f"{made}^{{tree}}"))
        return made


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


@pytest.fixture
def keeping() -> Iterator[None]:
    with lasting.kept():
        yield
    assert gits() == []


def gits() -> list[int]:
    """The processes of git below this one that are alive."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().split("(", 1)[1].rsplit(")", 1)
        except FileNotFoundError:
            continue
        state, parent, *_ = rest.split()
        found += [int(path.parent.name)] if (name, parent) == ("git", str(os.getpid())) and state != "Z" else []
    return found


def test_differences_are_the_same_with_and_without(told: Told) -> None:
    odd = "a\tb\nend \udcff"
    commits = [told.commit("a", "1\n"), told.commit(odd, "2\n3\n"), told.commit("a", "1\n4\n"), told.commit("b", "\0")]
    pairs = [(one, other) for one in commits for other in commits]
    alone = [file_changes(told.view, *pair) for pair in pairs]
    with lasting.kept():
        assert [file_changes(told.view, *pair) for pair in pairs] == alone
        assert len(gits()) == 1
    assert gits() == []


def test_many_threads_each_get_their_own_answer(told: Told, keeping: None) -> None:
    commits = [told.commit(f"f{number}", f"{number}\n" * number) for number in range(1, 9)]
    pairs = [(commits[0], other) for other in commits] * 10
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: file_changes(told.view, *pair), pairs))
    assert [len(each) for each in found] == [number for _ in range(10) for number in range(8)]


def test_one_that_was_killed_is_started_anew(told: Told, keeping: None) -> None:
    one, two = told.commit("a", "1\n"), told.commit("a", "2\n")
    assert len(file_changes(told.view, one, two)) == 1
    (git,) = gits()
    os.kill(git, signal.SIGKILL)
    assert len(file_changes(told.view, one, two)) == 1


def test_what_git_cannot_answer_is_a_fault_and_the_next_is_answered(told: Told, keeping: None) -> None:
    one, two = told.commit("a", "1\n"), told.commit("a", "2\n")
    know("f" * 40, "e" * 40)
    with pytest.raises(GitFault):
        file_changes(told.view, one, "f" * 40)
    assert len(file_changes(told.view, one, two)) == 1


def test_a_difference_that_is_too_long_is_cut(told: Told, keeping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one = told.commit("a", "1\n")
    two = told.commit("n" * 200, "2\n")
    monkeypatch.setattr(diffs, "MOST_BYTES", 100)
    assert diffs.rows(told.view, one, two, "--raw").endswith(diffs.CUT)
    monkeypatch.undo()
    assert len(file_changes(told.view, one, two)) == 1


def test_branches_are_moved_by_one_process_with_their_logs(told: Told, keeping: None) -> None:
    scene = told.scene
    for number in range(3):
        write(scene.work / "file1.txt", f"change {number}")
        left = commit_leftovers(scene.home, scene.view, scene.place(), scene.index_file, f"left {number}")
        assert left.commit == scene.tip() and left.why_not == ""
    assert len(gits()) == 1
    said = run_git(scene.top, "reflog", "show", "--format=%gs", BRANCH).splitlines()
    assert said[:3] == ["fleet: what was left"] * 3
    run_git(scene.top, "fsck", "--strict")


def test_a_branch_that_is_elsewhere_is_not_moved_and_no_lock_stays(told: Told, keeping: None) -> None:
    scene = told.scene
    one, two = told.commit("a", "1\n"), told.commit("a", "2\n")
    with pytest.raises(GitFault):
        move_on(scene.view, BRANCH, two, one)
    assert scene.tip() == scene.base
    move_on(scene.view, BRANCH, two, scene.base)
    assert scene.tip() == two
    assert not list(scene.top.glob(".git/refs/**/*.lock"))


def test_those_that_nobody_asks_end(told: Told, keeping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = told.commit("a", "1\n"), told.commit("a", "2\n")
    file_changes(told.view, one, two)
    lasting.tidy()
    assert len(gits()) == 1
    monkeypatch.setattr(lasting, "IDLE_SECONDS", 0.0)
    lasting.tidy()
    assert gits() == []


def test_there_are_never_too_many(told: Told, keeping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = told.commit("a", "1\n"), told.commit("a", "2\n")
    monkeypatch.setattr(lasting, "MOST", 1)
    for _ in range(2):
        file_changes(told.view, one, two)
        assert b"a" in diffs.rows(told.view, one, two, "--name-only")
        assert len(gits()) == 1
