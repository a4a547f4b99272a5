"""Which branches of a repository git could not merge with each other: tried on their tips, before anybody merges.

Git tries in a store of objects of its own that is thrown away: the repository gets nothing of it. A pair is tried only
where both change the same place, and once for each pair of tips. A look has an end: what it did not come to, it says.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from fleet.workspaces.git import git_start
from fleet.workspaces.refs import branch_tip
from fleet.workspaces.view import ALONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fleet.workspaces.repository import Repository
    from fleet.workspaces.view import View

#: How many pairs one look tries, how long it may take, and how long git may take for one of them.
MOST_PAIRS, LOOK_SECONDS, PAIR_SECONDS = 200, 5.0, 10.0
#: More changed files than a task has; of a branch with more it is not known which, and every pair with it is tried.
MOST_CHANGED = 20_000
MOST_BYTES = 4 * 1024 * 1024
#: More files than anybody reads.
MOST_FILES = 50
LIST = ("diff-tree", "-r", "-z", "--name-status", "--no-renames", "--ignore-submodules=none")
#: `--name-only`: the files in conflict, each once.
TRY = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
#: What the store of one try is called, and when nobody is at it any more.
SCRATCH, ABANDONED_SECONDS = "radar-", 3600.0
CONFLICT = 1  # the exit code of `merge-tree`


class Branch(NamedTuple):
    """A branch as it is now."""

    key: str  # what the caller knows it by
    tip: str  # both are commits
    base: str  # where it began


class Clash(NamedTuple):
    """Two branches that git cannot merge, the earlier one first, and the files that both changed."""

    branch: Branch
    other: Branch
    files: tuple[str, ...]


class Seen(NamedTuple):
    """What a look found."""

    clashes: list[Clash]
    is_complete: bool  # whether every pair was tried; else the next look goes on


class Changes(NamedTuple):
    """What a branch changed, as far as that tells whom it could collide with."""

    paths: frozenset[str]
    folders: frozenset[str]  # above what it changed
    left: frozenset[str]  # folders that it took something from: who adds there may have meant another place
    entered: frozenset[str]  # folders that it added something to
    is_all: bool = True  # else there are more

    def meets(self, other: Changes) -> bool:
        """Whether git must be asked."""
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
    """The commit that each of these branches is at, read as data: no git runs. One that is not there is left out."""
    found = {name: branch_tip(repository, name) for name in names}
    return {name: commit for name, commit in found.items() if commit}


class Collider:
    """Looks at the branches of one repository again and again, and tries only what is new."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._is_swept = False
        self._changes: dict[tuple[str, str], Changes] = {}  # by base and tip
        self._tried: dict[tuple[Branch, Branch], tuple[str, ...]] = {}
        self._last: dict[tuple[str, str], tuple[str, ...]] = {}  # by the keys of a pair, whatever their tips were

    def look(self, branches: Sequence[Branch], *, most: int = MOST_PAIRS, seconds: float = LOOK_SECONDS) -> Seen:
        """Which of these collide; the earlier of two comes first among them. Raises FleetError, OSError."""
        self._forget(branches)
        self._sweep()
        deadline, left, is_complete = time.monotonic() + seconds, most, True
        clashes = []
        for pair in combinations([each for each in branches if each.tip != each.base], 2):
            files = self._tried.get(pair)
            if files is None and (left <= 0 or time.monotonic() > deadline):
                is_complete = False
                files = self._last.get((pair[0].key, pair[1].key), ())
            elif files is None:
                left -= self._must_be_tried(*pair)
                files = self._tried[pair] = self._try(*pair)
            if files:
                clashes.append(Clash(*pair, files))
        self._last = {(each.branch.key, each.other.key): each.files for each in clashes}
        return Seen(clashes, is_complete)

    def _forget(self, branches: Sequence[Branch]) -> None:
        now = set(branches)
        self._tried = {pair: files for pair, files in self._tried.items() if now.issuperset(pair)}
        bases = {each.base for each in now}
        known = {(each.base, each.tip) for each in now} | {(base, other) for base in bases for other in bases}
        self._changes = {pair: found for pair, found in self._changes.items() if pair in known}

    def _sweep(self) -> None:
        """Once: delete the stores that killed looks left."""
        if self._is_swept:
            return
        self._is_swept = True
        self._view.make()
        with os.scandir(self._view.path) as entries:
            for entry in entries:
                if entry.name.startswith(SCRATCH) and time.time() - entry.stat().st_mtime > ABANDONED_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _must_be_tried(self, branch: Branch, other: Branch) -> bool:
        return self._changed(branch.base, branch.tip).meets(self._changed(other.base, other.tip))

    def _try(self, branch: Branch, other: Branch) -> tuple[str, ...]:
        if not self._must_be_tried(branch, other):
            return ()
        found = _conflicts(self._view, branch.tip, other.tip)
        if branch.base != other.base:
            found = [path for path in found if self._is_theirs(path, branch, other)]
        return tuple(found[:MOST_FILES])

    def _is_theirs(self, path: str, branch: Branch, other: Branch) -> bool:
        """Whether a conflict is between the two, and not between one of them and what the other began from."""
        if path not in self._changed(branch.base, other.base).paths:
            return True
        return all(path in self._changed(each.base, each.tip).paths for each in (branch, other))

    def _changed(self, base: str, tip: str) -> Changes:
        if (base, tip) not in self._changes:
            self._changes[base, tip] = _changes(self._view, base, tip)
        return self._changes[base, tip]


def _changes(view: View, base: str, tip: str) -> Changes:
    told, status = _git(view, *LIST, "--end-of-options", base, tip)
    fields = [os.fsdecode(field) for field in told.split(b"\0")]
    pairs = list(zip(fields[::2], fields[1::2], strict=False))[:MOST_CHANGED]
    paths = frozenset(path for _, path in pairs)
    return Changes(
        paths=paths,
        folders=frozenset(folder for path in paths for folder in _above(path)),
        left=frozenset(_folder(path) for kind, path in pairs if kind == "D"),
        entered=frozenset(_folder(path) for kind, path in pairs if kind == "A"),
        is_all=status == 0 and len(told) < MOST_BYTES and len(pairs) < MOST_CHANGED,
    )


def _conflicts(view: View, tip: str, other: str) -> list[str]:
    """The files that git could not merge; none as well where it cannot even try, for want of a common beginning say."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=view.path) as scratch:
        env = {"GIT_OBJECT_DIRECTORY": scratch, "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(f"{view.path}/objects")}
        told, status = _git(view, *TRY, tip, other, env=env)
    if status != CONFLICT:
        return []
    # After the tree that git made: the files.
    return [os.fsdecode(path) for path in told.split(b"\0")[1:] if path]


def _git(view: View, *words: str, env: Mapping[str, str] | None = None) -> tuple[bytes, int]:
    """The beginning of what git prints, and how it ended; one that takes too long is ended."""
    view.make()
    full = ALONE | {"GIT_DIR": view.path} | dict(env or {})
    return git_start(MOST_BYTES, *words, env=full, seconds=PAIR_SECONDS, gently=True)


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _quoted(path: str) -> str:
    """A path in a list that colons divide, as git reads it."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
