"""The work in a task's worktree as git sees it, read through fleet's own view, never with an agent's settings."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.files import atomic_write
from fleet.git.commits import tree_of
from fleet.git.diffs import DiffSize, shortstat
from fleet.git.ignored_files import SKIPPED, find_ignored
from fleet.git.repository import Repository
from fleet.git.save.snapshot import Snapshot, note_taken_over
from fleet.git.save.worktree import save
from fleet.git.view import View
from fleet.git.worktree_place import WorktreePlace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.core.workspace import Workspace
    from fleet.git.save.worktree import SavedWork
    from fleet.home import Home
    from fleet.settings.project_sections import SaveSettings


#: Maximum number of ignored files from setup to remember. Further files are saved like any others.
MOST_MADE = 20_000


class Work:
    """A worktree and fleet's access to it."""

    def __init__(self, home: Home, workspace: Workspace) -> None:
        self.home, self.workspace = home, workspace
        #: The repository as recorded when the worktree was created. The worktree itself is not asked.
        self.repository = Repository(top=workspace.repo, common=workspace.common)
        self.view = View(home, self.repository)

    @property
    def admin(self) -> str:
        """Return git's administrative folder of the worktree as recorded at its creation. Return "" if unknown."""
        return str(self.workspace.made.get("admin") or "")

    @property
    def place(self) -> WorktreePlace:
        """Return the worktree in the form that saving and committing need."""
        space = self.workspace
        index = space.made.get("index")
        return WorktreePlace(
            path=space.path,
            branch=space.branch,
            admin=self.admin or None,
            made=self._made(),
            known=self.index,
            index=(index[0], index[1]) if index else None,
        )

    def take_index(self, admin: str, commit: str) -> None:
        """Start with the index that git created when it checked out a commit. No agent has worked there yet."""
        with contextlib.suppress(OSError):  # only an optimization
            shutil.copyfile(os.path.join(admin, "index"), self.index)  # noqa: PTH118
            os.chmod(self.index, 0o600)  # noqa: PTH101
            note_taken_over(self.index, commit)

    def note_made(self, copied: Iterable[str]) -> None:
        """Record the ignored files that setup put into the worktree. They are not saved while they are unchanged."""
        with tempfile.TemporaryDirectory(prefix="made-", dir=self.home.task(self.workspace.task_id)) as folder:
            index = os.path.join(folder, "index")  # noqa: PTH118
            self.view.git("read-tree", self.workspace.base_commit, index=index)
            found = find_ignored(self.view, self.workspace.path, index, SKIPPED, {})
        stats = {}
        for path in sorted({*found.sizes, *copied})[:MOST_MADE]:
            with contextlib.suppress(OSError):
                seen = os.lstat(os.path.join(self.workspace.path, path))  # noqa: PTH118
                stats[path] = (seen.st_size, seen.st_mtime_ns)
        atomic_write(self._list, json.dumps(stats).encode(), 0o600)

    @property
    def _list(self) -> str:
        return os.path.join(self.home.task(self.workspace.task_id), "made.json")  # noqa: PTH118

    def _made(self) -> dict[str, tuple[int, int]]:
        try:
            with open(self._list, encoding="ascii") as file:  # noqa: PTH123
                return {path: (size, at) for path, (size, at) in json.load(file).items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    @property
    def index(self) -> str:
        """Return the path of fleet's own index of the worktree.

        It is kept, so that unchanged files are not read again.
        """
        return os.path.join(self.home.task(self.workspace.task_id), "index")  # noqa: PTH118

    @property
    def tip(self) -> str | None:
        """Return the tip of the worktree's branch."""
        return self.view.tip_of(self.workspace.branch)

    def tree(self) -> str:
        """Return the tree of the working files, including uncommitted changes. Raises GitFault."""
        place = self.place
        return Snapshot(self.view, place, self.index).tree(place.head(self.view) or self.workspace.base_commit)

    def size(self) -> DiffSize:
        """Return how much the worktree differs from its base. Raises GitFault, OSError."""
        base, tree = self.workspace.base_commit, self.tree()
        return DiffSize() if tree == tree_of(self.view, base) else shortstat(self.view, base, tree)


def save_all(home: Home, space: Workspace, run_number: int, settings: SaveSettings, *, with_ignored: bool) -> SavedWork:
    """Save what only a worktree holds. Raises FleetError, and the worktree must stay."""
    work = Work(home, space)
    saved = save(
        home,
        work.view,
        work.place,
        space.task_id,
        run_number,
        skip_ignored=settings.skip,
        max_ignored_mb=settings.ignored_mb,
        with_ignored=with_ignored,
    )
    if saved.too_large:
        largest = ", ".join(saved.too_large[:3])
        raise FleetError(f"its ignored files exceed {settings.ignored_mb} MB: {largest}")
    return saved
