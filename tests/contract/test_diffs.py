"""Diffs as fleet shows them: sizes, names and bounded text, by git's own rules alone."""

from pathlib import Path

import pytest

from contract.worktree_builders import Scene, write
from fleet.core.errors import FleetError
from fleet.git import diffs
from fleet.git.diffs import DiffSize, diff, shortstat
from fleet.git.save.snapshot import Snapshot
from repositories import run_git


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def tree_of(scene: Scene) -> str:
    return Snapshot(scene.view, scene.place(), scene.index_file).tree(scene.base)


def test_diff_is_empty_when_nothing_changed(scene: Scene) -> None:
    assert shortstat(scene.view, scene.base, tree_of(scene)) == DiffSize(files=0, added=0, removed=0)
    assert diff(scene.view, scene.base, tree_of(scene)) == b""


def test_diff_counts_files_and_lines_including_uncommitted_ones(scene: Scene) -> None:
    write(scene.work / "file1.txt", "one\ntwo\n")
    write(scene.work / "sub" / "new.txt", "1\n2\n3\n")
    (scene.work / "file2.txt").unlink()
    assert shortstat(scene.view, scene.base, tree_of(scene)) == DiffSize(files=3, added=5, removed=2)


def test_diff_can_be_applied(scene: Scene) -> None:
    write(scene.work / "file1.txt", "one\n")
    write(scene.work / "ünï code.txt", "new\n")
    told = diff(scene.view, scene.base, tree_of(scene))
    run_git(scene.top, "apply", stdin=told)
    assert (scene.top / "file1.txt").read_text() == "one\n"
    assert (scene.top / "ünï code.txt").read_text() == "new\n"


def test_diff_returns_only_sizes_or_names_when_asked(scene: Scene) -> None:
    write(scene.work / "file1.txt", "one\n")
    write(scene.work / "sub" / "new.txt", "new\n")
    assert diff(scene.view, scene.base, tree_of(scene), names=True) == b"file1.txt\nsub/new.txt\n"
    assert b"2 files changed, 2 insertions(+), 1 deletion(-)" in diff(scene.view, scene.base, tree_of(scene), stat=True)


def test_diff_shows_a_moved_file_as_moved(scene: Scene) -> None:
    write(scene.work / "moved.txt", (scene.work / "file1.txt").read_bytes())
    (scene.work / "file1.txt").unlink()
    assert b"rename from file1.txt\nrename to moved.txt" in diff(scene.view, scene.base, tree_of(scene))


def test_diff_only_names_binary_and_very_large_files(scene: Scene) -> None:
    write(scene.work / "picture.png", bytes(range(256)))
    write(scene.work / "large.txt", b"a line of text\n" * 700_000)
    told = diff(scene.view, scene.base, tree_of(scene))
    assert told.count(b"Binary files") == 2
    assert len(told) < 1000


def test_long_diff_is_cut_and_marked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs, "MOST_BYTES", 1000)
    write(scene.work / "long.txt", "a line\n" * 1000)
    told = diff(scene.view, scene.base, tree_of(scene))
    assert len(told) < 1100
    assert told.endswith(b"(truncated: the difference is longer)\n")


def test_diff_refuses_a_base_that_is_no_commit(scene: Scene) -> None:
    for name in ("nowhere", "--output=x", "-p"):
        with pytest.raises(FleetError, match="cannot be compared"):
            diff(scene.view, name, scene.base)
    assert not Path("x").exists()


def test_diff_ignores_replaced_objects(scene: Scene) -> None:
    write(scene.work / "file1.txt", "one\n")
    tree = tree_of(scene)
    same = run_git(scene.top, "commit-tree", tree, "-m", "as if nothing had changed")
    run_git(scene.top, "replace", scene.base, same)
    assert shortstat(scene.view, scene.base, tree).files == 1
