"""Saving a worktree before its removal: everything that git does not hold safely goes under `refs/fleet/saved/`.

One commit holds it all, byte for byte. Its tree is the worktree as it was, with ignored files and the files of nested
repositories. Its first parent is HEAD. The other parents are the staged changes, the stashes, and commits that no ref
holds.
"""

# ruff: noqa: PTH118, PTH119, PTH120
from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.git.ignored_files import SKIPPED
from fleet.git.nested_repositories import pack
from fleet.git.repository import locked
from fleet.git.save.commit_parts import Parts, gather
from fleet.git.save.survey import Survey, survey
from fleet.git.save.unreachable_commits import DELETED, SAVED, named_commits, refs_of, stashed_on, unheld
from fleet.git.untrusted_folders import open_up
from fleet.git.worktree_index import LeftOutFile
from fleet.home import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.git.view import View
    from fleet.git.worktree_place import WorktreePlace
    from fleet.home import Home

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
#: Maximum number of attempts at a free name, more than a run is ever saved.
MOST_NAMES = 1000
STILL = "stop what still writes there, then try again; nothing was removed."
#: Number of files that are named if the ignored files are too large.
NAMED = 5


class SavedWork(Record):
    """What was saved of a worktree, and how to restore it."""

    ref: str | None = None  # None if git already holds everything
    commit: str | None = None
    commands: tuple[str, ...] = ()  # shell commands; each restores a part
    refs: tuple[str, ...] = ()  # all refs that were written, including those of nested repositories
    left_out: tuple[LeftOutFile, ...] = ()  # files without content to save, or that stay where they are
    too_large: tuple[
        str, ...
    ] = ()  # the largest ignored files if they exceed the limit; then nothing was saved and nothing may be removed


class SavedRef(Record):
    """A saved worktree."""

    ref: str
    task: str
    run: str
    commit: str
    at: datetime


def save(  # noqa: PLR0913
    home: Home,
    view: View,
    place: WorktreePlace,
    task_id: str,
    run_number: int,
    *,
    skip_ignored: Collection[str] = SKIPPED,
    max_ignored_mb: int = 64,
    with_ignored: bool = True,
) -> SavedWork:
    """Save everything that only this worktree holds. Takes the repository's lock.

    If the ignored files exceed the limit, nothing is saved and `too_large` names the largest. If `with_ignored` is
    False, the rest is saved and the ignored files are lost with the worktree. Raises FleetError; then nothing may be
    removed.
    """
    if not PLAIN.fullmatch(task_id) or task_id.endswith(".lock"):
        raise FleetError(f"{task_id!r} cannot be part of a ref's name")
    view.make()
    with tempfile.TemporaryDirectory(prefix="saving-", dir=view.path) as folder:
        index, head = os.path.join(folder, "index"), place.head(view)
        _read_head(view, place, head, index)
        if os.path.isdir(place.path):  # noqa: PTH112
            open_up(place.path)
            found = survey(view, place, index, folder, skip_ignored)
        else:  # the folder was deleted, so only git's own records are left
            place, found = place.replace(path=folder), Survey(ignored={})
        if not with_ignored:
            found = found.replace(ignored={})
        settled = _holds_nothing(view, place, head)
        if settled and found.is_empty:
            return SavedWork(left_out=found.left_out)
        if sum(found.ignored.values()) > max_ignored_mb * 1024 * 1024:
            return SavedWork(too_large=_list_largest(found.ignored))
        try:
            parts = gather(view, place, folder, head, found, settled=settled)
        except OSError as error:
            raise FleetError(f"{place.path} changed while it was saved: {error}", hint=STILL) from error
        return _written(home, view, place, f"{SAVED}{task_id}/{run_number}", parts)


def _read_head(view: View, place: WorktreePlace, head: str | None, index: str) -> None:
    """Fill an index from HEAD, based on fleet's known index if possible, which knows the unchanged files."""
    if head and place.known:
        try:
            shutil.copyfile(place.known, index)
            view.git("read-tree", "-m", head, tree=place.path, index=index)
        except (OSError, FleetError):  # the known index is missing or incomplete, or the worktree is gone
            with contextlib.suppress(FileNotFoundError):
                os.unlink(index)  # noqa: PTH108
        else:
            return
    view.git("read-tree", *([head] if head else ["--empty"]), index=index)


def _holds_nothing(view: View, place: WorktreePlace, head: str | None) -> bool:
    """Return True if git's folder for a worktree holds nothing staged, stashed, in progress or unreachable.

    This uses only checks without git, because most worktrees are clean and many may be removed at once.
    """
    named = {commit.decode() for commit in named_commits(place) if commit.strip(b"0")}
    settled = place.nothing_staged() and place.on_branch() and not place.going_on()
    return settled and named <= {head} and not stashed_on(view, place.branch)


