"""`fleet kill` on every state a worktree can be left in: what it prints brings the work back, byte for byte.

Before that, whatever git holds only by its reflogs is thrown away, as git itself does in time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from repositories import commit, make_repository, run_git
from terminals import Terminals, home

__all__ = ["home"]


class Work(NamedTuple):
    """What must be there again: files that the printed commands bring back, and commits and texts that refs hold."""

    files: dict[str, str]
    held: tuple[str, ...] = ()  # object ids


def dirty(tree: Path) -> Work:
    (tree / "file1.txt").write_text("changed, not committed\n")
    return Work({"file1.txt": "changed, not committed\n"})


def untracked(tree: Path) -> Work:
    name = 'new folder/it\'s "new".txt'
    (tree / name).parent.mkdir()
    (tree / name).write_text("never added\n")
    return Work({name: "never added\n"})


def ignored(tree: Path) -> Work:
    (tree / ".env").write_text("KEY=worth-keeping\n")
    return Work({".env": "KEY=worth-keeping\n"})


def staged(tree: Path) -> Work:
    (tree / "file1.txt").write_text("staged\n")
    run_git(tree, "add", "file1.txt")
    (tree / "file1.txt").write_text("and changed again\n")
    return Work({"file1.txt": "and changed again\n"}, (run_git(tree, "hash-object", "--stdin", stdin=b"staged\n"),))


def stashed(tree: Path) -> Work:
    (tree / "file1.txt").write_text("stashed\n")
    run_git(tree, "stash", "push", "--quiet")
    return Work({}, (run_git(tree, "hash-object", "--stdin", stdin=b"stashed\n"),))


def detached(tree: Path) -> Work:
    run_git(tree, "checkout", "--quiet", "--detach")
    return Work({}, (commit(tree, "detached.txt", "on no branch\n"),))


def unpushed(tree: Path) -> Work:
    return Work({}, (commit(tree, "unpushed.txt", "on the branch alone\n"),))


def submodule(tree: Path) -> Work:
    inner = make_repository(tree / "inner")
    tip = commit(inner, "inner.txt", "committed inside\n")
    (inner / "file1.txt").write_text("changed inside\n")
    return Work({"inner/file1.txt": "changed inside\n"}, (tip,))


def rebasing(tree: Path) -> Work:
    run_git(tree, "checkout", "--quiet", "-b", "side-of-rebase")
    theirs = commit(tree, "file1.txt", "theirs\n")
    run_git(tree, "checkout", "--quiet", "work")
    ours = commit(tree, "file1.txt", "ours\n")
    run_git(tree, "rebase", "side-of-rebase", check=False)
    text = (tree / "file1.txt").read_text()
    assert "<<<<<<<" in text
    return Work({"file1.txt": text}, (theirs, ours))


def hooked(tree: Path) -> Work:
    common = Path(run_git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    assert (common / "hooks" / "pre-commit").exists()
    (tree / "file2.txt").write_text("no hook lets it in\n")
    run_git(tree, "add", "file2.txt")
    return Work({"file2.txt": "no hook lets it in\n"})


STATES = [dirty, untracked, ignored, staged, stashed, detached, unpushed, submodule, rebasing, hooked]


@pytest.mark.parametrize("leave", STATES, ids=lambda leave: str(leave.__name__))
def test_what_kill_prints_brings_the_work_back(home: Terminals, leave: Callable[[Path], Work]) -> None:
    commit(home.repo, ".gitignore", ".env\n")
    if leave is hooked:
        hook = home.repo / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    made = home.told("create", "work")
    home.wait_listed("work", "idle", "working")
    work = leave(Path(made["worktree"]))
    (killed,) = home.told("kill", "work", "--force", "--delete-branch")
    assert not Path(made["worktree"]).exists() and home.worktrees() == set()
    run_git(home.repo, "reflog", "expire", "--expire=now", "--all")
    run_git(home.repo, "gc", "--quiet", "--prune=now")
    reachable = {line.split()[0] for line in run_git(home.repo, "rev-list", "--objects", "--all").splitlines()}
    assert set(work.held) <= reachable, killed
    for command in killed["commands"]:
        home.typed(command)
    for name, text in work.files.items():
        found = [path for path in home.repo.parent.glob(f"**/{name}") if path.read_text() == text]
        assert found, (name, killed)


def test_kill_says_where_nothing_is_at_stake(home: Terminals) -> None:
    """A worktree in which nothing was done is just removed."""
    home.told("create", "untouched")
    home.wait_listed("untouched", "idle", "working")
    (killed,) = home.told("kill", "untouched")
    assert (killed["saved"], killed["commands"], killed["branch_deleted"]) == ([], [], False)
    assert home.branches() == {"untouched"} and home.worktrees() == set()
    assert run_git(home.repo, "for-each-ref", "refs/fleet") == ""
