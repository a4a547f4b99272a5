"""A repository with a home beside it, and worktrees between them, for the tests of workspaces."""

from collections.abc import Callable
from pathlib import Path

from fleet.core.branch import folder_of
from fleet.git import worktree
from fleet.git.repository import Repository, find_repository
from fleet.git.view import View
from fleet.home import Home
from repositories import branches, make_repository, run_git, worktrees


class Place:
    """A repository, a home, and worktrees between them."""

    def __init__(self, folder: Path, make: Callable[[Path], Path] = make_repository) -> None:
        self.folder = folder
        self.top = make(folder / "project")
        self.home = Home(str(folder / "home"))
        self.repository: Repository = find_repository(str(self.top))
        self.view = View(self.home, self.repository)
        self.base = run_git(self.top, "rev-parse", "HEAD")

    def path(self, branch: str) -> Path:
        return self.folder / "worktrees" / folder_of(branch)

    def add(self, branch: str, *, base: str = "", made: bool = True) -> worktree.AddedWorktree:
        path = str(self.path(branch))
        return worktree.add(
            self.home, self.repository, path=path, branch=branch, base_commit=base or self.base, made=made
        )

    def undo(self, branch: str, *, made: bool = True) -> None:
        path = str(self.path(branch))
        worktree.undo(self.home, self.repository, path=path, branch=branch, base_commit=self.base, made=made)

    def remove(self, branch: str) -> None:
        worktree.remove(self.home, self.repository, str(self.path(branch)))

    def state(self, branch: str) -> worktree.WorktreeState:
        return worktree.state_of(self.repository, str(self.path(branch)))

    def assert_untouched(self) -> None:
        """Check that only the main checkout and its branch exist, and that git finds no fault."""
        assert branches(self.top) == ["main"]
        assert worktrees(self.top) == [str(self.top)]
        admin = self.top / ".git" / "worktrees"
        assert not admin.exists() or list(admin.iterdir()) == []
        assert list((self.top / ".git").glob("**/*.lock")) == []
        assert not list((self.top / ".git").glob("fleet-gone-*"))
        folder = self.folder / "worktrees"
        assert not folder.exists() or list(folder.iterdir()) == []
        run_git(self.top, "fsck", "--strict")
