"""Folders outside of the commit that a verify command uses, such as `.venv`: taken from the worktree, read-only.

An agent can write there before the command runs. So each folder is compared with its state when the worktree was ready,
before any agent worked in it; a difference is a doubt. The clean checkout is shown at the worktree's own path, because
installed environments contain that path: an editable install must lead to the files of the commit.
"""

# ruff: noqa: PTH112, PTH114, PTH118, PTH208, PTH211
from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.quoting import join_first, quote_text
from fleet.proof.verify import reach

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from fleet.core.workspace import Workspace
    from fleet.git.view import View

#: The note of a workspace with the state of these folders when it was ready.
NOTE = "used"
#: Restrictions without which the command, or an agent, could write to the folders meanwhile.
NEEDED = frozenset(("shown", "writes"))


class Used(NamedTuple):
    """A folder, and the worktree or main checkout that has it."""

    name: str
    place: str

    @property
    def source(self) -> str:
        return os.path.join(self.place, self.name)


class Found(NamedTuple):
    """The folders that a verification uses, and why others are left out."""

    used: tuple[Used, ...] = ()
    notes: tuple[str, ...] = ()


class Places(NamedTuple):
    """Where to look for the folders, in this order, and the known state of those in worktrees."""

    folders: tuple[str, ...] = ()
    marks: Mapping[str, Any] = {}


def places_of(spaces: Iterable[Workspace | None], top: str, *, first: bool = True) -> Places:
    """Return the worktrees that exist and the main checkout `top`, which comes last unless `first` is False."""
    there = [space for space in spaces if space is not None and not space.is_gone and os.path.isdir(space.path)]
    marks: dict[str, Any] = {}
    for space in there:
        known = space.made.get(NOTE)
        marks |= known if isinstance(known, dict) else {}
    folders = [space.path for space in there]
    return Places(tuple([*folders, top] if first else [top, *folders]), marks)


def find_folders(names: Iterable[str], places: Places, view: View, commit: str) -> Found:
    """Return the folders with these names. What the commit itself has under such a name is not replaced."""
    used, notes = [], []
    for name in names:
        if view.git("ls-tree", "--name-only", commit, "--", name):
            notes.append(f"{quote_text(name)} is in the commit: that one was used")
            continue
        place = next((each for each in places.folders if os.path.lexists(os.path.join(each, name))), None)
        if place is None:
            notes.append(f"there is no {quote_text(name)} to use")
        elif not _is_plain(place, name):
            notes.append(f"{quote_text(os.path.join(place, name))} is a link or no folder: it was not used")
        else:
            used.append(Used(name, place))
    return Found(tuple(used), tuple(notes))


def mark_folders(names: Iterable[str], place: str) -> dict[str, Any]:
    """Return a mark of the folders of a worktree that is ready, for a later comparison."""
    there = [Used(name, place) for name in names if _is_plain(place, name)]
    return {each.source: [time.time(), _sum_folder(each.source)] for each in there}


def doubts(used: Sequence[Used], marks: Mapping[str, Any], top: str, had: Collection[str] | None) -> tuple[str, ...]:
    """Return why a result with these folders proves less. `had` has the restrictions of the command, if it ran."""
    found = []
    if used and had is not None and not set(had) >= NEEDED:
        found.append("the system cannot keep the folders of verify.use read-only")
    for each in used:
        if each.place == top:  # a run compares the main checkout's with their state at its start
            continue
        before = marks.get(each.source)
        if before is None:
            found.append(f"{quote_text(each.name)} was not compared with its state before an agent worked beside it")
        elif before[1] != _sum_folder(each.source):
            newer = [os.path.relpath(path, each.source) for path in _list_newer(each.source, before[0])]
            names = newer or ["some of its files"]
            found.append(
                f"{quote_text(each.name)} changed after the worktree was ready: {join_first(names, reach.MOST_NAMED)}"
            )
    return tuple(found)


def link(used: Iterable[Used], tree: str) -> None:
    """Put a link to each folder into a checkout. The shim replaces the links by mounts if the system allows that."""
    for each in used:
        target = os.path.join(tree, each.name)
        if not os.path.lexists(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
            os.symlink(each.source, target)


def mounts(used: Sequence[Used], tree: str, empty: str, common: str) -> tuple[tuple[str, str], ...]:
    """Return what to show where: the folders in the checkout without tools' caches, and the checkout at their place."""
    found = []
    for each in used:
        target = os.path.join(tree, each.name)
        if os.path.islink(target):
            found.append((each.source, target))
            found += [(empty, os.path.join(target, name)) for name in _list_caches(each.source)]
    for place in dict.fromkeys(each.place for each in used):
        found.append((tree, place))
        if common == os.path.join(place, ".git"):
            found.append((common, common))  # the objects that the checkout borrows
    return tuple(found)


def environment(used: Iterable[Used], env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which programs of these folders come first, and planted bytecode is not read."""
    made, folders = dict(env), []
    for each in used:
        if os.path.lexists(os.path.join(each.source, "pyvenv.cfg")):
            folders.append(os.path.join(each.source, "bin"))
            made["VIRTUAL_ENV"] = each.source
        elif os.path.basename(each.name) == "node_modules":  # noqa: PTH119
            folders.append(os.path.join(each.source, ".bin"))
    made["PATH"] = ":".join([*folders, env["PATH"]])
    made["PYTHONPYCACHEPREFIX"] = os.path.join(env["TMPDIR"], "bytecode")
    return made


def _is_plain(place: str, name: str) -> bool:
    """Return True if a folder exists and no link is on the way to it: an agent could make a link lead anywhere."""
    path = os.path.join(os.path.realpath(place), os.path.normpath(name))
    return os.path.isdir(path) and os.path.realpath(path) == path


def _sum_folder(source: str) -> str:
    """Return a sum over the files of a folder. Bytecode does not count, because it is not read."""
    return f"{sum(reach.sum_of(path)[0] for path in _list_parts(source)):x}"


def _list_newer(source: str, since: float) -> Iterable[str]:
    for path in _list_parts(source):
        yield from reach.newer(path, since)


def _list_parts(source: str) -> list[str]:
    names = sorted(os.listdir(source))
    return [os.path.join(source, name) for name in names if name not in _list_caches(source)]


def _list_caches(source: str) -> list[str]:
    return [name for name in reach.CACHES if os.path.isdir(os.path.join(source, name))]
