"""Collisions: branches of a repository that git could not merge with each other, tried on their tips in advance.

Git tries in a temporary object store, so that the repository does not change. A pair is tried only if both branches
change the same place, and once for each pair of tips. Each check is limited in time and reports if it is incomplete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from fleet.git.process import git_start
from fleet.git.view import ALONE, branch_tip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fleet.git.repository import Repository
    from fleet.git.view import View

#: Maximum number of pairs per check, its time limit, and git's time limit for one pair.
MOST_PAIRS, LOOK_SECONDS, PAIR_SECONDS = 200, 5.0, 10.0
#: More changed files than a task has. A branch with more is tried with each other branch, because its list is cut.
MOST_CHANGED = 20_000
MOST_BYTES = 4 * 1024 * 1024
#: Maximum number of files reported for one collision.
MOST_FILES = 50
LIST = ("diff-tree", "-r", "-z", "--name-status", "--no-renames", "--ignore-submodules=none")
#: With `--name-only`, git prints the files in conflict, each once.
TRY = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
#: Name prefix of temporary object stores, and the age from which one counts as abandoned.
SCRATCH, ABANDONED_SECONDS = "radar-", 3600.0
CONFLICT = 1  # exit code of `merge-tree`


class BranchState(NamedTuple):
    """The current state of a branch."""

    key: str  # the caller's key for it
    tip: str  # the tip and the base are commits
    base: str  # the commit where it started


class Clash(NamedTuple):
    """Two branches that git cannot merge, the earlier one first, and the files in conflict."""

    branch: BranchState
    other: BranchState
    files: tuple[str, ...]


class CollisionCheck(NamedTuple):
    """The result of a check."""

    clashes: list[Clash]
    is_complete: bool  # all pairs were tried; if False, the next check continues


class BranchChanges(NamedTuple):
    """The changes of a branch, as far as they decide which branches it could collide with."""

    paths: frozenset[str]
    folders: frozenset[str]  # all folders above its changed files
    left: frozenset[str]  # folders from which it deleted files; an added file there may collide with a moved folder
    entered: frozenset[str]  # folders to which it added files
    is_all: bool = True  # False if the list is cut

    def meets(self, other: BranchChanges) -> bool:
        """Return True if git must try the pair."""
        if not (self.is_all and other.is_all):
            return True
        return bool(
            self.paths & other.paths
            or self.paths & other.folders
            or self.folders & other.paths
            or self.left & other.entered
            or self.entered & other.left
        )


def tips(repository: Repository, names: Iterable[str]) -> dict[str, str]:
    """Return the tip of each existing branch, read as data without running git."""
    found = {name: branch_tip(repository, name) for name in names}
    return {name: commit for name, commit in found.items() if commit}


class Collider:
    """A repeated check of the branches of one repository, which tries only new pairs."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._is_swept = False
        self._changes: dict[tuple[str, str], BranchChanges] = {}  # by base and tip
        self._tried: dict[tuple[BranchState, BranchState], tuple[str, ...]] = {}
        self._last: dict[tuple[str, str], tuple[str, ...]] = {}  # by the keys of a pair, whatever its tips

    def look(
        self, branches: Sequence[BranchState], *, most: int = MOST_PAIRS, seconds: float = LOOK_SECONDS
    ) -> CollisionCheck:
        """Return the collisions among these branches, in each pair the earlier branch first.

        Raises FleetError, OSError.
        """
        self._forget_others(branches)
        self._delete_old_stores()
        deadline, left, is_complete = time.monotonic() + seconds, most, True
        clashes = []
        for pair in combinations([each for each in branches if each.tip != each.base], 2):
            files = self._tried.get(pair)
            if files is None and (left <= 0 or time.monotonic() > deadline):
                is_complete = False
                files = self._last.get((pair[0].key, pair[1].key), ())
            elif files is None:
                left -= self._must_be_tried(*pair)
                files = self._tried[pair] = self._merge_pair(*pair)
            if files:
                clashes.append(Clash(*pair, files))
        self._last = {(each.branch.key, each.other.key): each.files for each in clashes}
        return CollisionCheck(clashes, is_complete)

    def _forget_others(self, branches: Sequence[BranchState]) -> None:
        now = set(branches)
        self._tried = {pair: files for pair, files in self._tried.items() if now.issuperset(pair)}
        bases = {each.base for each in now}
        known = {(each.base, each.tip) for each in now} | {(base, other) for base in bases for other in bases}
        self._changes = {pair: found for pair, found in self._changes.items() if pair in known}

    def _delete_old_stores(self) -> None:
        """Delete the stores that killed checks left, once per process."""
        if self._is_swept:
            return
        self._is_swept = True
        self._view.make()
        with os.scandir(self._view.path) as entries:
            for entry in entries:
                if entry.name.startswith(SCRATCH) and time.time() - entry.stat().st_mtime > ABANDONED_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _must_be_tried(self, branch: BranchState, other: BranchState) -> bool:
        return self._get_changes(branch.base, branch.tip).meets(self._get_changes(other.base, other.tip))

    def _merge_pair(self, branch: BranchState, other: BranchState) -> tuple[str, ...]:
        if not self._must_be_tried(branch, other):
            return ()
        found = _list_conflicts(self._view, branch.tip, other.tip)
        if branch.base != other.base:
            found = [path for path in found if self._is_theirs(path, branch, other)]
        return tuple(found[:MOST_FILES])

    def _is_theirs(self, path: str, branch: BranchState, other: BranchState) -> bool:
        """Return True if a conflict is between the two branches, and not with the base of the other one."""
        if path not in self._get_changes(branch.base, other.base).paths:
            return True
        return all(path in self._get_changes(each.base, each.tip).paths for each in (branch, other))

    def _get_changes(self, base: str, tip: str) -> BranchChanges:
        if (base, tip) not in self._changes:
            self._changes[base, tip] = _changes(self._view, base, tip)
        return self._changes[base, tip]


