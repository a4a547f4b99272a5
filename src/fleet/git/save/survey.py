"""Surveys of a worktree and of the repositories inside it, to find what git does not hold."""

# ruff: noqa: PTH118
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.git.ignored_files import IgnoredFiles, find_ignored
from fleet.git.nested_repositories import NestedRepository, git_folder_of, is_upstream, lies_below
from fleet.git.process import GitFault
from fleet.git.untrusted_folders import is_checkout, joined, walk
from fleet.git.worktree_index import LIST, LIST_ALL, LeftOutFile, SortedFiles, listed, sort_out

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.git.view import View
    from fleet.git.worktree_place import WorktreePlace

#: Maximum nesting depth of repositories that is believed.
DEEPEST = 20


class Survey(Record):
    """The contents to be saved. All paths are relative to the worktree."""

    changed: tuple[bytes, ...] = ()  # files that differ from HEAD, including untracked ones
    gone: tuple[bytes, ...] = ()
    ignored: Mapping[str, int]  # ignored files with their sizes
    inside: tuple[bytes, ...] = ()  # all files of the repositories inside
    nested: tuple[NestedRepository, ...] = ()  # repositories that would be removed with the worktree
    left_out: tuple[LeftOutFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.changed or self.gone or self.ignored or self.inside or self.nested)


def survey(view: View, place: WorktreePlace, index: str, folder: str, skip: Collection[str]) -> Survey:
    """Survey a worktree, compared with the given index. Raises FleetError."""
    found, ignored = _survey_files(view, place.path, index, skip, {})
    checkouts, no_files = _find_unlisted(place.path, "", ignored)
    inner = [_survey_nested(view, place, path, folder, skip, 1) for path in checkouts]
    ours = {path: size for path, size in ignored.sizes.items() if not _is_unchanged(place, path)}
    whole = _combine(inner, ours, [*found.left_out, *no_files])
    others = _find_without_checkout(view, place, whole.nested)
    return whole.replace(changed=found.put, gone=found.gone, nested=(*others, *whole.nested))


def _survey_nested(
    view: View, place: WorktreePlace, path: str, folder: str, skip: Collection[str], depth: int
) -> Survey:
    """Survey one repository inside. The result is empty if it is unchanged and all of it came from upstream."""
    if depth > DEEPEST:
        raise FleetError(f"{path} is nested {depth} repositories deep", hint="move it elsewhere, then try again")
    root, index = os.path.join(place.path, path), os.path.join(folder, f"nested-{depth}")
    nested = _find_removed_with(place, path)
    env = nested.env if nested else {}
    head = _read_head(view, nested, index)
    found, ignored = _survey_files(view, root, index, skip, env)
    checkouts, no_files = _find_unlisted(root, path, ignored)
    inner = [_survey_nested(view, place, one, folder, skip, depth + 1) for one in checkouts]
    unchanged = not (found.put or found.gone or ignored.sizes or any(map(_has_work, inner)))
    if nested and head and unchanged and _find_linked_commit(view, place, path) == head and is_upstream(view, nested):
        return Survey(ignored={})
    files = _list_all_files(view, root, index, env)
    notes = [*files.left_out, *no_files]
    whole = _combine(inner, {joined(path, name): size for name, size in ignored.sizes.items()}, notes)
    if nested is None:
        note = LeftOutFile(path=path, why="its git folder is outside the worktree and is not saved")
        return whole.replace(inside=(*_list_below(path, files.put), *whole.inside), left_out=(*whole.left_out, note))
    return whole.replace(inside=(*_list_below(path, files.put), *whole.inside), nested=(nested, *whole.nested))


def _survey_files(
    view: View, root: str, index: str, skip: Collection[str], env: Mapping[str, str]
) -> tuple[SortedFiles, IgnoredFiles]:
    everything = view.git(*LIST_ALL, tree=root, index=index, env=env)
    if not any(tag == b"?" for tag, _ in listed(everything)):  # then no file is ignored either
        return sort_out(root, everything, largest=None, most_untracked=None), IgnoredFiles(sizes={}, skipped=())
    listing = view.git(*LIST, tree=root, index=index, env=env)
    found = sort_out(root, listing, largest=None, most_untracked=None)
    return found, find_ignored(view, root, index, skip, env)


