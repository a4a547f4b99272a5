"""Files copied into a worktree: only named files, with private modes, and nothing through a link."""

import os
from pathlib import Path

import pytest

import fleet.git.copied_files as copying
from fleet.git.copied_files import copy_in
from repositories import commit, make_repository


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "worktree").mkdir()
    return tmp_path / "worktree"


def put(path: Path, text: str = "secret\n", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_named_files_are_copied_with_their_folders_and_private_modes(top: Path, here: Path) -> None:
    put(top / ".env")
    put(top / "config" / "deep" / "master.key", mode=0o666)
    put(top / "bin" / "tool", mode=0o755)
    old = os.umask(0)
    try:
        done = copy_in(str(top), str(here), [".env", "./config/deep/master.key", "bin/tool", "nowhere.txt"])
    finally:
        os.umask(old)
    assert done.copied == (".env", "config/deep/master.key", "bin/tool")
    assert (done.missing, done.refused) == (("nowhere.txt",), ())
    assert (here / "config" / "deep" / "master.key").read_text() == "secret\n"
    assert mode(here / ".env") == mode(here / "config" / "deep" / "master.key") == 0o600
    assert mode(here / "bin" / "tool") == mode(here / "config" / "deep") == 0o700
    assert (here / ".env").stat().st_mtime_ns == (top / ".env").stat().st_mtime_ns


def test_globs_and_directories_copy_their_content(top: Path, here: Path) -> None:
    for name in (".env", ".env.local", "certs/a.pem", "certs/sub/b.pem", "certs/.hidden", "x/one.key", "x/y/two.key"):
        put(top / name)
    done = copy_in(str(top), str(here), [".env*", "certs", "**/*.key", "*.none"])
    wanted = [".env", ".env.local", "certs/.hidden", "certs/a.pem", "certs/sub/b.pem", "x/one.key", "x/y/two.key"]
    assert sorted(done.copied) == wanted
    assert done.missing == ("*.none",)


def test_existing_files_of_the_worktree_are_not_overwritten(top: Path, here: Path, tmp_path: Path) -> None:
    for name in (".env", "a/b", "c/d"):
        put(top / name)
    put(here / ".env", "mine\n", 0o640)
    outside = tmp_path / "outside"
    outside.mkdir()
    (here / "a").symlink_to(outside)
    (here / "c").mkdir()
    (here / "c" / "d").symlink_to(outside / "planted")
    done = copy_in(str(top), str(here), [".env", "a/b", "c/d"])
    assert ((here / ".env").read_text(), mode(here / ".env")) == ("mine\n", 0o640)
    assert list(outside.iterdir()) == []
    assert done.copied == ()
    assert done.refused == ("a/b: a is a link or no directory",)


def test_files_outside_of_the_repository_are_not_copied(top: Path, here: Path, tmp_path: Path) -> None:
    put(tmp_path / "outside" / "precious")
    (top / "link").symlink_to(tmp_path / "outside" / "precious")
    (top / "folder").symlink_to(tmp_path / "outside")
    (top / "kept").mkdir()
    (top / "kept" / "inner").symlink_to(tmp_path / "outside")
    (top / "kept" / "file").symlink_to(tmp_path / "outside" / "precious")
    os.mkfifo(top / "pipe")
    names = [str(tmp_path / "outside" / "precious"), "../outside/precious", "a/../../outside/precious", "link", "pipe"]
    names += ["folder/precious", "folder/*", "kept", ".git/config", ""]
    done = copy_in(str(top), str(here), names)
    assert done.copied == ()
    assert not [path for path in here.rglob("*") if not path.is_dir()]
    assert len(done.refused) == 7
    assert "link: a link" in done.refused
    assert "kept/file: a link" in done.left_out


def test_file_that_is_too_large_is_refused_by_name(top: Path, here: Path) -> None:
    with (top / "huge.bin").open("wb") as file:
        file.truncate(copying.LONGEST_FILE + 1)
    done = copy_in(str(top), str(here), ["huge.bin"])
    assert done.refused == ("huge.bin: larger than 100 MB",)
    assert not (here / "huge.bin").exists()


def test_worktreeinclude_copies_the_ignored_files_that_it_names(top: Path, here: Path) -> None:
    commit(top, ".gitignore", ".env*\n*.local\n/cache/\n*odd*\n")
    commit(top, "tracked.local", "tracked\n")
    for name in (
        ".env",
        ".env.example",
        "deep/er/x.local",
        "cache/a/b",
        "untracked.txt",
        "other.local",
        ":(odd)\nname",
    ):
        put(top / name)
    put(top / "odd \n name")
    put(
        top / ".worktreeinclude",
        "# what agents need\n\n.env*\n!.env.example\ndeep/\n/cache/\nuntracked.txt\ntracked.local\n*odd*\n",
    )
    done = copy_in(str(top), str(here), [])
    assert sorted(done.copied) == [".env", ":(odd)\nname", "cache/a/b", "deep/er/x.local", "odd \n name"]
    assert (done.missing, done.refused) == ((), ())


def test_nothing_is_copied_when_no_files_are_named(top: Path, here: Path) -> None:
    put(top / ".env")
    assert copy_in(str(top), str(here), []) == copying.CopiedFiles()
