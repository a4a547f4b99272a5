"""Whether the work of a branch is in another one already: as git knows, or as fleet noted when it squashed it."""

# ruff: noqa: PTH123
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from fleet.workspaces.git import GitFault
from fleet.workspaces.place import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fleet.home import Home
    from fleet.workspaces.moving import Entry
    from fleet.workspaces.repository import Repository
    from fleet.workspaces.view import View

#: Where fleet notes which branches it moved itself; of a longer file the newest part is read.
LONGEST = 1 << 20


def landed_in(view: View, branch: str, tip: str, merged: Mapping[str, Any] | None = None) -> str:
    """The branch that has the work of another, whose tip this is; empty: none has.

    `merged` is what its task's metadata says of its merge: a squashed branch is in no history, and its commit is.
    """
    commits = [tip]
    if merged and merged.get("tip") == tip and isinstance(merged.get("commit"), str):
        commits.append(merged["commit"])
    for commit in commits:
        for name in _holders(view, commit):
            if name != branch:
                return name
    return ""


def _holders(view: View, commit: str) -> list[str]:
    if not commit.isalnum():
        return []
    form = "--format=%(refname:lstrip=2)"
    try:
        return view.text("for-each-ref", "--contains", commit, form, "refs/heads", "refs/remotes").splitlines()
    except GitFault:  # the commit is gone
        return []


def note_move(home: Home, entry: Entry) -> None:
    """Note that it was fleet who moved a branch, and the checkouts that have it."""
    told = {"common": entry.common, "branch": entry.branch, "old": entry.old, "new": entry.new}
    handle = os.open(home.moves, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(handle, "a", encoding="ascii") as file:
        file.write(json.dumps(told) + "\n")


def moved_by_fleet(home: Home, repository: Repository, old: str, new: str) -> bool:
    """Whether it was fleet alone that took a branch of the repository from one commit to the other."""
    reached = {old}
    for _, before, after in _moves(home, repository):
        if before in reached:
            reached.add(after)
    return new in reached


def reached_by_fleet(home: Home, repository: Repository, branch: str, old: str) -> str:
    """The commit to which fleet took a branch from another; that one if it did not."""
    for name, before, after in _moves(home, repository):
        old = after if name == branch and before == old else old
    return old


def _moves(home: Home, repository: Repository) -> Iterator[tuple[str, str, str]]:
    """The branches of a repository that fleet moved, from where and to where, the oldest first."""
    text = read_plain(home.moves, LONGEST).decode("ascii", "replace")
    for line in text.splitlines():
        try:
            told = json.loads(line)
            if told["common"] == repository.common:
                yield str(told["branch"]), str(told["old"]), str(told["new"])
        except (ValueError, TypeError, KeyError):  # the first line of a part, or one that was cut short
            continue
