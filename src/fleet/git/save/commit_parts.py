"""The parts of a saved commit: a worktree as it is, its staged changes, and commits that no other ref holds."""

# ruff: noqa: PTH118, PTH123
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.git.nested_repositories import NestedRepository, pack_nested
from fleet.git.process import GitFault
from fleet.git.save.snapshot import drop_files, enter, put_files, storable
from fleet.git.save.unreachable_commits import SAVED, commits_among, named_commits, refs_of, sound, stashes_of, unheld
from fleet.git.untrusted_folders import has_content, joined, walk
from fleet.git.worktree_index import LeftOutFile, filtered_by_them, sparse_paths, unknown_filters
from fleet.git.worktree_place import LONGEST, read_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.git.save.survey import Survey
    from fleet.git.view import View
    from fleet.git.worktree_place import WorktreePlace

#: Suffixes for the sides of a conflicting file.
_SIDES = {b"1": b"~base", b"2": b"~ours", b"3": b"~theirs"}


class Parts(Record):
    """The parts of a saved commit."""

    head: str | None
    tree: str
    staged: str | None = None  # a commit of the staged changes
    stashes: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()  # commits that no ref holds
    nested: tuple[tuple[str, tuple[str, ...]], ...]  # a nested repository's path and its newest commits
    left_out: tuple[LeftOutFile, ...]

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the parents of the saved commit, each once, HEAD first."""
        found = (self.head, self.staged, *self.stashes, *self.loose)
        return tuple(dict.fromkeys(parent for parent in found if parent))


def gather(view: View, place: WorktreePlace, folder: str, head: str | None, found: Survey, *, settled: bool) -> Parts:
    """Store the contents found by a survey in the repository. `folder` has the index of HEAD. Raises GitFault.

    If `settled`, git's folder for the worktree is known to hold nothing and is not searched.
    """
    index = os.path.join(folder, "index")
    nested, copied, notes = _keep_nested(view, folder, found.nested)
    sparse = sparse_paths(view, place, os.path.join(folder, "theirs")) if found.gone else set()
    gone = [path for path in found.gone if path not in sparse]
    # The files of a submodule replace the link to its commit.
    drop_files(view, place.path, index, [*gone, *(os.fsencode(one.path) for one in found.nested if one.path)])
    filtered = unknown_filters(view, place, index, found.changed)
    as_git_has = filtered_by_them(view, place, os.path.join(folder, "theirs"), filtered)
    changed = [path for path in found.changed if path not in as_git_has]
    files = dict.fromkeys([*changed, *map(os.fsencode, found.ignored), *found.inside])
    put_files(view, place.path, index, [*((path, storable(path)) for path in files), *copied])
    parts = Parts(
        head=head,
        tree=view.git("write-tree", index=index).decode().strip(),
        nested=tuple(nested),
        left_out=(*found.left_out, *notes),
    )
    return parts if settled else _add_git_folder_parts(view, place, folder, parts)


def _add_git_folder_parts(view: View, place: WorktreePlace, folder: str, parts: Parts) -> Parts:
    """Return the parts with the contents of git's folder: staged changes, stashes and unreachable commits."""
    staged, why = _commit_staged(view, place.read("index"), folder, parts.head)
    notes = [LeftOutFile(path="what is staged", why=why)] if why else []
    return parts.replace(
        staged=staged,
        stashes=tuple(unheld(view, stashes_of(view, place.branch), refs_of(view, SAVED))),
        loose=tuple(unheld(view, sound(view, commits_among(view, named_commits(place))), refs_of(view))),
        left_out=(*parts.left_out, *notes),
    )


def _keep_nested(
    view: View, folder: str, found: Collection[NestedRepository]
) -> tuple[list[tuple[str, tuple[str, ...]]], list[tuple[bytes, bytes]], list[LeftOutFile]]:
    """Return the newest commits of each nested repository.

    If a repository cannot be packed, the files of its git folder are returned to be saved as plain files.
    """
    kept, copied, notes = [], [], []
    for one in found:
        try:
            index = read_plain(os.path.join(one.git_folder, "index"), LONGEST)
            staged, _ = _commit_staged(view, index, folder, one.head(view), env=one.env)
            commits = pack_nested(view, one, [staged] if staged else [])
            why = "" if commits else "it has no commits"
        except GitFault as error:
            commits, why = [], str(error)
        if commits:
            kept.append((one.path, tuple(commits)))
        else:
            where = joined(one.path, ".git-saved")
            copied += _list_copies(one.git_folder, where)
            notes.append(LeftOutFile(path=one.path, why=f"its git folder was saved as plain files in {where}: {why}"))
    return kept, copied, notes


def _list_copies(git_folder: str, where: str) -> list[tuple[bytes, bytes]]:
    found = []
    for path, entries in walk(git_folder):
        names = [
            joined(path, entry.name)
            for entry in entries
            if has_content(entry) and not entry.is_dir(follow_symlinks=False)
        ]
        found += [
            (os.fsencode(os.path.join(git_folder, name)), storable(os.fsencode(joined(where, name)))) for name in names
        ]
    return found


def _commit_staged(
    view: View, index: bytes, folder: str, head: str | None, env: Mapping[str, str] | None = None
) -> tuple[str | None, str]:
    """Return a commit of the staged changes if they differ from HEAD, or why there is none."""
    if not index:
        return None, ""
    try:
        tree = _write_staged_tree(view, index, folder, env)
        if head and tree == view.git("rev-parse", f"{head}^{{tree}}", env=env).decode().strip():
            return None, ""
        parents = ["-p", head] if head else []
        words = ("commit-tree", tree, *parents, "-m", "what was staged")
        return view.git(*words, env=env).decode().strip(), ""
    except GitFault as error:
        return None, str(error)


def _write_staged_tree(view: View, index: bytes, folder: str, env: Mapping[str, str] | None = None) -> str:
    """Return the tree of an index. For a conflict, it holds all sides as separate files. Raises GitFault."""
    theirs, ours = os.path.join(folder, "staged"), os.path.join(folder, "staged-whole")
    with open(theirs, "wb") as file:
        file.write(index)
    told = view.git("ls-files", "-z", "-s", index=theirs, env=env)
    entries = []
    for line in told.split(b"\0"):
        head, _, path = line.partition(b"\t")
        if path:
            mode, made, stage = head.split(b" ")
            entries.append((mode, made, path + _SIDES.get(stage, b"")))
    view.git("read-tree", "--empty", index=ours)
    enter(view, ours, entries)
    return view.git("write-tree", index=ours, env=env).decode().strip()
