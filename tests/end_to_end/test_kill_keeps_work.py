"""`fleet kill` in every state of a worktree: the printed commands restore the work byte for byte.

Before the restore, the test discards objects that only reflogs reference, as git does in time.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from repositories import commit, files_below, make_repository, run_git
from terminals import Terminals, home

__all__ = ["home"]

#: Lets git clone a submodule from this machine.
LOCAL = ("-c", "protocol.file.allow=always")


class Work(NamedTuple):
    """Work that must be restored: texts in files beside the repository, and branches at commits."""

    files: tuple[tuple[str, str], ...] = ()
    branches: tuple[tuple[str, str], ...] = ()


def dirty(tree: Path) -> Work:
    (tree / "file1.txt").write_text("changed, not committed\n")
    return Work((("file1.txt", "changed, not committed\n"),))


def untracked(tree: Path) -> Work:
    name = 'new folder/it\'s "new".txt'
    (tree / name).parent.mkdir()
    (tree / name).write_text("never added\n")
    return Work(((name, "never added\n"),))


def ignored(tree: Path) -> Work:
    (tree / ".env").write_text("KEY=worth-keeping\n")
    return Work(((".env", "KEY=worth-keeping\n"),))


def staged(tree: Path) -> Work:
    (tree / "file1.txt").write_text("staged\n")
    run_git(tree, "add", "file1.txt")
    (tree / "file1.txt").write_text("and changed again\n")
    return Work((("file1.txt", "staged\n"), ("file1.txt", "and changed again\n")))


def stashed(tree: Path) -> Work:
    (tree / "file1.txt").write_text("stashed\n")
    run_git(tree, "stash", "push", "--quiet")
    return Work((("file1.txt", "stashed\n"),))


def detached(tree: Path) -> Work:
    run_git(tree, "checkout", "--quiet", "--detach")
    commit(tree, "detached.txt", "on no branch\n")
    return Work((("detached.txt", "on no branch\n"),))


def unpushed(tree: Path) -> Work:
    return Work(branches=(("work", commit(tree, "unpushed.txt", "on the branch alone\n")),))


def submodule(tree: Path) -> Work:
    inner = tree / "library"
    run_git(tree, *LOCAL, "submodule", "--quiet", "update", "--init")
    assert (inner / ".git").is_file(), "a submodule's git folder is elsewhere"
    commit(inner, "inner.txt", "committed inside\n")
    (inner / "file1.txt").write_text("changed inside\n")
    return Work((("inner.txt", "committed inside\n"), ("library/file1.txt", "changed inside\n")))


def rebasing(tree: Path) -> Work:
    run_git(tree, "checkout", "--quiet", "-b", "side-of-rebase")
    theirs = commit(tree, "file1.txt", "theirs\n")
    run_git(tree, "checkout", "--quiet", "work")
    ours = commit(tree, "file1.txt", "ours\n")
    run_git(tree, "rebase", "side-of-rebase", check=False)
    text = (tree / "file1.txt").read_text()
    assert "<<<<<<<" in text
    return Work((("file1.txt", text),), (("work", ours), ("side-of-rebase", theirs)))


def hooked(tree: Path) -> Work:
    common = Path(run_git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    assert (common / "hooks" / "pre-commit").exists()
    (tree / "file2.txt").write_text("no hook lets it in\n")
    run_git(tree, "add", "file2.txt")
    return Work((("file2.txt", "no hook lets it in\n"),))


STATES = [dirty, untracked, ignored, staged, stashed, detached, unpushed, submodule, rebasing, hooked]


def prepare(repo: Path, leave: Callable[[Path], Work]) -> None:
    """Prepare the repository for a state before the worktree exists."""
    commit(repo, ".gitignore", ".env\n")
    if leave is submodule:
        library = make_repository(repo.parent / "of-others" / "library")
        run_git(repo, *LOCAL, "submodule", "--quiet", "add", str(library), "library")
        run_git(repo, "commit", "--quiet", "--message=with a submodule")
    if leave is hooked:
        hook = repo / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)


def _holds(file: Path, text: str) -> bool:
    """Return True if a file has this text, False if it has another or was deleted meanwhile."""
    try:
        return file.read_text() == text
    except OSError:
        return False


def missing(repo: Path, work: Work) -> list[object]:
    """Return the parts of the work that are neither in a file beside the repository nor on a branch."""
    lost: list[object] = []
    for name, text in work.files:
        found = any(_holds(file, text) for file in files_below(repo.parent) if str(file).endswith(f"/{name}"))
        lost += [] if found else [(name, text)]
    for branch, tip in work.branches:
        at = run_git(repo, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
        lost += [] if at == tip else [(branch, tip)]
    return lost


def thrown_away(repo: Path) -> None:
    """Discard objects that only reflogs reference, as git does in time."""
    run_git(repo, "reflog", "expire", "--expire=now", "--all")
    run_git(repo, "gc", "--quiet", "--prune=now")


@pytest.mark.parametrize("leave", STATES, ids=lambda leave: str(leave.__name__))
def test_commands_printed_by_kill_restore_the_work(home: Terminals, leave: Callable[[Path], Work]) -> None:
    prepare(home.repo, leave)
    made = home.told("create", "work")
    home.wait_listed("work", "idle", "working")
    work = leave(Path(made["worktree"]))
    printed = home.fleet.ok("kill", "work", "--force", "--delete-branch")
    assert not Path(made["worktree"]).exists() and home.worktrees() == set() and "work" not in home.branches()
    thrown_away(home.repo)
    assert missing(home.repo, work), "it is only kept"
    commands = [line.strip() for line in printed.splitlines() if line.startswith("    ")]
    for command in commands:
        home.typed(command)
    assert missing(home.repo, work) == [], printed


def test_kill_json_contains_the_printed_commands(home: Terminals) -> None:
    made = home.told("create", "work")
    home.wait_listed("work", "idle", "working")
    tip = commit(Path(made["worktree"]), "own.txt", "committed\n")
    (killed,) = home.told("kill", "work", "--delete-branch")
    (command,) = killed["commands"]
    assert shlex.split(command) == ["git", "-C", str(home.repo), "branch", "work", killed["branch_kept"]]
    home.typed(command)
    assert run_git(home.repo, "rev-parse", "work") == tip


def test_kill_just_removes_an_untouched_worktree(home: Terminals) -> None:
    home.told("create", "untouched")
    home.wait_listed("untouched", "idle", "working")
    (killed,) = home.told("kill", "untouched")
    assert (killed["saved"], killed["commands"], killed["branch_deleted"]) == ([], [], False)
    assert home.branches() == {"untouched"} and home.worktrees() == set()
    assert run_git(home.repo, "for-each-ref", "refs/fleet") == ""
