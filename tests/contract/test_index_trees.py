"""The tree that an index says it is of is the one that git makes of it; an index that does not say is left to git."""

import random
from pathlib import Path

import pytest

from fleet.workspaces.index_tree import tree_of_index
from repositories import make_repository, run_git

#: Names whose order differs by whether they are folders, and one that looks like the mark of the notes.
NAMES = ("a", "a-b", "a.b", "a0", "ab", "b", "ä ö", "z\n", "TREE")


class Yard:
    """A repository and its index."""

    def __init__(self, folder: Path) -> None:
        self.top = make_repository(folder / "repo")
        self.index = self.top / ".git" / "index"

    def put(self, name: str, text: str) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        run_git(self.top, "update-index", "--add", "--replace", "--", name)

    def noted(self) -> str:
        return tree_of_index(str(self.index))


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_index_tells_its_tree_when_git_has_noted_it(yard: Yard, seed: int) -> None:
    chance = random.Random(seed)
    for step in range(8):
        depth = chance.randint(1, 4)
        name = "/".join(chance.choice(NAMES) + "d" for _ in range(depth - 1))
        yard.put(f"{name}/{chance.choice(NAMES)}" if name else chance.choice(NAMES), str(step))
        assert yard.noted() == "", "git has not noted it yet"
        assert run_git(yard.top, "write-tree") == yard.noted()


def test_index_tells_no_tree_when_it_is_cut_short(yard: Yard) -> None:
    yard.put("new", "x")
    run_git(yard.top, "write-tree")
    whole = yard.index.read_bytes()
    for cut in (0, 11, 40, 100, len(whole) - 30):
        yard.index.write_bytes(whole[:cut])
        assert yard.noted() == ""
