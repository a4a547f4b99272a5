"""Clean checkouts: only the files of a commit, apart from the user's repository, and removed after use."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.worktree_builders import BRANCH, Scene, write
from fleet.core.errors import FleetError
from fleet.git.clean_checkout import clean_folder, fill, sweep
from fleet.git.process import GitFault
from fleet.git.view import View
from repositories import commit, make_repository, run_git, worktrees


@contextlib.contextmanager
def clean_checkout(view: View, commit: str, path: str) -> Iterator[None]:
    with clean_folder(view, path):
        fill(view, commit, path)
        yield


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_clean_checkout_holds_exactly_the_commit(scene: Scene) -> None:
    tip = commit(scene.work, "sub/new.txt", "new")
    write(scene.work / "untracked.txt", "x")
    path = scene.folder / "clean"
    before = worktrees(scene.top)
    with clean_checkout(scene.view, tip, str(path)):
        names = sorted(str(file.relative_to(path)) for file in path.rglob("*") if ".git" not in file.parts)
        assert names == [".gitignore", "file1.txt", "file2.txt", "file3.txt", "sub", "sub/new.txt"]
        assert run_git(path, "status", "--porcelain") == ""
        assert run_git(path, "rev-parse", "HEAD") == tip
        assert worktrees(scene.top) == before
    assert not path.exists()
    assert sweep(scene.view) == []


def test_git_in_a_clean_checkout_shows_versions_and_leaves_the_repository_unchanged(scene: Scene) -> None:
    run_git(scene.top, "tag", "v1.2", BRANCH)
    settings = (scene.top / ".git" / "config").read_bytes()
    path = scene.folder / "clean"
    with clean_checkout(scene.view, scene.base, str(path)):
        assert run_git(path, "describe", "--tags") == "v1.2"
        run_git(path, "config", "filter.evil.clean", "touch evil")
        commit(path, "file1.txt", "by the tests")
        run_git(path, "tag", "mine")
        run_git(path, "branch", "--force", BRANCH, "HEAD")
        run_git(path, "gc", "--quiet", "--prune=now")
    assert (scene.top / ".git" / "config").read_bytes() == settings
    assert "evil" not in Path(scene.view.path, "config").read_text()
    assert (scene.tip(), run_git(scene.top, "tag")) == (scene.base, "v1.2")
    assert run_git(scene.top, "fsck", "--no-dangling") == ""


def test_clean_checkout_has_the_object_format_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    run_git(tmp_path / "repo", "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    scene = Scene(tmp_path)
    with clean_checkout(scene.view, scene.base, str(tmp_path / "clean")):
        assert run_git(tmp_path / "clean", "status", "--porcelain") == ""
        assert run_git(tmp_path / "clean", "rev-parse", "HEAD") == scene.base


def test_submodules_of_a_clean_checkout_are_empty(scene: Scene) -> None:
    library = make_repository(scene.folder / "library")
    scene.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    scene.git("commit", "--quiet", "--message=a submodule")
    path = scene.folder / "clean"
    with clean_checkout(scene.view, scene.tip(), str(path)):
        assert list((path / "lib").iterdir()) == []


def test_clean_checkout_is_removed_whatever_its_content(scene: Scene) -> None:
    path = scene.folder / "clean"
    with pytest.raises(ZeroDivisionError), clean_checkout(scene.view, scene.base, str(path)):
        write(path / "deep" / "er" / "file", "x")
        (path / "deep").chmod(0o500)
        (path / "out").symlink_to(scene.top)
        raise ZeroDivisionError
    assert not path.exists()
    assert (scene.top / "file1.txt").exists()


def test_clean_checkout_leaves_existing_files_in_its_place_alone(scene: Scene) -> None:
    path = scene.folder / "clean"
    write(path / "mine.txt", "mine")
    with pytest.raises(FleetError, match="in the way"), clean_checkout(scene.view, scene.base, str(path)):
        pass
    assert (path / "mine.txt").read_text() == "mine"


def test_clean_checkout_leaves_nothing_when_its_commit_is_missing(scene: Scene) -> None:
    path = scene.folder / "clean"
    with pytest.raises(GitFault), clean_checkout(scene.view, "f" * 40, str(path)):
        pass
    assert not path.exists()
    assert sweep(scene.view) == []


HOLD = """
import sys, time
from fleet.home import Home
from fleet.git.clean_checkout import clean_folder, fill
from fleet.git.repository import find_repository
from fleet.git.view import View
view = View(Home(sys.argv[1]), find_repository(sys.argv[2]))
with clean_folder(view, sys.argv[4]):
    fill(view, sys.argv[3], sys.argv[4])
    print("there", flush=True)
    time.sleep(60)
"""


def test_sweep_removes_checkouts_of_killed_processes_and_keeps_used_ones(scene: Scene) -> None:
    path = scene.folder / "clean"
    words = [sys.executable, "-c", HOLD, scene.home.root, str(scene.top), scene.base, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"there\n"
        assert sweep(scene.view) == []
        assert path.exists()
        os.kill(running.pid, signal.SIGKILL)
    assert sweep(scene.view) == [str(path)]
    assert not path.exists()
    assert sweep(scene.view) == []


def test_sweep_keeps_the_note_of_a_checkout_in_progress(scene: Scene) -> None:
    over = threading.Event()

    def sweeping() -> None:
        while not over.is_set():
            sweep(scene.view)

    sweepers = [threading.Thread(target=sweeping) for _ in range(2)]
    for each in sweepers:
        each.start()
    try:
        for number in range(60):
            with clean_folder(scene.view, str(scene.folder / f"clean{number}")):
                assert (scene.folder / f"clean{number}").is_dir()
    finally:
        over.set()
        for each in sweepers:
            each.join()
    assert sweep(scene.view) == []
