"""What changed in the second of a checkout is never overlooked, and git reads no more than it must to see that."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import needs
from contract.worktree_builders import write
from fleet.home import Home
from fleet.workspaces.admin import admin_of
from fleet.workspaces.believing import ALWAYS, NEVER, believed
from fleet.workspaces.leftovers import Leftover, commit_leftovers
from fleet.workspaces.place import Place
from fleet.workspaces.repository import find_repository
from fleet.workspaces.touched import _gnu_find, touched
from fleet.workspaces.view import View
from repositories import big_repository, run_git

BRANCH, FILES = "fix-it", 1000
#: In every checkout of `big_repository`.
ONE, OTHER = "part0/file1.txt", "part3/file301.txt"


class Yard:
    """A worktree with many files, whose index is of the same second as they are."""

    def __init__(self, folder: Path) -> None:
        self.top = big_repository(folder / "repo", FILES)
        self.work = folder / "work"
        run_git(self.top, "worktree", "add", "--quiet", "--no-checkout", "-b", BRANCH, str(self.work))
        self.home = Home(str(folder / "home"))
        self.view = View(self.home, find_repository(str(self.top)))
        self.admin = Path(admin_of(self.view.repository, str(self.work)) or "")
        self.index = folder / "index"
        self.base = run_git(self.top, "rev-parse", BRANCH)
        self.since = 0.0

    def check_out(self) -> None:
        """Check out early in a second, so that what comes next is in it too, but for the clock's own steps."""
        time.sleep(1 - time.time() % 1)
        run_git(self.work, "reset", "--quiet", "--hard")
        shutil.copyfile(self.admin / "index", self.index)
        time.sleep(0.03)
        self.since = time.time()

    def leave(self, *, since: bool = True) -> Leftover:
        place = Place(path=str(self.work), branch=BRANCH, admin=str(self.admin))
        return commit_leftovers(
            self.home, self.view, place, str(self.index), "left", since=self.since if since else None
        )

    def swap(self, name: str) -> None:
        """Change a file to another of the same size, with the old time."""
        path = self.work / name
        old = path.stat()
        path.write_bytes(path.read_bytes().swapcase())
        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
        assert path.stat().st_size == old.st_size


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_a_change_in_the_second_of_the_checkout_is_seen(yard: Yard) -> None:
    assert _gnu_find(), "the tests' machine has it"
    yard.check_out()
    yard.swap(ONE)
    write(yard.work / "new.txt", "new")
    left = yard.leave()
    assert left.files == ("new.txt", ONE)
    assert run_git(yard.work, "status", "--porcelain") == ""
    assert run_git(yard.top, "show", f"{BRANCH}:{ONE}").startswith("# FILE 1")


def test_without_one_only_what_is_new_is_found_and_the_index_is_as_old_as_before(yard: Yard) -> None:
    yard.check_out()
    assert yard.leave() == Leftover()
    before = yard.index.stat().st_mtime_ns
    assert before not in (NEVER, ALWAYS)
    with believed(str(yard.index), str(yard.work), yard.since):
        assert yard.index.stat().st_mtime_ns == NEVER
    assert yard.index.stat().st_mtime_ns == before
    write(yard.work / "new.txt", "new")
    assert yard.leave().files == ("new.txt",)
    assert yard.index.stat().st_mtime_ns > before


def test_after_a_kill_everything_is_doubted(yard: Yard) -> None:
    yard.check_out()
    yard.swap(OTHER)
    os.utime(yard.index, ns=(NEVER, NEVER))  # as a killed supervisor leaves it
    assert yard.leave(since=False).files == (OTHER,)


def test_who_does_not_know_who_wrote_there_believes_nothing(yard: Yard) -> None:
    yard.check_out()
    yard.swap(ONE)
    with believed(str(yard.index), str(yard.work), None):
        assert yard.index.stat().st_mtime_ns != NEVER
    assert yard.leave(since=False).files == (ONE,)


def test_a_disk_that_knows_only_seconds_is_not_believed(tmp_path: Path) -> None:
    needs.require(shutil.which("mkfs.ext4") and os.geteuid() == 0, "a disk with coarse times (mkfs.ext4, mount)")
    disk, folder = tmp_path / "disk", tmp_path / "coarse"
    disk.write_bytes(b"")
    os.truncate(disk, 64 * 1024 * 1024)
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-I", "128", "-N", "8000", str(disk)], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["mount", "-o", "loop", str(disk), str(folder)], check=True)
    try:
        yard = Yard(folder)
        yard.check_out()
        assert yard.work.stat().st_ctime_ns % 10**9 == 0
        yard.swap(ONE)
        assert yard.leave().files == (ONE,)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_later_change_is_seen_by_its_time(yard: Yard) -> None:
    yard.check_out()
    time.sleep(1.1)
    yard.since = time.time()
    yard.swap(ONE)
    assert yard.leave().files == (ONE,)


def test_files_are_told_by_when_they_were_touched(tmp_path: Path) -> None:
    root = tmp_path / "odd [name]"
    write(root / "old", "x")
    time.sleep(0.05)
    since = time.time()
    time.sleep(0.05)
    write(root / "deep" / "a\nb", "x")
    os.utime(root / "deep" / "a\nb", ns=(0, 0))
    (root / "link").symlink_to("nowhere")
    assert sorted(touched(str(root), since, since + 60) or ()) == [b"deep/a\nb", b"link"]
    assert touched(str(root), since + 60, since + 120) == []
    assert touched(str(tmp_path / "missing"), since, since + 60) is None
