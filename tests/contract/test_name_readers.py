"""Long-lived git processes that resolve names: their answers equal those of a fresh git, and none is left."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contract.worktree_builders import BRANCH, Scene
from fleet.git import name_readers
from fleet.git.commits import tree_of
from fleet.git.name_readers import end_idle_readers, keep_name_readers
from fleet.git.process import GitFault
from repositories import commit, run_git


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def keeping() -> Iterator[None]:
    with keep_name_readers():
        yield
    assert gits() == []


def gits() -> list[int]:
    """Return the live git processes below this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().split("(", 1)[1].rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent, *_ = rest.split()
        found += [int(path.parent.name)] if (name, parent) == ("git", str(os.getpid())) and state != "Z" else []
    return found


def test_names_mean_the_same_as_without_a_reader(scene: Scene) -> None:
    commits = [commit(scene.top, "a", "1\n"), commit(scene.top, "a", "2\n")]
    run_git(scene.top, "tag", "-a", "-m", "a tag", "note")
    (scene.top / ".git/refs/heads/nowhere").write_text("f" * 40 + "\n")
    names = ["refs/heads/main", "refs/tags/note", commits[0], "f" * 40, "refs/heads/nowhere", "none", "a\rb", "x" * 500]
    alone = [scene.view.resolve_each([name]) for name in names], scene.view.resolve_each(names * 20)
    assert alone[0] == [[commits[1]], [commits[1]], [commits[0]], *[[None]] * 5]
    with keep_name_readers():
        assert ([scene.view.resolve_each([name]) for name in names], scene.view.resolve_each(names * 20)) == alone
        assert len(gits()) == 1
    assert gits() == []


def test_reader_sees_each_move_of_a_branch(scene: Scene, keeping: None) -> None:
    assert scene.view.tip_of(BRANCH) == scene.base
    made = commit(scene.top, "a", "1\n")
    run_git(scene.top, "update-ref", f"refs/heads/{BRANCH}", made)
    assert scene.view.tip_of(BRANCH) == made
    run_git(scene.top, "pack-refs", "--all")
    assert scene.view.tip_of(BRANCH) == made
    run_git(scene.top, "update-ref", "-d", f"refs/heads/{BRANCH}")
    assert scene.view.tip_of(BRANCH) is None


def test_reader_sees_packs_that_are_written_and_deleted(scene: Scene, keeping: None) -> None:
    made = commit(scene.top, "a", "1\n")
    tree = run_git(scene.top, "rev-parse", f"{made}^{{tree}}")
    assert tree_of(scene.view, made) == tree
    run_git(scene.top, "repack", "-adq")
    run_git(scene.top, "prune-packed")
    assert tree_of(scene.view, made) == tree
    for each in (scene.top / ".git/objects/pack").iterdir():
        each.unlink()
    assert scene.view.tip_of("main") is None
    with pytest.raises(GitFault):
        tree_of(scene.view, made)


def test_reader_does_not_know_a_deleted_object(scene: Scene, keeping: None) -> None:
    made = commit(scene.top, "a", "1\n")
    assert scene.view.tip_of("main") == made
    (scene.top / ".git/objects" / made[:2] / made[2:]).unlink()
    assert scene.view.tip_of("main") is None


def test_many_threads_each_get_their_own_answer(scene: Scene, keeping: None) -> None:
    commits = [commit(scene.top, "a", f"{number}\n") for number in range(8)]
    trees = [run_git(scene.top, "rev-parse", f"{each}^{{tree}}") for each in commits]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: tree_of(scene.view, each), commits * 20))
    assert found == trees * 20
    assert len(gits()) == 1


def test_killed_reader_is_replaced(scene: Scene, keeping: None) -> None:
    assert scene.view.tip_of(BRANCH) == scene.base
    (git,) = gits()
    os.kill(git, signal.SIGKILL)
    assert scene.view.tip_of(BRANCH) == scene.base
    assert scene.view.tip_of(BRANCH) == scene.base
    assert [each for each in gits() if each != git]


def test_silent_reader_is_ended(scene: Scene, keeping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scene.view.tip_of(BRANCH) == scene.base
    (git,) = gits()
    os.kill(git, signal.SIGSTOP)
    monkeypatch.setattr(name_readers, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(name_readers, "END_SECONDS", 0.01)
    assert scene.view.tip_of(BRANCH) == scene.base
    assert git not in gits()


def test_reader_ends_when_it_is_idle(scene: Scene, keeping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.view.tip_of(BRANCH)
    end_idle_readers()
    assert len(gits()) == 1
    monkeypatch.setattr(name_readers, "IDLE_SECONDS", 0.0)
    time.sleep(0.001)
    end_idle_readers()
    assert gits() == []


def test_least_recently_used_reader_ends_when_there_are_too_many(
    tmp_path: Path, keeping: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_readers, "MOST", 1)
    scenes = [Scene(tmp_path / name) for name in ("one", "two")]
    for each in scenes * 2:
        assert each.view.tip_of(BRANCH) == each.base
        assert len(gits()) == 1
