"""kill -9 while a branch and its checkout are moved: the branch is before or after, and the checkout follows."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.core.errors import RepositoryBusy
from fleet.workspaces import mending
from fleet.workspaces.mending import Entry, drop, entries, keep, mend
from merges import branch_with
from repositories import run_git
from supervised import wait_for
from workplaces import Place

WORKER = Path(__file__).parents[1] / "workers" / "mover.py"
#: More steps than a move has.
MOST = 200


def next_commit(place: Place, number: int) -> str:
    """A commit on top of where main is: it changes, adds, deletes, and puts a folder in a file's place and back."""
    odd: dict[str, str | None] = {"shape": f"file {number}\n", "shape/inner.txt": None}
    even: dict[str, str | None] = {"shape": None, "shape/inner.txt": f"folder {number}\n"}
    files: dict[str, str | None] = {f"new/{number}.txt": "x\n", "file1.txt": f"{number}\n"}
    if number > 1:
        files |= {f"new/{number - 1}.txt": None} | (odd if number % 2 else even)
    return branch_with(place.top, "work", files, base="main")


def killed(place: Place, new: str, last: int) -> bool:
    """Whether the mover was killed at its n-th step, or came to its end before."""
    old, token = run_git(place.top, "rev-parse", "main"), f"token-{last:06}"
    words = [sys.executable, str(WORKER), place.home.root, str(place.top), "main", old, new, token, str(last)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done
    return done.returncode != 0


def mended(place: Place) -> list[bool]:
    """What the journal has is brought to an end, as the next merge does it; whether each had landed."""
    found = []
    for entry in entries(place.home):
        found.append(mend(place.home, place.view, entry))
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
    assert not [file for file in Path(place.view.path).iterdir() if file.name.startswith(("moving-", "mending-"))]


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.soak("kills"))])
def test_a_move_that_is_killed_at_any_step_is_before_or_after(tmp_path: Path, stride: int) -> None:
    place = Place(tmp_path)
    place.view.make()
    landed: list[bool] = []
    for number in range(1, MOST, stride):
        old, new = run_git(place.top, "rev-parse", "main"), next_commit(place, number)
        was_killed = killed(place, new, number)
        tip = run_git(place.top, "rev-parse", "main")
        assert tip in (old, new), number
        told = mended(place)
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


def half_done(place: Place, *, moved: bool) -> tuple[str, str, Entry]:
    """As a machine that lost its power in the midst of git's writing would leave it."""
    old = run_git(place.top, "rev-parse", "main")
    files: dict[str, str | None] = {f"many/{n}.txt": f"new {n}\n" * 20 for n in range(6)}
    first = branch_with(place.top, "first", {f"many/{n}.txt": f"old {n}\n" for n in range(4)}, base="main")
    run_git(place.top, "merge", "--quiet", "--ff-only", first)
    old = first
    new = branch_with(place.top, "work", files | {"many/3.txt": None, "file2.txt": None}, base="main")
    seat = (str(place.top), str(place.top / ".git"))
    entry = Entry(
        token="ours",
        common=place.repository.common,
        top=place.repository.top,
        branch="main",
        old=old,
        new=new,
        ref="refs/heads/main",
        seats=(seat,),
        landing=({"task": "t"},),
    )
    keep(place.home, entry)
    (place.top / ".git" / "index.lock").write_text("ours")
    many = place.top / "many"
    many.joinpath("0.txt").write_text("new 0\n" * 20)  # written whole
    many.joinpath("1.txt").write_text("new 1\n" * 7)  # begun
    many.joinpath("2.txt").unlink()  # taken away to be made anew
    many.joinpath("4.txt").write_text("")  # opened
    many.joinpath("3.txt").unlink()  # gone for good
    if moved:
        run_git(place.top, "update-ref", "refs/heads/main", new)
    return old, new, entry


@pytest.mark.parametrize("moved", [False, True])
def test_a_checkout_half_way_is_brought_to_where_its_branch_is(tmp_path: Path, moved: bool) -> None:
    place = Place(tmp_path)
    old, new, entry = half_done(place, moved=moved)
    assert entries(place.home, place.repository, "main") == [entry]
    assert mended(place) == [moved]
    assert_whole(place, new if moved else old)
    assert mended(place) == []


def test_what_somebody_changed_since_stays(tmp_path: Path) -> None:
    place = Place(tmp_path)
    _, new, _ = half_done(place, moved=True)
    (place.top / "many" / "0.txt").write_text("a person's words\n")
    (place.top / "file3.txt").write_text("a person's words\n")
    assert mended(place) == [True]
    changed = run_git(place.top, "status", "--porcelain").splitlines()
    assert [line.split()[-1] for line in changed] == ["file3.txt", "many/0.txt"]
    assert (place.top / "many" / "0.txt").read_text() == "a person's words\n"
    assert run_git(place.top, "rev-parse", "main") == new


def test_a_branch_that_went_on_since_is_left_alone_and_only_our_lock_goes(tmp_path: Path) -> None:
    place = Place(tmp_path)
    half_done(place, moved=True)
    later = branch_with(place.top, "later", {"later.txt": "x\n"}, base="main")
    run_git(place.top, "update-ref", "refs/heads/main", later)
    before = (place.top / "many" / "1.txt").read_text()
    assert mended(place) == [True], "what is in the branch's history has landed"
    assert (place.top / "many" / "1.txt").read_text() == before
    assert not (place.top / ".git" / "index.lock").exists()


def test_somebody_elses_lock_is_not_ours_to_take(tmp_path: Path) -> None:
    place = Place(tmp_path)
    half_done(place, moved=True)
    lock = place.top / ".git" / "index.lock"
    lock.write_text("theirs")
    mended(place)
    assert lock.read_text() == "theirs"


def test_a_git_that_outlived_its_merge_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    _, new, entry = half_done(place, moved=True)
    place.view.make()
    # `read-tree` among its words and our view in its environment: as a git that fleet called looks to the system.
    with subprocess.Popen(["sleep", "60"], env=os.environ) as stranger:
        with subprocess.Popen(
            ["sh", "-c", "read _; :", "read-tree"], env={"GIT_DIR": place.view.path}, stdin=subprocess.PIPE
        ) as git:
            seen = Path(f"/proc/{git.pid}/environ")
            wait_for(lambda: b"GIT_DIR" in seen.read_bytes(), "its environment")  # the system shows it a moment later
            monkeypatch.setattr(mending, "PATIENCE_SECONDS", 0.1)
            with pytest.raises(RepositoryBusy, match="still works"):
                mend(place.home, place.view, entry)
            assert git.stdin is not None
            git.stdin.close()
        monkeypatch.undo()
        assert mended(place) == [True]
        stranger.kill()
    assert_whole(place, new)


def test_a_journal_that_was_cut_short_is_of_nothing_that_was_done(tmp_path: Path) -> None:
    place = Place(tmp_path)
    half_done(place, moved=False)
    (file,) = (Path(place.home.root) / "merges").glob("*.json")
    text = file.read_text()
    for cut in (0, 1, len(text) // 2):
        file.write_text(text[:cut])
        assert entries(place.home) == []
    file.write_text(json.dumps({"seats": 1}))
    assert entries(place.home) == []
