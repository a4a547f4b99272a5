"""Worktrees from spare checkouts: the same as others, whatever was done to the spare, and nothing left of it."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.core.errors import FleetError
from fleet.workspaces import spare as spare_module
from fleet.workspaces import worktree
from fleet.workspaces.index_tree import tree_of_index
from fleet.workspaces.spare import Spare, make
from repositories import commit, run_git
from workplaces import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    (tmp_path / "worktrees").mkdir()
    return made


def spare_of(place: Place, at: str = "") -> Spare:
    made = make(place.repository, str(place.folder / "worktrees"), at or place.base)
    assert made is not None
    return made


def add(place: Place, branch: str, spare: Spare, *, base: str = "") -> worktree.Added:
    path = str(place.path(branch))
    try:
        return worktree.add(
            place.home,
            place.repository,
            path=path,
            branch=branch,
            base_commit=base or place.base,
            made=True,
            spare=spare,
        )
    finally:
        spare.let_go()


def spares(place: Place) -> list[Path]:
    return [path for path in (place.folder / "worktrees").iterdir() if path.name.startswith(".gone-")]


def files(path: Path) -> dict[str, tuple[int, bytes]]:
    """Every file but git's pointer, with its mode."""
    found = [each for each in sorted(path.rglob("*")) if each.name != ".git" and not each.is_dir()]
    return {
        str(each.relative_to(path)): (
            each.lstat().st_mode,
            os.fsencode(each.readlink()) if each.is_symlink() else each.read_bytes(),
        )
        for each in found
    }


def with_all_kinds(place: Place) -> str:
    """A commit with what git writes in different ways."""
    (place.top / "deep" / "er").mkdir(parents=True)
    (place.top / "deep" / "er" / "run.sh").write_text("#!/bin/sh\n")
    (place.top / "deep" / "er" / "run.sh").chmod(0o755)
    (place.top / "link").symlink_to("deep/er")
    (place.top / "lines.txt").write_text("one\n")
    (place.top / "ünï \t.txt").write_text("odd\n")
    run_git(place.top, "add", "--all")
    return commit(place.top, ".gitattributes", "lines.txt eol=crlf\n")


def test_a_worktree_from_a_spare_is_the_same_as_another(place: Place) -> None:
    base = with_all_kinds(place)
    spare = spare_of(place, base)
    inode = (spares(place)[0] / "tree" / "file1.txt").stat().st_ino
    added = add(place, "one", spare, base=base)
    place.add("two", base=base)
    here, there = place.path("one"), place.path("two")
    assert (here / "file1.txt").stat().st_ino == inode  # it was renamed, not written
    assert files(here) == files(there) and "lines.txt" in files(here)
    assert (here / "lines.txt").read_bytes() == b"one\r\n"
    for path in (here, there):
        assert run_git(path, "status", "--porcelain", "--ignored") == ""
        assert run_git(path, "rev-parse", "HEAD") == base
    assert place.state("one").tampered == () and place.state("one").branch == "one"
    assert (added.admin, added.commit) == (place.state("one").admin, base)
    listed = run_git(place.top, "worktree", "list", "--porcelain")
    assert listed.count("locked an agent of fleet works here") == 2
    assert spares(place) == []
    assert tree_of_index(f"{added.admin}/index") == run_git(place.top, "rev-parse", f"{base}^{{tree}}")


def test_a_spare_of_another_commit_becomes_what_is_wanted(place: Place) -> None:
    newer = with_all_kinds(place)
    older = spare_of(place, place.base)
    add(place, "one", older, base=newer)
    add(place, "two", spare_of(place, newer), base=place.base)
    place.add("three", base=newer)
    place.add("four", base=place.base)
    assert files(place.path("one")) == files(place.path("three"))
    assert files(place.path("two")) == files(place.path("four"))
    assert [run_git(place.path(name), "status", "--porcelain", "--ignored") for name in ("one", "two")] == ["", ""]


def test_what_somebody_wrote_into_a_spare_is_in_no_worktree(place: Place) -> None:
    base = with_all_kinds(place)
    place.add("clean", base=base)
    run_git(place.top, "config", "core.trustctime", "false")
    for number, harm in enumerate(HARMS):
        spare = spare_of(place, base)
        (folder,) = spares(place)
        harm(folder)
        add(place, f"one-{number}", spare, base=base)
        assert files(place.path(f"one-{number}")) == files(place.path("clean")), harm.__name__
        assert run_git(place.path(f"one-{number}"), "status", "--porcelain", "--ignored") == ""
        worktree.sweep_away(place.repository, str(place.path("clean")))
        assert spares(place) == []


def adds_a_file(folder: Path) -> None:
    (folder / "tree" / "deep" / "sitecustomize.py").write_text("evil")


def changes_a_file_and_its_time_back(folder: Path) -> None:
    victim = folder / "tree" / "deep" / "er" / "run.sh"
    before = victim.stat()
    victim.write_text("#!/bin/no\n"[: before.st_size])
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    # Within one second git reads a file's content, whatever its times say.
    while int(time.time()) <= int(before.st_mtime):
        time.sleep(0.01)


def removes_a_file(folder: Path) -> None:
    (folder / "tree" / "lines.txt").unlink()


def makes_a_folder_a_link(folder: Path) -> None:
    (folder / "tree" / "deep").rename(folder / "elsewhere")
    (folder / "tree" / "deep").symlink_to(folder / "elsewhere")


