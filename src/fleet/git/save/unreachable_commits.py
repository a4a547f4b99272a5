"""Commits that only a worktree holds: detached, amended, stashed or half rebased. Found by reading its git folder."""

# ruff: noqa: PTH118
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.git.process import GitFault
from fleet.git.worktree_place import COMMIT, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fleet.git.view import View
    from fleet.git.worktree_place import WorktreePlace

#: Prefix of the refs that keep saved work.
SAVED = "refs/fleet/saved/"
#: Prefix of the refs that keep tips of deleted branches. The branch name and the start of the commit id follow.
DELETED = "refs/fleet/deleted/"
#: Files in a worktree's git folder that name commits.
NAMING = (
    *("HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD"),
    *("rebase-merge/orig-head", "rebase-merge/onto", "rebase-merge/autostash", "rebase-merge/stopped-sha"),
    *("rebase-merge/amend", "rebase-apply/orig-head", "rebase-apply/autostash"),
)
#: Only this newest part of a log is read: about 20,000 entries.
LOG_BYTES = 4 * 1024 * 1024
MOST_REFS = 10_000


def named_commits(place: WorktreePlace) -> list[bytes]:
    """Return the ids in the worktree's git folder: HEAD, operations in progress, its log and its own refs."""
    if place.admin is None:
        return []
    return named_in(place.admin, NAMING)


def named_in(git_folder: str, files: Iterable[str] = ("HEAD", "ORIG_HEAD", "packed-refs")) -> list[bytes]:
    """Return the ids in these files of a git folder, in its refs and in its logs, each once."""
    found: dict[bytes, None] = {}
    for name in files:
        found |= dict.fromkeys(COMMIT.findall(read_plain(os.path.join(git_folder, name), LOG_BYTES)))
    for part in ("refs", "logs"):
        for path in _list_files_below(os.path.join(git_folder, part)):
            found |= dict.fromkeys(COMMIT.findall(read_plain(path, LOG_BYTES)))
    return list(found)


def stashes_of(view: View, branch: str) -> list[str]:
    found = stashed_on(view, branch)
    return commits_among(view, found) if found else []


def stashed_on(view: View, branch: str) -> list[bytes]:
    """Return the ids in the stash log for a branch, newest first."""
    log = read_plain(os.path.join(view.repository.common, "logs", "refs", "stash"), LOG_BYTES)
    made_on = (f"WIP on {branch}:".encode(), f"On {branch}:".encode())
    entries = (line.partition(b"\t") for line in log.splitlines())
    found = [head.split(b" ")[1] for head, _, said in entries if said.startswith(made_on) and head.count(b" ") > 1]
    return found[::-1]


def commits_among(view: View, ids: Iterable[bytes], env: Mapping[str, str] | None = None) -> list[str]:
    """Return those ids that are commits of this repository, in the same order."""
    found = view.kinds((made for made in ids if COMMIT.fullmatch(made)), env)
    return [made for made, kind in found if kind == "commit"]


def refs_of(view: View, *prefixes: str) -> list[str]:
    """Return the existing objects that refs point to."""
    told = view.git("for-each-ref", "--format=%(objectname)", *prefixes)
    return [made for made, kind in view.kinds(told.splitlines()) if kind != "missing"]


def unheld(view: View, commits: Iterable[str], held: Iterable[str], env: Mapping[str, str] | None = None) -> list[str]:
    """Return the newest of these commits that the held ones do not reach. Together they reach all the others."""
    commits = list(commits)
    if not commits:
        return []
    lines = [*commits, *(f"^{made}" for made in held)]
    told = view.git("rev-list", "--parents", "--stdin", env=env, stdin="".join(f"{line}\n" for line in lines).encode())
    rows = [line.split() for line in told.decode().splitlines()]
    loose, parents = {row[0] for row in rows}, {parent for row in rows for parent in row[1:]}
    return [made for made in dict.fromkeys(commits) if made in loose and made not in parents]


def sound(view: View, commits: Iterable[str]) -> list[str]:
    """Return the commits whose whole history exists.

    Git may have pruned parts of commits that only an old log names.
    """
    commits = list(commits)
    return commits if _is_sound(view, commits) else [made for made in commits if _is_sound(view, [made])]


def _is_sound(view: View, commits: list[str]) -> bool:
    lines = [*commits, *(f"^{made}" for made in refs_of(view))]
    asked = "".join(f"{line}\n" for line in lines).encode()
    try:
        view.git("rev-list", "--objects", "--quiet", "--stdin", stdin=asked)
    except GitFault:
        return False
    return True


def _list_files_below(folder: str) -> Iterator[str]:
    count = 0
    for root, _, files in os.walk(folder):
        for name in sorted(files):
            count += 1
            if count > MOST_REFS:
                return
            yield os.path.join(root, name)