def saved_refs(view: View) -> list[SavedRef]:
    """Return what was saved of this repository's worktrees, oldest first."""
    form = "%(refname) %(objectname) %(committerdate:unix)"
    told = view.text("for-each-ref", "--sort=committerdate", f"--format={form}", SAVED)
    found = []
    for line in told.splitlines():
        ref, commit, seconds = line.split(" ")
        task, _, run = ref.removeprefix(SAVED).partition("/")
        if "/" not in run and seconds.isdigit():
            at = datetime.fromtimestamp(int(seconds), UTC)
            found.append(SavedRef(ref=ref, task=task, run=run, commit=commit, at=at))
    return found


def deleted_refs(view: View) -> list[tuple[str, str]]:
    """Return the refs that keep the tips of deleted branches, each with its branch name."""
    told = view.text("for-each-ref", "--format=%(refname)", DELETED)
    return [(ref, ref.removeprefix(DELETED).rpartition("/")[0]) for ref in told.splitlines()]


def forget(view: View, ref: str) -> None:
    """Delete a saved ref and the refs of its nested repositories."""
    if not ref.startswith((SAVED, DELETED)):
        raise FleetError(f"{ref} is nothing that fleet saved", hint="run `fleet gc --dry-run` to list what is saved")
    told = view.text("for-each-ref", "--format=%(refname)", ref, f"{ref}-nested/")
    lines = "".join(f"delete {name}\n" for name in told.splitlines())
    view.git("update-ref", "--stdin", stdin=os.fsencode(lines))


def _written(home: Home, view: View, place: WorktreePlace, name: str, parts: Parts) -> SavedWork:
    head_tree = view.text("rev-parse", f"{parts.head}^{{tree}}") if parts.head else ""
    unchanged = parts.tree == head_tree and parts.parents[1:] == () and not parts.nested
    if unchanged and (place.on_branch() or not _is_head_unheld(view, parts)):
        return SavedWork(left_out=parts.left_out)
    words = [word for parent in parts.parents for word in ("-p", parent)]
    message = f"fleet: what was in the worktree of {place.branch}\n\nSaved before it was removed.\n"
    made = view.git("commit-tree", parts.tree, *words, "-F", "-", stdin=os.fsencode(message)).decode().strip()
    pack(view, [made], [parts.head] if parts.head else [])
    with locked(home, view.repository):
        ref = _choose_free_ref(view, name)
        refs = {ref: made} | {
            f"{ref}-nested/{number}/{place_in}": commit
            for number, (_, commits) in enumerate(parts.nested)
            for place_in, commit in enumerate(commits)
        }
        lines = "".join(f"create {each} {commit}\n" for each, commit in refs.items())
        view.git("update-ref", "--create-reflog", "--stdin", stdin=lines.encode())
    for each, commit in refs.items():
        if view.commit_of(each) != commit:
            raise FleetError(f"{each} does not read back", hint="the worktree is as it was; `git fsck` tells more")
    return SavedWork(
        ref=ref, commit=made, refs=tuple(refs), commands=_list_commands(view, ref, parts), left_out=parts.left_out
    )


def _is_head_unheld(view: View, parts: Parts) -> bool:
    return bool(parts.head and unheld(view, [parts.head], refs_of(view)))


def _choose_free_ref(view: View, name: str) -> str:
    taken = set(view.text("for-each-ref", "--format=%(refname)", f"{SAVED}**").splitlines())
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, MOST_NAMES))
    free = next((each for each in names if each not in taken), None)
    if free is None:
        raise FleetError(f"{name} was saved too often", hint="run `fleet gc` to remove what is old")
    return free


def _list_commands(view: View, ref: str, parts: Parts) -> tuple[str, ...]:
    """Return shell commands that restore each part beside the repository, one line each."""
    top = view.repository.top
    git = f"git -C {quoted(top)}"
    beside = os.path.join(os.path.dirname(top), f"{os.path.basename(top)}-{ref.removeprefix(SAVED).replace('/', '-')}")
    found = [f"{git} worktree add --detach {quoted(beside)} {ref}"]
    if parts.staged:
        found.append(f"{git} worktree add --detach {quoted(beside + '-staged')} {parts.staged}")
    found += [f"{git} stash apply {commit}" for commit in parts.stashes]
    branch = f"saved/{ref.removeprefix(SAVED)}"
    found += [f"{git} branch {branch}-{number} {commit}" for number, commit in enumerate(parts.loose, 1)]
    for number, (_, commits) in enumerate(parts.nested):
        for place_in, _ in enumerate(commits):
            where = quoted(f"{beside}-nested-{number}-{place_in}")
            found.append(f"{git} worktree add --detach {where} {ref}-nested/{number}/{place_in}")
    return tuple(found)


def _list_largest(sizes: Mapping[str, int]) -> tuple[str, ...]:
    most = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:NAMED]
    return tuple(f"{path} ({size / 1024 / 1024:.1f} MB)" for path, size in most)
