"""Committing uncommitted work of an agent to its branch, without hooks and without force."""

# ruff: noqa: PTH118
from __future__ import annotations

import os
import stat
from datetime import datetime
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.files import atomic_write
from fleet.git.commits import FLEET, make_commit, tree_of
from fleet.git.process import GitFault
from fleet.git.repository import locked
from fleet.git.save.snapshot import Snapshot, WorktreeTree
from fleet.git.worktree_index import LeftOutFile, sparse_paths
from fleet.git.worktree_place import LONGEST, read_plain

if TYPE_CHECKING:
    from fleet.git.view import View
    from fleet.git.worktree_place import WorktreePlace
    from fleet.home import Home

#: The reflog message of such a commit.
SAID = "fleet: what was left"


class Leftover(Record):
    """What happened to the files that a run left uncommitted."""

    commit: str | None = None  # None if nothing was left or nothing could be committed
    parent: str = ""  # of that commit
    at: str = ""  # when the commit was made, as git shows it
    files: tuple[str, ...] = ()
    left_out: tuple[LeftOutFile, ...] = ()
    why_not: str = ""  # why the files were not committed


def leftover_subject(run_id: str) -> str:
    """Return the subject of the commit that holds what a run left."""
    return f"fleet: what {run_id} left uncommitted"


def commit_leftovers(home: Home, view: View, place: WorktreePlace, index_file: str, message: str) -> Leftover:
    """Commit the differences from the branch's tip. Takes the repository's lock. Raises GitFault.

    Nothing is committed while the worktree is on another branch or a git operation is in progress. The agent must
    finish such a state, and `save` preserves it.
    """
    if why := _explain_refusal(place):
        return Leftover(why_not=why)
    tip = view.tip_of(place.branch)
    if tip is None:
        return Leftover(why_not=f"branch {place.branch} is gone")
    taken = Snapshot(view, place, index_file).take(tip)
    if taken.tree == tree_of(view, tip):
        return Leftover(left_out=taken.left_out)
    return _commit_changes(home, view, place, taken, tip, index_file, message)


def _explain_refusal(place: WorktreePlace) -> str:
    if place.admin is None:
        return "git no longer knows the worktree"
    if what := place.going_on():
        return f"a {what} is in progress"
    return "" if place.on_branch() else f"the worktree is no longer on branch {place.branch}"


def _commit_changes(
    home: Home, view: View, place: WorktreePlace, taken: WorktreeTree, tip: str, index_file: str, message: str
) -> Leftover:
    now = datetime.now().astimezone().replace(microsecond=0)
    author = FLEET.replace(at=f"{now.timestamp():.0f} {now:%z}")
    made = make_commit(view, taken.tree, (tip,), message, author=author, committer=author)
    with locked(home, view.repository):
        try:
            view.git("update-ref", "-m", SAID, f"refs/heads/{place.branch}", made, tip)
        except GitFault:
            if view.tip_of(place.branch) == tip:  # the branch did not move, so something else is wrong
                raise
            return Leftover(left_out=taken.left_out, why_not=f"branch {place.branch} moved in the meantime")
        _hand_index(view, place, index_file)
    return Leftover(commit=made, parent=tip, at=now.isoformat(), files=taken.changed, left_out=taken.left_out)


def _hand_index(view: View, place: WorktreePlace, index_file: str) -> None:
    """Write the index of the new commit into the worktree, so that the agent's next `git status` is clean."""
    assert place.admin is not None
    sparse = set() if _has_all(place) else sparse_paths(view, place, index_file + ".theirs")
    if sparse:
        view.git(
            "update-index",
            "-z",
            "--skip-worktree",
            "--stdin",
            tree=place.path,
            index=index_file,
            stdin=b"\0".join(sparse),
        )
    theirs = os.path.join(os.path.realpath(place.admin), "index")
    # If git's index is not a plain file, write nothing: not through a link and not over a folder.
    if not os.path.lexists(theirs) or stat.S_ISREG(os.lstat(theirs).st_mode):
        atomic_write(theirs, read_plain(index_file, LONGEST), 0o644)


def _has_all(place: WorktreePlace) -> bool:
    """Return True if all files were checked out: the index is the one that git made, and no sparse checkout is set."""
    assert place.admin is not None
    return place.nothing_staged() and not os.path.lexists(os.path.join(place.admin, "info", "sparse-checkout"))
