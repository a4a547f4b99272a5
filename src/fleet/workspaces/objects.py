"""Commits of fleet's, and the trees of commits, each asked for once. Git alone writes objects."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.workspaces.known import know, known_tree

if TYPE_CHECKING:
    from fleet.workspaces.view import View

MOST_WRITTEN = 20_000


class Written(NamedTuple):
    """A commit that was written here."""

    parents: tuple[str, ...]
    message: str
    at: float


_written: dict[str, Written] = {}


def tree_of(view: View, commit: str) -> str:
    """The tree of a commit. Raises GitFault."""
    return known_tree(commit) or know(commit, view.text("rev-parse", "--verify", f"{commit}^{{tree}}"))


def written(commit: str) -> Written | None:
    """What was written here as this commit, if it was."""
    return _written.get(commit)


def write_commit(view: View, tree: str, parents: tuple[str, ...], message: str) -> str:
    """A commit of fleet's, which no branch has yet; its id. Raises GitFault."""
    now = time.time()
    when = f"{int(now)} {time.strftime('%z', time.localtime(now))}"
    more = [word for parent in parents for word in ("-p", parent)]
    env = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    made = view.git("commit-tree", tree, *more, "-F", "-", env=env, stdin=os.fsencode(message)).decode().strip()
    know(made, tree)
    if len(_written) >= MOST_WRITTEN:
        _written.clear()
    _written[made] = Written(parents, message, now)
    return made
