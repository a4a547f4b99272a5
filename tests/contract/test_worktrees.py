"""Worktrees: created completely or not at all, described correctly, and removed without side effects."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.core.errors import BadInput, BranchInUse, FleetError, RepositoryBusy
from fleet.git import worktree
from fleet.git.untrusted_folders import NotDeleted
from repositories import big_repository, branches, commit, run_git, worktrees
from workplaces import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_worktree_has_the_files_of_its_base_on_its_own_branch(place: Place) -> None:
    newer = commit(place.top, "file1.txt", "newer\n")
    added = place.add("fix/one")
    here = place.path("fix/one")
    assert (here / "file1.txt").read_text() == "text of file 1\n"
    assert run_git(here, "status", "--porcelain=v2", "--branch").splitlines()[:2] == [
        f"# branch.oid {place.base}",
        "# branch.head fix/one",
    ]
    assert run_git(here, "status", "--porcelain") == ""
    assert (added.commit, added.made) == (place.base, True)
    assert place.add("two", base=newer).commit == newer


def test_existing_free_branch_is_reused(place: Place) -> None:
    run_git(place.top, "branch", "there")
    run_git(place.top, "tag", "there", run_git(place.top, "commit-tree", "-m", "other", "HEAD^{tree}"))
    tip = place.base
    assert worktree.is_free(place.repository, "there")
    assert not worktree.is_free(place.repository, "nowhere")
    assert place.add("there", made=False).commit == tip
    assert run_git(place.path("there"), "rev-parse", "HEAD") == tip
    assert not worktree.is_free(place.repository, "there")
    with pytest.raises(FleetError, match="no such branch: 'nowhere'"):
        place.add("nowhere", made=False)


def test_checked_out_or_taken_branch_is_refused_and_stays(place: Place) -> None:
    run_git(place.top, "branch", "other", commit(place.top, "new.txt", "x"))
    with pytest.raises(BranchInUse, match=f"'main' is checked out at {place.top}"):
        place.add("main", made=False)
    with pytest.raises(BranchInUse, match="'other' already exists"):
        place.add("other")
    assert branches(place.top) == ["main", "other"]
    assert worktrees(place.top) == [str(place.top)]


def test_branch_that_conflicts_with_another_name_is_refused_without_a_trace(place: Place) -> None:
    place.add("a")
    with pytest.raises(FleetError, match=r"cannot lock ref|exists; cannot create"):
        place.add("a/b")
    assert branches(place.top) == ["a", "main"]
    assert not place.path("a/b").exists()


def test_used_path_is_refused_and_kept(place: Place) -> None:
    place.path("one").mkdir(parents=True)
    (place.path("one") / "mine").write_text("precious")
    with pytest.raises(FleetError, match="already exists"):
        place.add("one")
    with pytest.raises(NotDeleted, match="is not a worktree"):
        place.remove("one")
    place.undo("one")
    assert (place.path("one") / "mine").read_text() == "precious"
    assert branches(place.top) == ["main"]


def test_hooks_do_not_run_and_user_filters_do(place: Place) -> None:
    run_git(place.top, "config", "filter.shout.smudge", "tr a-z A-Z")
    commit(place.top, ".gitattributes", "*.loud filter=shout\n")
    base = commit(place.top, "word.loud", "word\n")
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = place.top / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {place.folder}/ran\n")
        hook.chmod(0o755)
    place.add("one", base=base)
    assert (place.path("one") / "word.loud").read_text() == "WORD\n"
    assert not (place.folder / "ran").exists()


def test_failed_checkout_leaves_nothing(place: Place) -> None:
    run_git(place.top, "config", "filter.broken.smudge", "false")
    run_git(place.top, "config", "filter.broken.required", "true")
    commit(place.top, ".gitattributes", "*.bad filter=broken\n")
    (place.top / "x.bad").write_text("x")
    run_git(place.top, "-c", "filter.broken.clean=cat", "add", "x.bad")
    run_git(place.top, "-c", "filter.broken.clean=cat", "commit", "--quiet", "--message=bad")
    with pytest.raises(FleetError, match="git reset failed"):
        place.add("one", base=run_git(place.top, "rev-parse", "HEAD"))
    place.assert_untouched()


def test_failed_add_leaves_no_branch(place: Place) -> None:
    (place.top / ".git" / "worktrees").write_text("in the way")
    with pytest.raises(FleetError, match="could not create"):
        place.add("one")
    (place.top / ".git" / "worktrees").unlink()
    place.assert_untouched()


def test_undo_removes_a_worktree_that_a_killed_git_had_not_named_yet(place: Place) -> None:
    admin = place.top / ".git" / "worktrees"
    for name in ("one", "one1", "other"):
        (admin / name).mkdir(parents=True)
        (admin / name / "locked").write_text("initializing")
    place.undo("one")
    assert list(admin.iterdir()) == [admin / "other"]


def test_git_of_another_agent_cannot_remove_a_worktree(place: Place) -> None:
    place.add("one")
    place.add("two")
    run_git(place.path("one"), "worktree", "remove", "--force", str(place.path("two")), check=False)
    assert (place.path("two") / "file1.txt").exists()


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.soak("load"))])
def test_many_adds_at_once_succeed_and_leave_nothing_else(tmp_path: Path, count: int) -> None:
    place = Place(tmp_path, big_repository)
    names = [f"x-A{number}" for number in range(1, count + 1)]
    with ThreadPoolExecutor(count) as pool:
        added = list(pool.map(place.add, names))
    assert {one.branch for one in added} == set(names)
    assert sorted(branches(place.top)) == sorted([*names, "main"])
    assert len(worktrees(place.top)) == count + 1
    assert len({one.admin for one in added}) == count
    assert run_git(place.path(names[-1]), "status", "--porcelain") == ""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(place.remove, names))
    run_git(place.top, "branch", "--quiet", "-D", *names)
    place.assert_untouched()


def test_undo_leaves_nothing_when_git_was_killed_at_any_moment(tmp_path: Path) -> None:
    place = Place(tmp_path, lambda path: big_repository(path, 300))
    rolled = random.Random(5)
    for number in range(50):
        _add_while_git_is_killed(place, f"k{number}", rolled.uniform(0.0, 0.05))
        place.undo(f"k{number}")
        place.undo(f"k{number}")
    place.assert_untouched()


def _add_while_git_is_killed(place: Place, branch: str, delay: float) -> None:
    """Run the first git of `worktree.add` and kill it with all its children after a delay."""
    script = f"git worktree add --no-checkout --lock --no-track -b {branch} {place.path(branch)} {place.base} && "
    script += f"git -C {place.path(branch)} reset --hard"
    quiet = subprocess.DEVNULL
    git = subprocess.Popen(
        ["sh", "-c", script], cwd=place.top, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet
    )
    time.sleep(delay)
    os.killpg(git.pid, signal.SIGKILL)
    git.wait()
    while _lives(git.pid):
        time.sleep(0.001)


def _lives(group: int) -> bool:
    """Return True if a process of a group has not ended. Zombies only wait for init."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group, *_ = stat.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state != "Z":
                return True
    return False


