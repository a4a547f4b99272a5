"""Repositories inside a worktree, including submodules. They are preserved without running git with their settings.

fleet's view uses their objects as an additional object store and packs the commits that their refs and logs name. If a
repository cannot be packed because it is shallow or broken, its git folder is kept as plain files.
"""

# Git's paths may contain any bytes.
# ruff: noqa: PTH112, PTH114, PTH118
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.git.process import GitFault
from fleet.git.save.unreachable_commits import commits_among, named_in, refs_of, unheld
from fleet.git.worktree_place import read_plain
from fleet.git.worktree_records import head_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.git.view import View

POINTER = b"gitdir: "
#: Maximum size of a list of refs that is read.
REFS_BYTES = 16 * 1024 * 1024


class NestedRepository(Record):
    """The git folder of a repository inside a worktree."""

    path: str  # its checkout relative to the worktree; "" if it replaced the worktree's own `.git`
    git_folder: str

    @property
    def env(self) -> dict[str, str]:
        """Return the environment in which git also finds this repository's objects."""
        objects = os.path.join(self.git_folder, "objects")
        # Quoted, because git splits the list at colons.
        found = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": '"' + objects.replace("\\", "\\\\").replace('"', '\\"') + '"'}
        return found | ({"GIT_SHALLOW_FILE": self._shallow} if os.path.lexists(self._shallow) else {})

    @property
    def _shallow(self) -> str:
        return os.path.join(self.git_folder, "shallow")

    @property
    def is_shallow(self) -> bool:
        """Return True if it has only the newest part of its history."""
        return os.path.lexists(self._shallow)

    def head(self, view: View) -> str | None:
        branch, commit = head_of(self.git_folder)
        named = {os.fsencode(f"refs/heads/{branch}")} if branch else set()
        ids = [commit.encode()] if commit else [made for name, made in self.refs().items() if name in named]
        return next(iter(commits_among(view, ids, env=self.env)), None)

    def refs(self) -> dict[bytes, bytes]:
        packed = read_plain(os.path.join(self.git_folder, "packed-refs"), REFS_BYTES)
        rows = (line.split(b" ", 1) for line in packed.splitlines() if line[:1] not in (b"#", b"^"))
        found = {row[1]: row[0] for row in rows if len(row) == 2}
        root = os.path.join(self.git_folder, "refs")
        for folder, _, names in os.walk(root):
            for path in (os.path.join(folder, name) for name in names):
                found[os.fsencode("refs/" + os.path.relpath(path, root))] = read_plain(path, 4096).strip()
        return found


def git_folder_of(checkout: str) -> str | None:
    """Return the git folder of a checkout: `.git` itself or the target of the file `.git`. None if missing."""
    path = os.path.join(checkout, ".git")
    if os.path.islink(path) or os.path.isdir(path):
        found = os.path.realpath(path)
        return found if os.path.isdir(found) else None
    pointer = read_plain(path, 8192)
    target = os.fsdecode(pointer.removeprefix(POINTER).strip())
    if not pointer.startswith(POINTER) or "\0" in target:
        return None
    found = os.path.realpath(os.path.join(checkout, target))
    return found if os.path.isdir(found) else None


def lies_below(path: str, roots: Collection[str | None]) -> bool:
    """Return True if a resolved path is below one of these directories."""
    return any(path.startswith(os.path.realpath(root) + os.sep) for root in roots if root)


def is_upstream(view: View, nested: NestedRepository) -> bool:
    """Return True if all commits that it names came from its remotes."""
    theirs = [made for name, made in nested.refs().items() if name.startswith((b"refs/remotes/", b"refs/tags/"))]
    env = nested.env
    tips = commits_among(view, named_in(nested.git_folder), env=env)
    try:
        return not unheld(view, tips, commits_among(view, theirs, env=env), env=env)
    except GitFault:  # something is missing there, so all of it is kept
        return False


def pack_nested(view: View, nested: NestedRepository, more: Collection[str] = ()) -> list[str]:
    """Copy all commits that a nested repository names, and `more`, into ours. Return the newest. Raises GitFault."""
    if nested.is_shallow:  # its commits would break our repository because their parents are missing
        raise GitFault(("pack-objects",), 1, "it is a shallow clone")
    env = nested.env
    tips = [*commits_among(view, named_in(nested.git_folder), env=env), *more]
    held = refs_of(view)
    pack(view, unheld(view, tips, held, env=env), held, env=env)
    return unheld(view, tips, (), env=env)


def pack(view: View, commits: Collection[str], held: Collection[str], env: Mapping[str, str] | None = None) -> None:
    """Write all objects that these commits need and the held ones lack into one pack, flushed to disk.

    Raises GitFault if any object is missing, so that a pack is always complete.
    """
    if not commits:
        return
    lines = [*commits, *(f"^{made}" for made in held)]
    where = os.path.join(view.path, "objects", "pack", "pack")
    view.git(
        "pack-objects",
        "--quiet",
        "--revs",
        "--non-empty",
        where,
        env=env,
        stdin="".join(f"{line}\n" for line in lines).encode(),
    )
