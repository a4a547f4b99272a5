"""Facts about worktrees and branches, read as data even if an agent wrote something else."""

import os
from pathlib import Path

import pytest

from fleet.core.errors import BadInput, BranchInUse
from fleet.git import worktree
from fleet.git.process import GitFault
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.home import Home
from repositories import branches, commit, run_git
from workplaces import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_fresh_worktree_is_on_its_branch_without_operation(place: Place) -> None:
    added = place.add("fix/one")
    state = place.state("fix/one")
    assert (state.exists, state.branch, state.commit) == (True, "fix/one", None)
    assert (state.admin, state.going_on, state.tampered) == (added.admin, (), ())
    place.remove("fix/one")
    gone = place.state("fix/one")
    assert (gone.exists, gone.admin, gone.tampered) == (False, None, ())


def test_detached_head_and_operation_in_progress_are_reported(place: Place) -> None:
    place.add("one")
    here = place.path("one")
    newer = commit(here, "file1.txt", "mine\n")
    commit(place.top, "file1.txt", "theirs\n")
    run_git(here, "rebase", "main", check=False)
    state = place.state("one")
    assert (state.branch, state.going_on) == (None, ("rebase",))
    assert worktree.branches_checked_out(place.repository)["one"] == str(here)
    run_git(here, "rebase", "--abort")
    run_git(here, "merge", "main", check=False)
    assert place.state("one").going_on == ("merge",)
    run_git(here, "merge", "--abort")
    run_git(here, "checkout", "--quiet", "--detach", newer)
    state = place.state("one")
    assert (state.branch, state.commit, state.going_on) == (None, newer, ())
    run_git(here, "bisect", "start")
    assert place.state("one").going_on == ("bisect",)


@pytest.mark.parametrize("what", [".git", "commondir", "gitdir", "HEAD"])
@pytest.mark.parametrize("how", ["rewritten", "missing", "a link", "a pipe", "garbage"])
def test_pointer_changed_by_an_agent_is_named(place: Place, what: str, how: str) -> None:
    added = place.add("one")
    other = place.add("two")
    file = Path(added.path if what == ".git" else added.admin, what)
    elsewhere = Path(other.path if what == ".git" else other.admin, what)
    text = elsewhere.read_text() if what != "commondir" else f"{place.folder}/evil\n"
    file.unlink()
    if how == "rewritten":
        file.write_text(text if what != "HEAD" else "ref: refs/remotes/x\n")
    elif how == "a link":
        file.symlink_to(elsewhere)
    elif how == "a pipe":
        os.mkfifo(file)
    elif how == "garbage":
        file.write_bytes(b"\xff\0\n" * 100_000)
    assert what in worktree.state_of(place.repository, added.path, added.admin).tampered


def test_folder_unknown_to_git_is_reported(place: Place) -> None:
    added = place.add("one")
    run_git(place.top, "worktree", "unlock", added.path)
    run_git(place.top, "worktree", "remove", added.path)
    Path(added.path).mkdir()
    assert place.state("one").tampered == ("admin",)


def test_each_checked_out_branch_is_listed_with_its_path(place: Place) -> None:
    place.add("a/b")
    run_git(place.top, "branch", "free")
    places = {"main": str(place.top), "a/b": str(place.path("a/b"))}
    assert worktree.branches_checked_out(place.repository) == places


def test_deleted_branch_is_kept_under_a_ref_and_can_be_restored(place: Place) -> None:
    run_git(place.top, "branch", "a/b", commit(place.top, "new.txt", "x"))
    tip = run_git(place.top, "rev-parse", "a/b")
    run_git(place.top, "pack-refs", "--all")
    kept = worktree.delete_branch(place.view, "a/b")
    assert kept == f"refs/fleet/deleted/a/b/{tip[:12]}"
    assert branches(place.top) == ["main"]
    assert run_git(place.top, "rev-parse", kept) == tip
    run_git(place.top, "branch", "a/b", kept)
    assert worktree.delete_branch(place.view, "a/b") == kept
    run_git(place.top, "fsck", "--strict")


def test_checked_out_branch_is_not_deleted(place: Place) -> None:
    place.add("one")
    for branch in ("main", "one"):
        with pytest.raises(BranchInUse, match=f"{branch!r} is checked out at"):
            worktree.delete_branch(place.view, branch)
    with pytest.raises(BadInput, match="no such branch: 'oen'") as refused:
        worktree.delete_branch(place.view, "oen")
    assert "one" in refused.value.hint
    assert branches(place.top) == ["main", "one"]


def test_branch_is_not_deleted_when_its_tip_cannot_be_kept(place: Place) -> None:
    run_git(place.top, "branch", "one")
    run_git(place.top, "update-ref", "refs/fleet/deleted/one", "HEAD")
    with pytest.raises(GitFault):
        worktree.delete_branch(place.view, "one")
    assert branches(place.top) == ["main", "one"]


def test_base_may_be_any_commit_and_defaults_to_head(place: Place) -> None:
    place.add("one")
    mine = commit(place.path("one"), "mine.txt", "x")
    theirs = commit(place.top, "theirs.txt", "x")
    run_git(place.top, "tag", "-a", "v1", "-m", "one", mine)

    def base(name: str = "", cwd: Path | None = None) -> str:
        return worktree.resolve_base(place.repository, place.view, name, cwd=str(cwd or ""))

    assert base() == theirs
    assert base(cwd=place.path("one")) == mine
    assert base("HEAD", place.path("one")) == mine
    assert base("HEAD~1", place.path("one")) == place.base
    assert base("@^") == place.base
    assert base("one") == base("v1") == base(mine[:10]) == mine


HOSTILE = [
    "--help",
    "-x",
    "--output=x",
    "a b",
    "one\n",
    "x\0",
    "@{u}",
    "HEAD@{99}",
    "one:file1.txt",
    "HEAD^{tree}",
    "n" * 400,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_base_that_is_no_commit_is_refused(place: Place, name: str) -> None:
    with pytest.raises(BadInput):
        worktree.resolve_base(place.repository, place.view, name)
    assert not (place.folder / "x").exists()


def test_misspelled_base_gets_a_suggestion(place: Place) -> None:
    run_git(place.top, "branch", "feature/login")
    with pytest.raises(BadInput, match="'feature/logni' is not a commit") as refused:
        worktree.resolve_base(place.repository, place.view, "feature/logni")
    assert "feature/login" in refused.value.hint


def test_repository_without_commits_is_reported(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "--quiet", "project")
    repository = find_repository(str(tmp_path / "project"))
    with pytest.raises(BadInput, match="has no commit yet"):
        worktree.resolve_base(repository, View(Home(str(tmp_path / "home")), repository))
