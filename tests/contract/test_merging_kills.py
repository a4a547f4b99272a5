"""kill -9 during a merge: the next command lets git finish the move, and no work is lost."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.core.errors import RepositoryBusy
from fleet.git.merge.branch_move import BranchMove, MoveInterrupted, MoveResult, drop, entries, finish, keep, move
from fleet.git.repository import locked
from merges import branch_with
from repositories import run_git
from supervised import wait_for
from workplaces import Place

WORKER = Path(__file__).parents[1] / "workers" / "mover.py"
#: More steps than a move has.
MOST = 200


def next_commit(place: Place, number: int) -> str:
    """Commit on top of main: change, add and delete files, and replace a file with a folder and back."""
    odd: dict[str, str | None] = {"shape": f"file {number}\n", "shape/inner.txt": None}
    even: dict[str, str | None] = {"shape": None, "shape/inner.txt": f"folder {number}\n"}
    files: dict[str, str | None] = {f"new/{number}.txt": "x\n", "file1.txt": f"{number}\n"}
    if number > 1:
        files |= {f"new/{number - 1}.txt": None} | (odd if number % 2 else even)
    return branch_with(place.top, "work", files, base="main")


def killed(place: Place, new: str, last: int) -> bool:
    """Return True if the mover was killed at its n-th step, and False if it had ended before."""
    old, token = run_git(place.top, "rev-parse", "main"), f"token-{last:06}"
    words = [sys.executable, str(WORKER), place.home.root, str(place.top), "main", old, new, token, str(last)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done
    return done.returncode != 0


def finished(place: Place) -> list[bool]:
    """Finish the moves in the journal, as the next merge does. Return for each whether it landed."""
    found = []
    for entry in entries(place.home):
        done = finish(place.home, place.view, entry)
        assert done is None or not done.why_not, done
        found.append(done is not None)
        drop(place.home, entry)
    return found


def assert_whole(place: Place, tip: str) -> None:
    assert run_git(place.top, "rev-parse", "main") == tip
    assert run_git(place.top, "status", "--porcelain") == ""
    assert run_git(place.top, "diff", "--stat", "HEAD") == ""
    files = run_git(place.top, "ls-tree", "-r", "--name-only", "main").splitlines()
    there = [path for path in place.top.rglob("*") if ".git" not in path.parts and not path.is_dir()]
    assert sorted(path.relative_to(place.top).as_posix() for path in there) == sorted(files)
    assert not list((place.top / ".git").glob("**/*.lock")) and not list((place.top / ".git").glob("*index?*"))
    assert not [file for file in Path(place.view.path).iterdir() if file.name.startswith("moving")]


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.soak("kills"))])
def test_branch_and_checkout_are_before_or_after_when_a_move_is_killed(tmp_path: Path, stride: int) -> None:
    place = Place(tmp_path)
    place.view.make()
    landed: list[bool] = []
    for number in range(1, MOST, stride):
        old, new = run_git(place.top, "rev-parse", "main"), next_commit(place, number)
        was_killed = killed(place, new, number)
        with locked(place.home, place.repository):  # the git that outlived the mover has ended
            tip = run_git(place.top, "rev-parse", "main")
        assert tip in (old, new), number
        told = finished(place)
        assert told in ([], [tip == new]), number
        assert_whole(place, tip)
        if not was_killed:
            assert tip == new
            break
        landed.append(tip == new)
    else:
        pytest.fail("it never came to its end")
    assert {True, False} <= set(landed), "it was killed before and after the branch moved"
    run_git(place.top, "fsck", "--strict")


def test_next_command_waits_when_a_git_outlives_its_merge(tmp_path: Path) -> None:
    place = Place(tmp_path)
    old, new = run_git(place.top, "rev-parse", "main"), next_commit(place, 1)
    begun, go, wrapper = tmp_path / "begun", tmp_path / "go", tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *--ff-only*) touch {begun}; while ! test -e {go}; do sleep 0.05; done;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    words = [sys.executable, str(WORKER), place.home.root, str(place.top), "main", old, new, "token", "0"]
    with subprocess.Popen(words, env=os.environ | {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}) as mover:
        wait_for(begun.exists, "git to begin")
        mover.kill()
    lock = os.open(Path(place.home.root) / "locks" / place.repository.key, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)
    go.touch()
    assert finished(place) == [True]
    assert_whole(place, new)


def half_done(place: Place) -> tuple[str, str, BranchMove]:
    """Leave a checkout as a power cut during git's writing would: git had not moved the branch."""
    files: dict[str, str | None] = {f"many/{n}.txt": f"new {n}\n" * 20 for n in range(6)}
    before = {f"many/{n}.txt": f"old {n}\n" for n in range(4)} | {
        "file-then-folder": "x\n",
        "folder-then-file/a": "x\n",
    }
    old = branch_with(place.top, "first", dict(before), base="main")
    run_git(place.top, "merge", "--quiet", "--ff-only", old)
    gone = {"many/3.txt": None, "file2.txt": None, "file-then-folder": None, "folder-then-file/a": None}
    shapes: dict[str, str | None] = {"file-then-folder/a": "inner\n", "folder-then-file": "outer\n"}
    new = branch_with(place.top, "work", gone | files | {"many/3.txt": None} | shapes, base="main")
    entry = BranchMove(
        token="ours",
        common=place.repository.common,
        top=place.repository.top,
        branch="main",
        old=old,
        new=new,
        ref="refs/heads/main",
        landing=({"task": "t"},),
    )
    keep(place.home, entry)
    left_lock(place)
    many = place.top / "many"
    many.joinpath("0.txt").write_text("new 0\n" * 20)  # fully written
    many.joinpath("1.txt").write_text("new 1\n" * 7)  # partly written
    many.joinpath("2.txt").unlink()  # removed to be written again
    many.joinpath("4.txt").write_text("")  # opened
    many.joinpath("3.txt").unlink()  # deleted for good
    (place.top / "file-then-folder").unlink()
    (place.top / "file-then-folder").mkdir()
    (place.top / "file-then-folder" / "a").write_text("inn")
    shutil.rmtree(place.top / "folder-then-file")
    (place.top / "folder-then-file").write_text("outer\n")
    return old, new, entry


