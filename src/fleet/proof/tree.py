"""The changes of files as git shows them, read through fleet's view, never with an agent's hooks or settings (E5)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.jsontext import decode
from fleet.core.record import Record
from fleet.core.task import DIRECTORY, WORKTREE
from fleet.git.commits import FLEET
from fleet.git.diffs import DiffSize, shortstat
from fleet.git.save.leftovers import leftover_subject
from fleet.git.view import View
from fleet.git.work_done import (
    LONGEST_WORDS,
    MOST_COMMITS,
    FileChange,
    WorkCommit,
    begun_at,
    count_commits,
    file_changes,
    newest_commits,
    only_blank,
)
from fleet.proof.baseline import directory_repository, spawn_of
from fleet.proof.scope import primary

if TYPE_CHECKING:
    from typing import Any

    from fleet.core.run import Run
    from fleet.git.save.leftovers import Leftover
    from fleet.home import Home
    from fleet.supervisor.run.work import Work

MOST_FILES = 500


class TreeEvidence(Record):
    """The changed files and commits, and the states that were compared."""

    kind: str = DIRECTORY
    view: View | None = None
    branch: str = ""
    base: str = ""
    tip: str = ""  # a commit, or a tree if nothing was committed
    count: int = 0  # the number of commits
    commits: tuple[WorkCommit, ...] = ()
    files: tuple[FileChange, ...] | None = None  # None if nothing can be compared
    blank: bool = False
    leftover: str = ""
    others: int = 0  # other runs in the same directory at its start

    @property
    def changed(self) -> int | None:
        """Return the number of changed files. Return None if nothing can be compared."""
        return None if self.files is None else len(self.files)

    def piece(self) -> dict[str, Any]:
        """Return the tree as a part of the receipt."""
        files = self.files or ()
        return {
            "workspace": self.kind,
            "branch": self.branch,
            "base": self.base,
            "tip": self.tip,
            "commit_count": self.count,
            "commits": [commit.as_dict() for commit in self.commits],
            "file_count": self.changed,
            "files": [_make_row(change) for change in files[:MOST_FILES]],
            "added": sum(change.added or 0 for change in files),
            "removed": sum(change.removed or 0 for change in files),
            "blank": self.blank,
            "leftover": self.leftover,
        } | ({"others": self.others} if self.others else {})


def of_worktree(work: Work, run: Run, *, committed: bool, left: Leftover | None = None) -> TreeEvidence:
    """Return the changes between a worktree's base and its branch. Without `committed` compare the working files.

    `left` is what fleet has just committed itself. Raises FleetError, OSError.
    """
    space = work.workspace
    tip, base = work.tip, space.base_commit
    made = TreeEvidence(
        kind=WORKTREE, view=work.view, branch=space.branch, base=base, tip=tip or "", leftover=run.leftover
    )
    if not base or (tip is None and committed):
        return made
    base = begun_at(work.view, base, tip, _find_main_at_start(run)) if tip else base
    made = made.replace(base=base)
    end = tip if committed and tip else work.tree()
    found = file_changes(work.view, base, end) if end != base else []
    own = _find_own_commit(run, left, base, tip)
    commits = own or (tuple(newest_commits(work.view, base, tip)) if tip not in (None, base) else ())
    count = len(commits) if len(commits) < MOST_COMMITS else count_commits(work.view, base, tip or "")
    return made.replace(
        tip=end,
        count=count,
        commits=commits,
        files=tuple(found),
        blank=only_blank(work.view, base, end, found),
    )


def _find_own_commit(run: Run, left: Leftover | None, base: str, tip: str | None) -> tuple[WorkCommit, ...]:
    """Return the commit that fleet made of a run's leftovers if the branch has no other, as git would list it."""
    subject = leftover_subject(run.id)
    if left is None or left.commit is None or (left.commit, left.parent) != (tip, base) or len(subject) > LONGEST_WORDS:
        return ()
    return (WorkCommit(id=left.commit, subject=subject, author=FLEET.name, at=left.at),)


def _find_main_at_start(run: Run) -> str:
    """Return the commit of the main checkout when a run began. Return "" if unknown."""
    try:
        head = decode(spawn_of(run).get("primary") or "{}").get("head")
    except (ValueError, AttributeError):
        return ""
    return str(head[1]) if isinstance(head, list) and len(head) == 2 else ""


def size_of(work: Work, tree: TreeEvidence) -> DiffSize:
    """Return the size of a worktree's changes. A renamed file counts once. Raises GitFault."""
    files = tree.files or ()
    if {"A", "D"} <= {change.status for change in files}:  # there may be renames
        return shortstat(work.view, tree.base, tree.tip)
    added, removed = sum(change.added or 0 for change in files), sum(change.removed or 0 for change in files)
    return DiffSize(files=len(files), added=added, removed=removed)


def of_directory(home: Home, run: Run) -> TreeEvidence:
    """Return the changes in a plain directory since the start of a run. Without git the files are unknown."""
    before = spawn_of(run)
    made = TreeEvidence(others=int(before.get("others") or 0))
    repository = directory_repository(home, run.workspace) if before.get("primary") else None
    if repository is None:
        return made
    view = View(home, repository)
    old, new = before["primary"], primary.mark(view)
    if not old or not new:
        return made
    (branch, base), (_, tip) = (decode(mark).get("head") or ("", "") for mark in (old, new))
    made = made.replace(view=view, branch=branch, base=base, tip=tip)
    try:
        moved = file_changes(view, base, tip) if base and tip and base != tip else []
        count = count_commits(view, base, tip) if moved else 0
        named = tuple(newest_commits(view, base, tip)) if moved else ()
    except FleetError:
        return made
    known = {change.path for change in moved}
    dirty = [FileChange(path=path, status="M") for path in primary.changed(old, new) if path not in known]
    if not moved and not dirty and decode(old).get("more") != decode(new).get("more"):
        return made.replace(count=count, commits=named)  # the changed files are among those that a mark does not name
    return made.replace(count=count, commits=named, files=(*moved, *dirty))


def _make_row(change: FileChange) -> dict[str, Any]:
    path = os.fsencode(change.path).decode("utf-8", "replace")
    row = {"path": path, "status": change.status, "added": change.added, "removed": change.removed}
    return row | ({"submodule": True} if change.submodule else {})
