"""The tree that is written of an index is the one that git writes; what is not plain is left to git."""

import random
from pathlib import Path

import pytest

from fleet.home import Home
from fleet.workspaces.index_tree import LARGEST, tree_of_index, write_tree
from fleet.workspaces.repository import find_repository
from fleet.workspaces.view import View
from repositories import make_repository, run_git

#: Names whose order differs by whether they are folders.
NAMES = ("a", "a-b", "a.b", "a0", "ab", "b", "ä ö", "z\n", "TREE")


class Yard:
    """A repository, its index, and fleet's view of it."""

    def __init__(self, folder: Path) -> None:
        self.top = make_repository(folder / "repo")
        self.view = View(Home(str(folder / "home")), find_repository(str(self.top)))
        self.index = self.top / ".git" / "index"

    def put(self, name: str, text: str) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        run_git(self.top, "update-index", "--add", "--replace", "--", name)

    def written(self) -> str:
        return write_tree(self.view, str(self.index))


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_any_index_becomes_the_tree_that_git_makes_of_it(yard: Yard, seed: int) -> None:
    chance = random.Random(seed)
    for step in range(12):
        depth = chance.randint(1, 4)
        name = "/".join(chance.choice(NAMES) + "d" for _ in range(depth - 1))
        yard.put(f"{name}/{chance.choice(NAMES)}" if name else chance.choice(NAMES), str(step))
        assert tree_of_index(str(yard.index)) == "", "git has not noted it yet"
        found = yard.written()
        if chance.random() < 0.5:  # the next one finds notes of some folders
            assert run_git(yard.top, "write-tree") == found
    assert run_git(yard.top, "write-tree") == found
    assert run_git(yard.top, "fsck", "--strict", "--no-dangling") == ""


def test_modes_links_and_what_is_gone_are_in_it(yard: Yard) -> None:
    (yard.top / "run.sh").write_text("#!/bin/sh\n")
    (yard.top / "run.sh").chmod(0o755)
    (yard.top / "link").symlink_to("file1.txt")
    run_git(yard.top, "add", "run.sh", "link")
    run_git(yard.top, "rm", "--quiet", "file2.txt")
    head = run_git(yard.top, "rev-parse", "HEAD")
    run_git(yard.top, "update-index", "--add", "--cacheinfo", f"160000,{head},sub/module")
    found = yard.written()
    assert found == run_git(yard.top, "write-tree")


def test_what_is_not_plain_is_left_to_git(yard: Yard) -> None:
    yard.put("new", "new")
    assert yard.written()
    run_git(yard.top, "update-index", "--assume-unchanged", "new")
    assert yard.written() == ""
    run_git(yard.top, "update-index", "--no-assume-unchanged", "--index-version=4")
    assert yard.written() == ""
    run_git(yard.top, "update-index", "--index-version=2")
    made = run_git(yard.top, "hash-object", "-w", "--stdin", stdin=b"x")
    run_git(yard.top, "update-index", "--index-info", stdin=f"100644 {made} 1\tboth\n100644 {made} 2\tboth\n".encode())
    assert yard.written() == ""


def test_a_large_or_broken_one_is_left_to_git(yard: Yard) -> None:
    for number in range(3):
        yard.put(f"{number}", "x")
    whole = yard.index.read_bytes()
    for cut in (0, 11, 40, 100, len(whole) - 30):
        yard.index.write_bytes(whole[:cut])
        assert yard.written() == ""
    yard.index.write_bytes(whole + bytes(LARGEST))
    assert yard.written() == ""


def test_an_empty_one_is_left_to_git(yard: Yard) -> None:
    run_git(yard.top, "rm", "--quiet", "-r", ".")
    assert yard.written() == ""
