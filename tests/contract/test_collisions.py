"""Colliding branches in real repositories: each pair once, nothing left in the repository, and always an end."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.branch_yard import Yard, write
from fleet.git.merge import collisions
from fleet.git.merge.collisions import BranchState
from repositories import commit, run_git


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return a list that collects the arguments of each later git."""
    real, seen = collisions._git, list[tuple[str, ...]]()

    def counted(view: object, *words: str, **more: object) -> object:
        seen.append(words)
        return real(view, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(collisions, "_git", counted)
    return seen


def merges(tries: list[tuple[str, ...]]) -> int:
    return sum("merge-tree" in words for words in tries)


def move(name: str, to: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        (top / to).parent.mkdir(parents=True, exist_ok=True)
        (top / name).rename(top / to)

    return change


def remove(name: str) -> Callable[[Path], object]:
    return lambda top: (top / name).unlink()


def test_conflicting_changes_of_one_line_collide_and_name_the_file(yard: Yard) -> None:
    first = yard.grow("first", write("file1.txt", "one way\n"))
    second = yard.grow("second", write("file1.txt", "another\n"))
    assert yard.clashes(first, second) == [("first", "second", ("file1.txt",))]
    assert yard.clashes(second, first) == [("second", "first", ("file1.txt",))], "the earlier comes first"


def test_changes_in_different_places_of_a_file_do_not_collide(yard: Yard) -> None:
    commit(yard.top, "long.txt", "".join(f"line {number}\n" for number in range(30)))
    text = (yard.top / "long.txt").read_text()
    first = yard.grow("first", write("long.txt", text.replace("line 2\n", "changed\n")))
    second = yard.grow("second", write("long.txt", text.replace("line 25\n", "changed\n")))
    assert yard.clashes(first, second) == []


def test_identical_changes_do_not_collide(yard: Yard) -> None:
    first, second = (yard.grow(name, write("file1.txt", "the same\n")) for name in ("first", "second"))
    assert yard.clashes(first, second) == []


@pytest.mark.parametrize(
    ("one", "two", "named"),
    [
        (write("file1.txt", "changed\n"), remove("file1.txt"), "file1.txt"),
        (write("new.txt", "mine\n"), write("new.txt", "yours\n"), "new.txt"),
        (write("place", "a file\n"), write("place/inner.txt", "in a folder\n"), "place"),
        (move("file1.txt", "here.txt"), move("file1.txt", "there.txt"), "here.txt"),
        (write("ünï\tcode\n.txt", "mine\n"), write("ünï\tcode\n.txt", "yours\n"), "ünï\tcode\n.txt"),
    ],
    ids=["changed and removed", "both new", "file and folder", "renamed twice", "odd names"],
)
def test_each_kind_of_conflict_is_found(
    yard: Yard, one: Callable[[Path], object], two: Callable[[Path], object], named: str
) -> None:
    ((_, _, files),) = yard.clashes(yard.grow("first", one), yard.grow("second", two))
    assert any(path.startswith(named) for path in files)


def test_conflict_is_found_when_a_file_is_added_to_a_renamed_folder(yard: Yard) -> None:
    for number in range(4):
        commit(yard.top, f"old/{number}.txt", f"some text that is known again {number}\n" * 5)
    first = yard.grow("first", lambda top: (top / "old").rename(top / "new"))
    second = yard.grow("second", write("old/5.txt", "and another\n"))
    ((_, _, files),) = yard.clashes(first, second)
    assert any("5.txt" in path for path in files)


def test_branches_are_not_merged_when_they_change_different_files(yard: Yard, tries: list[tuple[str, ...]]) -> None:
    branches = [yard.grow(f"b{number}", write(f"dir/new{number}.txt", "x\n")) for number in range(6)]
    assert yard.clashes(*branches) == []
    assert merges(tries) == 0 and len(tries) == 6, "what each changed was asked once"
    assert yard.clashes(*branches) == []
    assert len(tries) == 6, "nothing moved, and git is not asked again"


def test_only_pairs_with_a_moved_branch_are_tried_again(yard: Yard, tries: list[tuple[str, ...]]) -> None:
    branches = [yard.grow(f"b{number}", write("file1.txt", f"{number}\n")) for number in range(4)]
    assert len(yard.clashes(*branches)) == 6 and merges(tries) == 6
    branches[2] = yard.grow("b2", write("file1.txt", "text of file 1\n"))
    assert len(yard.clashes(*branches)) == 3, "it took its change back"
    assert merges(tries) == 6, "and changes nothing now"
    branches[2] = yard.grow("b2", write("file1.txt", "again\n"))
    assert len(yard.clashes(*branches)) == 6 and merges(tries) == 9


def test_branch_without_commits_or_based_on_another_collides_with_none(
    yard: Yard, tries: list[tuple[str, ...]]
) -> None:
    first = yard.grow("first", write("file1.txt", "one way\n"))
    onto = yard.grow("onto", write("file1.txt", "one way, and on\n"), base="first")
    assert yard.clashes(first, BranchState("new", yard.base, yard.base), onto) == []
    assert not [words for words in tries if words[-2:] == (yard.base, yard.base)], "what has no commit is not looked at"


def test_changes_of_main_between_two_bases_are_no_collision(yard: Yard) -> None:
    first = yard.grow("first", lambda top: (write("file1.txt", "a\n")(top), write("file2.txt", "a\n")(top)))
    commit(yard.top, "file1.txt", "main went on\n")
    second = yard.grow("second", write("file3.txt", "b\n"))
    assert yard.clashes(first, second) == []
    second = yard.grow("second", write("file2.txt", "b\n"))
    assert yard.clashes(first, second) == [("first", "second", ("file2.txt",))]
    second = yard.grow("second", write("file1.txt", "and this too\n"))
    assert yard.clashes(first, second) == [("first", "second", ("file1.txt", "file2.txt"))]


def test_branches_without_a_common_base_are_skipped(yard: Yard) -> None:
    first = yard.grow("first", write("file1.txt", "one way\n"))
    empty = run_git(yard.top, "mktree")
    stray = run_git(yard.top, "commit-tree", empty, "-m", "nobody's child")
    assert yard.clashes(first, BranchState("stray", stray, yard.base), BranchState("gone", "1" * 40, yard.base)) == []


def test_collision_check_leaves_nothing_in_the_repository(yard: Yard) -> None:
    first = yard.grow("first", write("file1.txt", "one way\n"))
    second = yard.grow("second", write("file1.txt", "another\n"))
    before = files_below(yard.top / ".git")
    assert yard.clashes(first, second)
    assert files_below(yard.top / ".git") == before
    assert not list(Path(yard.view.path).glob("radar-*"))


def test_leftovers_of_a_killed_check_are_deleted_after_an_hour(yard: Yard) -> None:
    yard.view.make()
    old, new = Path(yard.view.path, "radar-old"), Path(yard.view.path, "radar-new")
    for place in (old, new):
        (place / "ab").mkdir(parents=True)
    os.utime(old, (time.time() - 7200,) * 2)
    yard.clashes(yard.grow("first", write("file1.txt", "one way\n")))
    assert not old.exists() and new.exists()


def test_next_check_continues_when_one_runs_out_of_time(yard: Yard, tries: list[tuple[str, ...]]) -> None:
    branches = [yard.grow(f"b{number}", write("file1.txt", f"{number}\n")) for number in range(4)]
    first = yard.collider.look(branches, most=2, seconds=600)
    assert (len(first.clashes), first.is_complete, merges(tries)) == (2, False, 2)
    second = yard.collider.look(branches, most=2, seconds=600)
    assert (len(second.clashes), second.is_complete, merges(tries)) == (4, False, 4)
    third = yard.collider.look(branches, most=2, seconds=600)
    assert (len(third.clashes), third.is_complete, merges(tries)) == (6, True, 6)
    assert not yard.collider.look([branches[0], yard.grow("b1", write("file2.txt", "x\n"))], seconds=-1).is_complete


def test_known_collision_stays_when_its_pair_is_not_tried_again(yard: Yard) -> None:
    first = yard.grow("first", write("file1.txt", "one way\n"))
    second = yard.grow("second", write("file1.txt", "another\n"))
    yard.collider.look([first, second])
    second = yard.grow("second", write("file2.txt", "more\n"))
    found = yard.collider.look([first, second], most=0)
    assert not found.is_complete and [each.files for each in found.clashes] == [("file1.txt",)]


def test_branch_with_too_many_changes_is_tried_with_every_other(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collisions, "MOST_CHANGED", 2)
    many = {f"a{number}.txt": "x\n" for number in range(5)} | {"z.txt": "mine\n"}
    first = yard.grow("first", lambda top: [write(name, text)(top) for name, text in many.items()])
    second = yard.grow("second", write("z.txt", "yours\n"))
    assert yard.clashes(first, second) == [("first", "second", ("z.txt",))]


def test_git_is_ended_when_it_takes_too_long(yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = yard.grow("first", write("file1.txt", "one way\n"))
    second = yard.grow("second", write("file1.txt", "another\n"))
    yard.view.make()
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(collisions, "PAIR_SECONDS", 0.1)
    assert yard.clashes(first, second) == []


def test_collision_check_obeys_no_driver_or_setting_of_the_repository(yard: Yard, tmp_path: Path) -> None:
    seen = tmp_path / "driven"
    run_git(yard.top, "config", "merge.evil.driver", f"touch {seen}; true")
    (yard.top / ".git" / "info").mkdir(exist_ok=True)
    (yard.top / ".git" / "info" / "attributes").write_text("* merge=evil\n")
    first = yard.grow(
        "first", lambda top: (write("file1.txt", "a\n")(top), write(".gitattributes", "* merge=evil\n")(top))
    )
    second = yard.grow("second", write("file1.txt", "b\n"))
    assert yard.clashes(first, second) == [("first", "second", ("file1.txt",))]
    assert not seen.exists()


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