def _list_all_files(view: View, root: str, index: str, env: Mapping[str, str]) -> SortedFiles:
    told = view.git("ls-files", "-z", "-c", "-o", "--exclude-standard", tree=root, index=index, env=env)
    names = [name for name in told.split(b"\0") if name]
    if git_folder_of(root) is None:
        names.append(b".git")  # the pointer leads nowhere, so it may be any file
    return sort_out(root, b"".join(b"? " + name + b"\0" for name in names), largest=None, most_untracked=None)


def _find_unlisted(root: str, path: str, ignored: IgnoredFiles) -> tuple[list[str], list[LeftOutFile]]:
    """Return what git does not list: the paths of repositories one level down, and pipes, sockets and devices.

    Paths are relative to the worktree.
    """
    checkouts, no_files = [], []
    for folder, entries in walk(root, "", lambda inner: inner not in ignored.skipped):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                inner = joined(folder, entry.name)
                checkouts += [joined(path, inner)] if is_checkout(os.path.join(root, inner)) else []
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                no_files.append(LeftOutFile(path=joined(path, folder, entry.name), why="no plain file"))
    return checkouts, no_files


def _find_removed_with(place: WorktreePlace, path: str) -> NestedRepository | None:
    """Return the repository of a checkout if its git folder would be removed with the worktree, or None."""
    git_folder = git_folder_of(os.path.join(place.path, path))
    if git_folder is None or not lies_below(git_folder, (place.path, place.admin)):
        return None
    return NestedRepository(path=path, git_folder=git_folder)


def _find_without_checkout(
    view: View, place: WorktreePlace, known: Collection[NestedRepository]
) -> list[NestedRepository]:
    """Return git folders that would be removed with the worktree and have no checkout in it."""
    found = [own] if (own := _find_removed_with(place, "")) else []
    modules = os.path.join(place.admin, "modules") if place.admin else ""
    for folder, inner, files in os.walk(modules) if modules else ():
        if "objects" in inner and "HEAD" in files:
            inner.clear()
            found.append(NestedRepository(path=joined("modules", os.path.relpath(folder, modules)), git_folder=folder))
    covered = {os.path.realpath(one.git_folder) for one in known}
    fresh = [one for one in found if os.path.realpath(one.git_folder) not in covered]
    return [one for one in fresh if not one.refs() or not is_upstream(view, one)]


def _read_head(view: View, nested: NestedRepository | None, index: str) -> str | None:
    """Fill an index from the HEAD of a repository inside. Return the commit, or None if it cannot be read."""
    head = nested.head(view) if nested else None
    try:
        view.git("read-tree", *([head] if head else ["--empty"]), index=index, env=nested.env if nested else {})
    except GitFault:
        view.git("read-tree", "--empty", index=index)
        return None
    return head


def _find_linked_commit(view: View, place: WorktreePlace, path: str) -> str | None:
    """Return the commit that the worktree's HEAD records for a submodule, or None."""
    head = place.head(view)
    told = view.git("ls-tree", "-z", head, "--", path) if head else b""
    mode, _, rest = told.partition(b" ")
    return rest.partition(b"\t")[0].rpartition(b" ")[2].decode() if mode == b"160000" else None


def _is_unchanged(place: WorktreePlace, path: str) -> bool:
    found = os.lstat(os.path.join(place.path, path))
    return tuple(place.made.get(path, ())) == (found.st_size, found.st_mtime_ns)


def _combine(inner: Collection[Survey], ignored: Mapping[str, int], notes: Collection[LeftOutFile]) -> Survey:
    return Survey(
        ignored=dict(ignored) | {path: size for one in inner for path, size in one.ignored.items()},
        inside=tuple(path for one in inner for path in one.inside),
        nested=tuple(nested for one in inner for nested in one.nested),
        left_out=(*notes, *(note for one in inner for note in one.left_out)),
    )


def _has_work(one: Survey) -> bool:
    return bool(one.inside or one.nested or one.ignored)


def _list_below(path: str, names: Collection[bytes]) -> list[bytes]:
    return [os.fsencode(path) + b"/" + name for name in names]
