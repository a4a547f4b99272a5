"""Whether a branch's work is already in another branch, according to git or to fleet's note of a squash."""

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

#: Of a longer journal of moves, only this newest part is read.
LONGEST = 1 << 20


def landed_in(view: View, branch: str, tip: str, merged: Mapping[str, Any] | None = None) -> str:
    """Return the branch that contains the work of another branch with this tip, or "".

    `merged` is the merge note in the task's metadata. It is needed because a squashed branch is in no history, but the
    squash commit is.
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
    """Record that fleet moved a branch and its checkouts."""
    told = {"common": entry.common, "branch": entry.branch, "old": entry.old, "new": entry.new}
    handle = os.open(home.moves, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(handle, "a", encoding="ascii") as file:
        file.write(json.dumps(told) + "\n")


def moved_by_fleet(home: Home, repository: Repository, old: str, new: str) -> bool:
    """Return True if fleet alone moved branches of the repository from one commit to the other."""
    reached = {old}
    for _, before, after in _moves(home, repository):
        if before in reached:
            reached.add(after)
    return new in reached


def reached_by_fleet(home: Home, repository: Repository, branch: str, old: str) -> str:
    """Return the commit to which fleet moved a branch from another, or that commit if fleet did not move it."""
    for name, before, after in _moves(home, repository):
        old = after if name == branch and before == old else old
    return old


def _moves(home: Home, repository: Repository) -> Iterator[tuple[str, str, str]]:
    """Yield fleet's moves of branches in a repository, oldest first: the branch, the old and the new commit."""
    text = read_plain(home.moves, LONGEST).decode("ascii", "replace")
    for line in text.splitlines():
        try:
            told = json.loads(line)
            if told["common"] == repository.common:
                yield str(told["branch"]), str(told["old"]), str(told["new"])
        except (ValueError, TypeError, KeyError):  # an incomplete line at the start of the part or after a crash
            continue