def _changes(view: View, base: str, tip: str) -> BranchChanges:
    told, status = _git(view, *LIST, "--end-of-options", base, tip)
    fields = [os.fsdecode(field) for field in told.split(b"\0")]
    pairs = list(zip(fields[::2], fields[1::2], strict=False))[:MOST_CHANGED]
    paths = frozenset(path for _, path in pairs)
    return BranchChanges(
        paths=paths,
        folders=frozenset(folder for path in paths for folder in _list_folders_above(path)),
        left=frozenset(_get_folder(path) for kind, path in pairs if kind == "D"),
        entered=frozenset(_get_folder(path) for kind, path in pairs if kind == "A"),
        is_all=status == 0 and len(told) < MOST_BYTES and len(pairs) < MOST_CHANGED,
    )


def _list_conflicts(view: View, tip: str, other: str) -> list[str]:
    """Return the files that git could not merge. Empty if git cannot try, for example without a common ancestor."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=view.path) as scratch:
        env = {"GIT_OBJECT_DIRECTORY": scratch, "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quote_path(f"{view.path}/objects")}
        told, status = _git(view, *TRY, tip, other, env=env)
    if status != CONFLICT:
        return []
    # The files follow the tree that git wrote.
    return [os.fsdecode(path) for path in told.split(b"\0")[1:] if path]


def _git(view: View, *words: str, env: Mapping[str, str] | None = None) -> tuple[bytes, int]:
    """Return the beginning of git's output and its exit code. Git is killed if it takes too long."""
    view.make()
    full = ALONE | {"GIT_DIR": view.path} | dict(env or {})
    return git_start(MOST_BYTES, *words, env=full, seconds=PAIR_SECONDS, gently=True)


def _list_folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _get_folder(path: str) -> str:
    return path.rpartition("/")[0]


def _quote_path(path: str) -> str:
    """Return a path quoted as git expects it in a list separated by colons."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