def test_add_undoes_its_work_when_git_is_killed(place: Place) -> None:
    """The filter kills the git that runs it in the middle of the checkout."""
    run_git(place.top, "config", "filter.deadly.smudge", "kill -9 $PPID; cat")
    commit(place.top, ".gitattributes", "*.bad filter=deadly\n")
    base = commit(place.top, "x.bad", "x")
    with pytest.raises(FleetError):
        place.add("one", base=base)
    place.assert_untouched()


def test_add_continues_when_a_killed_one_left_its_branch(place: Place) -> None:
    run_git(place.top, "branch", "one", place.base)
    assert place.add("one").made


def test_stale_lock_is_removed_and_a_fresh_one_is_named(place: Place) -> None:
    lock = place.top / ".git" / "refs" / "heads" / "one.lock"
    lock.touch()
    with pytest.raises(RepositoryBusy, match=r"locked by .*refs/heads/one\.lock"):
        place.add("one")
    assert lock.exists()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    place.add("one")
    assert not lock.exists()


def test_lock_stays_while_a_git_runs_in_the_repository(place: Place) -> None:
    lock = place.top / ".git" / "refs" / "heads" / "one.lock"
    lock.touch()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    waiting = subprocess.Popen(["git", "cat-file", "--batch"], cwd=place.top, stdin=subprocess.PIPE)
    try:
        with pytest.raises(RepositoryBusy):
            place.add("one")
        assert lock.exists()
    finally:
        waiting.communicate()