def writes_an_index(folder: Path) -> None:
    data = (folder / "index").read_bytes()
    (folder / "index").write_bytes(data[:-1] + b"x")


def makes_it_a_repository(folder: Path) -> None:
    (folder / "tree" / ".git").mkdir()


def takes_it_away(folder: Path) -> None:
    (folder / "tree").rename(folder.parent / f"taken-{folder.name}")


def makes_a_file_run(folder: Path) -> None:
    (folder / "tree" / "lines.txt").chmod(0o777)


HARMS = (
    *(adds_a_file, changes_a_file_and_its_time_back, removes_a_file, makes_a_folder_a_link, writes_an_index),
    *(makes_it_a_repository, takes_it_away, makes_a_file_run),
)


def test_a_spare_is_private_and_swept_only_when_nobody_holds_it(place: Place) -> None:
    spare = spare_of(place)
    (folder,) = spares(place)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    worktree.sweep_away(place.repository, str(place.path("any")))
    assert spares(place) == [folder]
    spare.let_go()
    spare.let_go()  # twice is fine
    worktree.sweep_away(place.repository, str(place.path("any")))
    assert spares(place) == []
    place.assert_untouched()


MAKE = """
import os, sys
from fleet.workspaces.repository import find_repository
from fleet.workspaces.spare import make
held = make(find_repository(sys.argv[1]), sys.argv[2], sys.argv[3])
print("made", flush=True)
sys.stdin.read()
"""


def test_the_spare_of_a_killed_process_is_swept(place: Place) -> None:
    words = [sys.executable, "-c", MAKE, str(place.top), str(place.folder / "worktrees"), place.base]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"made\n"
        worktree.sweep_away(place.repository, str(place.path("any")))
        assert len(spares(place)) == 1
        process.send_signal(signal.SIGKILL)
    worktree.sweep_away(place.repository, str(place.path("any")))
    place.assert_untouched()


def test_where_something_stands_in_the_way_nothing_is_left(place: Place) -> None:
    spare = spare_of(place)
    run_git(place.top, "branch", "one/inner")  # so that there can be no branch `one`
    with pytest.raises(FleetError):
        add(place, "one", spare)
    run_git(place.top, "branch", "-D", "one/inner")
    worktree.sweep_away(place.repository, str(place.path("any")))
    place.assert_untouched()


@pytest.mark.parametrize(
    "unusual",
    [
        ("config", "extensions.worktreeConfig", "true"),
        ("config", "core.sharedRepository", "group"),
        ("sparse-checkout", "set", "nothing"),
    ],
)
def test_a_repository_of_another_kind_is_left_to_git(place: Place, unusual: tuple[str, ...]) -> None:
    spare = spare_of(place)
    run_git(place.top, *unusual)
    assert make(place.repository, str(place.folder / "worktrees"), place.base) is None
    add(place, "one", spare)
    assert run_git(place.path("one"), "status", "--porcelain") == ""
    assert place.state("one").tampered == ()


def test_an_index_says_its_tree_only_where_it_is_just_that(place: Place, tmp_path: Path) -> None:
    added = place.add("one")
    index, here = f"{added.admin}/index", place.path("one")
    tree = run_git(place.top, "rev-parse", f"{place.base}^{{tree}}")
    assert tree_of_index(index) == tree
    (here / "TREE\n12 3\n").write_text("x" * 100)
    run_git(here, "add", "-A")
    assert tree_of_index(index) != tree
    staged = run_git(here, "write-tree")
    assert tree_of_index(index) == staged
    (here / "file1.txt").write_text("changed")
    run_git(here, "add", "file1.txt")
    assert tree_of_index(index) in ("", run_git(here, "write-tree"))
    assert tree_of_index(index) != staged
    for data in (b"", b"TREE", b"DIRC" + b"\0" * 40, Path(index).read_bytes()[:-30]):
        (tmp_path / "broken").write_bytes(data)
        assert tree_of_index(str(tmp_path / "broken")) == ""


@pytest.mark.parametrize("is_touched", [False, True])
def test_one_that_is_about_to_be_taken_is_looked_at_before(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, is_touched: bool
) -> None:
    """Where it is as git wrote it nobody looks again; where it is not, git mends it as always."""
    spare = spare_of(place)
    name = next(iter(files(spares(place)[0] / "tree")))
    if is_touched:
        (spares(place)[0] / "tree" / name).write_text("something else\n")
    spare.expect()
    looked: list[str] = []
    real = spare_module._files

    def look(path: str, *, by_hand: bool = False) -> tuple[bytes, ...]:
        looked.append(path)
        return real(path, by_hand=by_hand)

    monkeypatch.setattr(spare_module, "_files", look)
    made = add(place, "one", spare)
    assert looked == ([made.path] if is_touched else [])
    assert run_git(Path(made.path), "status", "--porcelain") == ""
    assert files(Path(made.path))[name][1] == (place.top / name).read_bytes()


def test_a_look_that_is_too_old_is_made_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_module, "RECENT_SECONDS", 0.0)
    spare = spare_of(place)
    spare.expect()
    name = next(iter(files(spares(place)[0] / "tree")))
    (spares(place)[0] / "tree" / name).write_text("something else\n")
    made = add(place, "one", spare)
    assert files(Path(made.path))[name][1] == (place.top / name).read_bytes()
    spare.expect()  # it is gone: nothing to look at
