"""A repository with an agent's worktree, and the steps by which a user restores saved work."""

import os
import subprocess
from pathlib import Path

from fleet.git.repository import Repository, find_repository
from fleet.git.save.worktree import SavedWork, save
from fleet.git.untrusted_folders import delete
from fleet.git.view import View
from fleet.git.worktree_place import WorktreePlace
from fleet.git.worktree_records import admin_of
from fleet.home import Home
from repositories import IDENTITY, make_repository, run_git

BRANCH = "fix-it"
IGNORE = ".env\n*.db\nnode_modules/\nbuild/\ntarget/\n"


class Scene:
    """A user's repository, an agent's worktree, and fleet's view of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = make_repository(folder / "repo")
        (self.top / ".gitignore").write_text(IGNORE)
        run_git(self.top, "add", "--all")
        run_git(self.top, "commit", "--quiet", "--message=ignore")
        self.work = folder / "worktrees" / BRANCH
        run_git(self.top, "worktree", "add", "--quiet", "-b", BRANCH, str(self.work))
        self.home = Home(str(folder / "home"))
        self.repository: Repository = find_repository(str(self.top))
        self.view = View(self.home, self.repository)
        self.index_file = str(folder / "home" / "indexes" / "one")
        self.base = self.tip()

    @property
    def admin(self) -> Path:
        found = admin_of(self.repository, str(self.work))
        assert found is not None
        return Path(found)

    def place(self, **changes: object) -> WorktreePlace:
        admin = admin_of(self.repository, str(self.work))
        return WorktreePlace(path=str(self.work), branch=BRANCH, admin=admin).replace(**changes)

    def git(self, *words: str, check: bool = True) -> str:
        """Run git as the agent does. Return its output."""
        return run_git(self.work, *words, check=check)

    def tip(self) -> str:
        return run_git(self.top, "rev-parse", f"refs/heads/{BRANCH}")

    def save(
        self, place: WorktreePlace | None = None, *, max_ignored_mb: int = 8, with_ignored: bool = True
    ) -> SavedWork:
        place = place or self.place()
        return save(
            *(self.home, self.view, place), "fleet-1", 1, max_ignored_mb=max_ignored_mb, with_ignored=with_ignored
        )

    def remove(self) -> None:
        """Delete the worktree and git's folder about it, then let git clean up."""
        admin = self.admin
        delete(str(self.work))
        delete(str(admin))
        run_git(self.top, "worktree", "prune", "--expire=now")
        run_git(self.top, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "refs/heads/main")
        run_git(self.top, "gc", "--quiet", "--prune=now")

    def run(self, command: str) -> None:
        """Run a printed command in a shell outside of the repository, as a user does."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | IDENTITY
        done = subprocess.run(["sh", "-c", command], cwd=self.folder, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def bring_back(self, saved: SavedWork) -> Path:
        """Remove the worktree and run each printed command. Return the folder with the restored files."""
        self.remove()
        for command in saved.commands:
            self.run(command)
        return self.folder / "repo-fleet-1-1"


def write(path: Path, data: bytes | str) -> None:
    """Write a file and create its parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