def test_add_waits_for_a_lock_that_disappears(place: Place) -> None:
    lock = place.top / ".git" / "refs" / "heads" / "one.lock"
    lock.touch()
    threading.Timer(0.3, lock.unlink).start()
    assert place.add("one").branch == "one"


def test_removal_frees_path_and_branch_and_keeps_the_branch(place: Place) -> None:
    place.add("one")
    place.remove("one")
    place.remove("one")
    assert worktree.is_free(place.repository, "one")
    place.add("one", made=False)
    place.remove("one")
    run_git(place.top, "branch", "-D", "one")
    place.assert_untouched()


def test_killed_removal_is_finished_by_the_next(place: Place) -> None:
    for branch in ("one", "two"):
        place.add(branch)
    worktree.take_away(place.home, place.repository, str(place.path("one")))
    assert not place.path("one").exists()
    assert worktree.is_free(place.repository, "one")
    assert len(list(place.path("one").parent.iterdir())) == 2
    place.remove("two")
    run_git(place.top, "branch", "-D", "one", "two")
    place.assert_untouched()


def test_worktree_is_removed_when_its_agent_changed_the_pointers(place: Place) -> None:
    one, two, three = (place.add(branch) for branch in ("one", "two", "three"))
    (place.path("one") / ".git").unlink()
    run_git(place.path("one"), "init", "--quiet")
    (place.path("two") / ".git").write_text(f"gitdir: {three.admin}\n")
    Path(two.admin, "gitdir").write_text(f"{place.top}/.git\n")
    for added in (one, two):
        worktree.remove(place.home, place.repository, added.path, added.admin)
    assert worktrees(place.top) == [str(place.top), three.path]
    assert run_git(place.path("three"), "status", "--porcelain") == ""
    assert run_git(place.top, "status", "--porcelain") == ""


def test_removal_spares_the_admin_folder_that_git_reused_for_another_worktree(place: Place) -> None:
    first = place.add("one")
    place.remove("one")
    again = worktree.add(
        place.home,
        place.repository,
        path=str(place.folder / "elsewhere" / "one"),
        branch="other",
        base_commit=place.base,
        made=True,
    )
    assert again.admin == first.admin
    worktree.remove(place.home, place.repository, first.path, first.admin)
    assert run_git(Path(again.path), "status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["", "-b", "--help", "a b", "../x", "x.lock", "@{-1}", "refs/heads/x", "a;touch y"])
def test_hostile_name_reaches_no_git(place: Place, name: str) -> None:
    with pytest.raises(BadInput):
        worktree.add(
            place.home,
            place.repository,
            path=str(place.folder / "worktrees" / "x"),
            branch=name,
            base_commit=place.base,
            made=True,
        )
    with pytest.raises(BadInput):
        worktree.delete_branch(place.view, name)
    place.assert_untouched()


EMPTYING = """\
import os, sys, time
print("ready", flush=True)
while True:
    time.sleep(0.0002)
    try:
        os.rmdir(sys.argv[1])
    except OSError:
        pass
"""


def test_worktree_is_created_while_git_removes_the_empty_worktrees_folder(place: Place) -> None:
    folder = Path(place.repository.common, "worktrees")
    with subprocess.Popen([sys.executable, "-c", EMPTYING, str(folder)], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == b"ready\n"
            for _ in range(10):
                place.add("b")
                assert run_git(place.path("b"), "status", "--porcelain") == ""
                place.remove("b")
                run_git(place.top, "branch", "-D", "b")
        finally:
            other.kill()


def test_worktree_is_whole_when_repository_is_of_another_kind(tmp_path: Path) -> None:
    kinds = (
        ("config", "extensions.worktreeConfig", "true"),
        ("config", "core.sharedRepository", "group"),
        ("sparse-checkout", "set", "nothing"),
    )
    for number, words in enumerate(kinds):
        (tmp_path / str(number)).mkdir()
        place = Place(tmp_path / str(number))
        run_git(place.top, *words)
        place.add("one")
        assert run_git(place.path("one"), "status", "--porcelain") == "", words
        assert place.state("one").tampered == (), words
