"""Deletion of a stranger's files: nothing outside is deleted, and nothing inside stays."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import needs
from fleet.git.untrusted_folders import NotDeleted, delete, set_aside, sweep

DELETE = "import sys; from fleet.git.untrusted_folders import delete; delete(sys.argv[1])"


def delete_without_privileges(path: Path) -> None:
    """Delete a path in a process that obeys file modes, even as root."""
    words = [sys.executable, "-c", DELETE, str(path)]
    if os.geteuid() == 0:
        needs.require(shutil.which("setpriv"), "setpriv, for deleting without root's rights")
        words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *words]
    subprocess.run(words, check=True, timeout=60)


def test_deletion_removes_links_and_keeps_their_targets(tmp_path: Path) -> None:
    outside, here = tmp_path / "outside", tmp_path / "here"
    outside.mkdir(mode=0o750)
    (outside / "precious").write_text("x")
    (here / "inner").mkdir(parents=True)
    for folder in (here, here / "inner"):
        (folder / "to-folder").symlink_to(outside)
        (folder / "to-file").symlink_to(outside / "precious")
        (folder / "to-nothing").symlink_to(tmp_path / "nothing")
        (folder / "up").symlink_to("..")
    delete(str(here))
    delete(str(here))
    assert sorted(tmp_path.iterdir()) == [outside]
    assert (outside / "precious").read_text() == "x"
    (tmp_path / "link").symlink_to(outside)
    delete(str(tmp_path / "link"))
    assert (outside / "precious").exists()
    assert outside.stat().st_mode & 0o777 == 0o750


def test_deletion_removes_folders_and_files_without_permissions(tmp_path: Path) -> None:
    here = tmp_path / "here"
    closed = here / "outer" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("x")
    for path in (closed / "file", closed, here / "outer", here):
        path.chmod(0o000)
    delete_without_privileges(here)
    assert not here.exists()


def test_deletion_removes_folders_deeper_than_any_path(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    handle = os.open(here, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a-name-of-a-folder", dir_fd=handle)
        inner = os.open("a-name-of-a-folder", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    delete(str(here))
    assert not here.exists()


def test_deletion_removes_pipes_sockets_and_odd_names(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    os.mkfifo(here / "pipe")
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b" "):
        (here / os.fsdecode(name)).mkdir()
        (here / os.fsdecode(name) / "file").touch()
    delete(str(here))
    assert not here.exists()


@pytest.mark.parametrize("where", ["here", "here/inner", "here/inner/deeper"])
def test_deletion_does_not_enter_mounts(tmp_path: Path, where: str) -> None:
    """Run in a separate mount namespace, so that the mounts of the machine stay unchanged.

    The mount is of the same disk.
    """
    able = ["unshare", "--map-root-user", "--mount"]
    works = (
        shutil.which("unshare") and subprocess.run([*able, "true"], check=False, capture_output=True).returncode == 0
    )
    needs.require(works, "mount namespaces")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (tmp_path / "here" / "inner" / "deeper").mkdir(parents=True)
    script = 'mount --bind "$1" "$2" && "$3" -c "$4" "$5"'
    words = ["sh", "-c", script, "sh", outside, tmp_path / where, sys.executable, DELETE, tmp_path / "here"]
    done = subprocess.run([*able, *map(str, words)], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "unmount" in done.stderr or "could not be deleted" in done.stderr
    assert (outside / "precious").read_text() == "x"


def test_two_deletions_of_one_folder_at_once_succeed(tmp_path: Path) -> None:
    here = tmp_path / "here"
    for number in range(400):
        (here / str(number % 20) / str(number)).mkdir(parents=True)
        (here / str(number % 20) / str(number) / "file").touch()
    faults: list[Exception] = []

    def attempt() -> None:
        try:
            delete(str(here))
        except NotDeleted as error:
            faults.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not here.exists()
    assert faults == []


def test_sweep_deletes_set_aside_folders_and_keeps_their_neighbors(tmp_path: Path) -> None:
    (tmp_path / "one" / "inner").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    aside = set_aside(str(tmp_path / "one"), str(tmp_path), ".gone-")
    assert aside is not None
    assert Path(aside, "inner").is_dir()
    assert set_aside(str(tmp_path / "one"), str(tmp_path), ".gone-") is None
    sweep(str(tmp_path), ".gone-")
    sweep(str(tmp_path / "nowhere"), ".gone-")
    assert list(tmp_path.iterdir()) == [tmp_path / "two"]