def left_lock(place: Place) -> Path:
    """Create an old lock on the index, as a killed git leaves it."""
    lock = place.top / ".git" / "index.lock"
    lock.write_text("")
    os.utime(lock, (0, 0))
    return lock


def finish_only(place: Place) -> MoveResult | None:
    (entry,) = entries(place.home, place.repository, "main")
    done = finish(place.home, place.view, entry)
    drop(place.home, entry)
    return done


def test_next_command_finishes_a_partial_checkout(tmp_path: Path) -> None:
    place = Place(tmp_path)
    _, new, entry = half_done(place)
    assert entries(place.home, place.repository, "main") == [entry]
    assert finished(place) == [True]
    assert_whole(place, new)
    assert finished(place) == []


def test_next_command_moves_the_branch_when_its_checkout_was_complete(tmp_path: Path) -> None:
    place = Place(tmp_path)
    _, new, _ = half_done(place)
    (place.top / ".git" / "index.lock").unlink()
    run_git(place.top, "reset", "--quiet", "--hard")
    run_git(place.top, "clean", "--quiet", "-fdx")
    run_git(place.top, "read-tree", "-m", "-u", "main", new)
    assert finished(place) == [True]
    assert_whole(place, new)


@pytest.mark.parametrize("name", ["many/1.txt", "many/4.txt", "many/5.txt", "folder-then-file"])
def test_changed_file_stays_and_the_merge_is_not_finished(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path)
    old, new, _ = half_done(place)
    (place.top / name).write_text("a person's words\n")
    before = run_git(place.top, "status", "--porcelain")
    done = finish_only(place)
    assert done is not None and "changed there since" in done.why_not
    assert (place.top / name).read_text() == "a person's words\n"
    assert run_git(place.top, "status", "--porcelain") == before
    assert run_git(place.top, "rev-parse", "main", "refs/fleet/merged/main").split() == [old, new]


def test_unrelated_changed_files_stay_when_a_merge_is_finished(tmp_path: Path) -> None:
    place = Place(tmp_path)
    _, new, _ = half_done(place)
    (place.top / "file3.txt").write_text("a person's words\n")
    assert finished(place) == [True]
    assert run_git(place.top, "status", "--porcelain").split() == ["M", "file3.txt"]
    assert (place.top / "file3.txt").read_text() == "a person's words\n"
    assert run_git(place.top, "rev-parse", "main") == new


def test_merge_is_not_finished_when_its_branch_moved_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    _, new, _ = half_done(place)
    later = branch_with(place.top, "later", {"later.txt": "x\n"}, base=new)
    run_git(place.top, "update-ref", "refs/heads/main", later)
    before = (place.top / "many" / "1.txt").read_text()
    assert finished(place) == [True], "what is in the branch's history has landed"
    assert (place.top / "many" / "1.txt").read_text() == before
    assert run_git(place.top, "rev-parse", "main") == later


def test_move_is_dropped_when_it_had_not_begun(tmp_path: Path) -> None:
    place = Place(tmp_path)
    old, _, _ = half_done(place)
    (place.top / ".git" / "index.lock").unlink()
    run_git(place.top, "reset", "--quiet", "--hard")
    run_git(place.top, "clean", "--quiet", "-fdx")
    (place.top / "file3.txt").write_text("a person's words\n")
    assert finished(place) == [False]
    assert run_git(place.top, "status", "--porcelain").split() == ["M", "file3.txt"]
    assert run_git(place.top, "rev-parse", "main") == old


def test_lock_of_another_git_is_not_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    _, _, entry = half_done(place)
    lock = left_lock(place)
    lock.write_text("theirs")
    with pytest.raises(RepositoryBusy, match="is locked by"):
        finish(place.home, place.view, entry)
    assert lock.read_text() == "theirs" and entries(place.home) == [entry]
    assert (place.top / "many" / "1.txt").read_text() == "new 1\n" * 7


def test_move_is_finished_later_when_git_cannot_move_the_branch(tmp_path: Path) -> None:
    place = Place(tmp_path)
    old, new = run_git(place.top, "rev-parse", "main"), next_commit(place, 1)
    log = place.top / ".git" / "logs" / "refs" / "heads" / "main"
    log.unlink()
    log.mkdir()
    (log / "no-log").touch()
    entry = BranchMove(
        token="ours", common=place.repository.common, top=place.repository.top, branch="main", old=old, new=new
    )
    with pytest.raises(MoveInterrupted, match="git stopped while it moved main"):
        move(place.home, place.view, entry)
    assert run_git(place.top, "rev-parse", "main") == old and len(entries(place.home)) == 1
    shutil.rmtree(log)
    assert finished(place) == [True]
    assert_whole(place, new)


def test_truncated_journal_is_ignored(tmp_path: Path) -> None:
    place = Place(tmp_path)
    half_done(place)
    (file,) = (Path(place.home.root) / "merges").glob("*.json")
    text = file.read_text()
    for cut in (0, 1, len(text) // 2):
        file.write_text(text[:cut])
        assert entries(place.home) == []
    file.write_text(json.dumps({"token": 1}))
    assert entries(place.home) == []
