"""Trial merges: a branch put on top of another commit in git's object store, without a worktree."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.core.task import ALREADY_MERGED
from fleet.git.commits import FLEET, Person, commits_between, is_ancestor, make_commit, merge_base, tree_of
from fleet.git.process import GitFault

if TYPE_CHECKING:
    from fleet.git.commits import Commit
    from fleet.git.view import View

SQUASH, MERGE, REBASE = "squash", "merge", "rebase"
#: Maximum number of files in conflict that are reported.
MOST_FILES = 200
MOST_ATTRIBUTES = 1 << 20
#: Prefix of trailer lines that only fleet may write.
OURS = "fleet-"
IN_CONFLICT = 1
NOTHING_NEW = "it has no changes that the target lacks"


class BranchToMerge(Record):
    """A branch to merge, as it was when the merge began."""

    name: str
    tip: str
    message: str  # for the single commit that is made of it
    trailers: tuple[str, ...] = ()  # for each commit that is recreated
    author: Person = FLEET
    merged: str = ""  # a commit of the branch up to which it was already merged, though git does not know


class Trial(Record):
    """The result of one trial."""

    commit: str = ""  # the branch's work on top of the other commit; "" if impossible
    why: str = ""  # why it is impossible
    files: tuple[str, ...] = ()  # the files in conflict


class Trials:
    """Trial merges in one repository with one strategy."""

    def __init__(self, view: View, strategy: str, committer: Person = FLEET) -> None:
        self._view = view
        self._strategy = strategy
        self._committer = committer

    def put(self, change: BranchToMerge, onto: str) -> Trial:
        """Return the result of putting a branch on top of a commit.

        Raises GitFault for failures other than conflicts.
        """
        base = merge_base(self._view, onto, change.tip)
        if base is None:
            return Trial(why="it has no commit in common with the target")
        if base == change.tip:
            return Trial(why=ALREADY_MERGED)
        return self._try_replayed(change, onto, base) if self._strategy == REBASE else self._try_joined(change, onto)

    def _try_joined(self, change: BranchToMerge, onto: str) -> Trial:
        """Put the branch on the commit as one commit."""
        ours, own = onto, tree_of(self._view, onto)
        if change.merged and is_ancestor(self._view, change.merged, change.tip):
            # An earlier squash: give git the missing parent, so that the same lines do not conflict with themselves.
            ours = make_commit(self._view, own, (onto, change.merged), "as merged before")
        tree, files = self._merge_trees(ours, change.tip, onto)
        if files:
            return Trial(why="it is in conflict with the target", files=files)
        if tree == own:
            return Trial(why=NOTHING_NEW)
        parents = (onto, change.tip) if self._strategy == MERGE else (onto,)
        return Trial(commit=self._make_commit(tree, parents, change.message, change.author))

    def _try_replayed(self, change: BranchToMerge, onto: str, base: str) -> Trial:
        """Put the branch's commits on the commit one by one."""
        first, own = onto, tree_of(self._view, onto)
        since = change.merged if change.merged and is_ancestor(self._view, change.merged, change.tip) else base
        for commit in commits_between(self._view, since, change.tip, merges=False):
            tree, files = self._pick_commit(commit, onto, own)
            if files:
                why = f"its commit {commit.id[:10]} is in conflict with the target"
                return Trial(why=why, files=files)
            if tree != own:
                message = _add_trailers(commit.message, change.trailers)
                onto, own = self._make_commit(tree, (onto,), message, commit.author), tree
        return Trial(commit=onto) if onto != first else Trial(why=NOTHING_NEW)

    def _pick_commit(self, commit: Commit, onto: str, own: str) -> tuple[str, tuple[str, ...]]:
        """Return the tree and conflicts of one commit's changes on top of another commit.

        Git 2.39 has no option for the merge base, so a temporary commit defines it.
        """
        if not commit.parents:
            return self._merge_trees(onto, commit.id, onto)
        ours = make_commit(self._view, own, commit.parents[:1], "where it is put")
        return self._merge_trees(ours, commit.id, onto)

    def _merge_trees(self, ours: str, theirs: str, onto: str) -> tuple[str, tuple[str, ...]]:
        with _Attributes(self._view, onto) as settings:
            words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
            told = self._view.git(*settings, *words, ours, theirs, allow=(IN_CONFLICT,))
        tree, *names = told.split(b"\0")
        files = tuple(dict.fromkeys(os.fsdecode(name) for name in names if name))[:MOST_FILES]
        if not tree.strip().isalnum():
            raise GitFault(("merge-tree",), IN_CONFLICT, "it named no tree")
        return tree.decode().strip(), files

    def _make_commit(self, tree: str, parents: tuple[str, ...], message: str, author: Person) -> str:
        return make_commit(self._view, tree, parents, message, author=author, committer=self._committer)


class _Attributes:
    """The merge attributes of the target (`merge=union`, `binary`), because a view has no attributes.

    A view runs no merge drivers, so git merges files with a driver as text.
    """

    def __init__(self, view: View, onto: str) -> None:
        self._view, self._onto, self._file = view, onto, ""

    def __enter__(self) -> tuple[str, ...]:
        told = self._view.git("cat-file", "blob", f"{self._onto}:.gitattributes", allow=(128,))
        if not told or len(told) > MOST_ATTRIBUTES:
            return ()
        handle, self._file = tempfile.mkstemp(prefix="attributes-", dir=self._view.path)
        with os.fdopen(handle, "wb") as file:
            file.write(told)
        return ("-c", f"core.attributesFile={self._file}")

    def __exit__(self, *error: object) -> None:
        if self._file:
            os.unlink(self._file)  # noqa: PTH108


def _add_trailers(message: str, trailers: tuple[str, ...]) -> str:
    """Return a message with fleet's trailers, and without such lines by others."""
    kept = "\n".join(line for line in message.splitlines() if not line.lower().startswith(OURS)).strip("\n")
    return "\n\n".join(part for part in (kept, "\n".join(trailers)) if part) + "\n"
