"""Clean checkouts of a commit, for commands that fleet runs: created from scratch and removed completely.

A checkout has a separate git folder that borrows the repository's objects. A test suite can call `git config`, `git
tag` or `git gc` there without changing the user's repository or fleet's settings. The checkout appears in no list of
worktrees.
"""

# ruff: noqa: PTH108, PTH118, PTH208
from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.files import atomic_write, make_private, write_all
from fleet.git.process import git
from fleet.git.untrusted_folders import delete
from fleet.git.view import ALONE
from fleet.git.worktree_place import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.git.diffs import TreeEntry
    from fleet.git.view import View

#: The view's folder for notes about checkouts. An unlocked note belongs to a checkout that was left behind.
NOTES = "checkouts"


@contextlib.contextmanager
def clean_folder(view: View, path: str) -> Iterator[None]:
    """Create an empty folder for checkouts and related files, and delete it when the block ends.

    Raises FleetError, also if the path exists.
    """
    if os.path.lexists(path):
        raise FleetError(f"{path} is in the way of a checkout", hint="remove it, then try again")
    view.make()
    with _hold_note(view, path):
        try:
            make_private(path)
            yield
        finally:
            delete(path)


def sweep(view: View) -> list[str]:
    """Remove the checkouts of killed processes. Return their paths."""
    folder = os.path.join(view.path, NOTES)
    gone = []
    for name in sorted(os.listdir(folder)) if os.path.lexists(folder) else []:
        note = os.path.join(folder, name)
        handle = _lock_note(note)
        if handle is None:
            continue
        try:
            path = os.fsdecode(read_plain(note, 8192))
            if os.path.isabs(path):  # noqa: PTH117
                delete(path)
                gone.append(path)
            os.unlink(note)
        finally:
            os.close(handle)
    return gone


@contextlib.contextmanager
def _hold_note(view: View, path: str) -> Iterator[None]:
    """Keep a note of a checkout, locked while this process uses it."""
    folder = os.path.join(view.path, NOTES)
    make_private(folder)
    note, handle = _create_note(folder)
    try:
        write_all(handle, os.fsencode(os.path.abspath(path)))  # noqa: PTH100
        yield
    finally:
        if not os.path.lexists(path):  # otherwise the checkout must be swept later
            os.unlink(note)
        os.close(handle)


def _create_note(folder: str) -> tuple[str, int]:
    """Return a new locked note.

    Before it is locked, a sweep may remove it as left behind. Then another note is created.
    """
    while True:
        note = os.path.join(folder, os.urandom(8).hex())
        handle = os.open(note, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.lexists(note):
            return note, handle
        os.close(handle)


def _lock_note(note: str) -> int | None:
    try:
        handle = os.open(note, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    if not os.path.lexists(note):  # its holder has finished
        os.close(handle)
        return None
    return handle


def fill(view: View, commit: str, path: str, lay: Mapping[str, TreeEntry | None] | None = None) -> None:
    """Write the files of a commit into a new folder, with some entries replaced, and without those that are None.

    Git builds a tree of these entries, so that no link or name in the commit can lead outside.
    """
    folder = os.path.join(path, ".git")
    make_private(os.path.join(folder, "objects", "info"))
    make_private(os.path.join(folder, "refs"))
    objects = os.path.join(os.path.realpath(view.path), "objects")
    _write_file(folder, "objects/info/alternates", os.fsencode(os.path.realpath(objects)) + b"\n")
    _write_file(folder, "HEAD", commit.encode() + b"\n")
    _write_file(folder, "packed-refs", _format_refs(view))
    _write_file(folder, "config", read_plain(os.path.join(view.path, "config"), 1 << 20))
    if shallow := read_plain(os.path.join(view.repository.common, "shallow"), 1 << 26):
        _write_file(folder, "shallow", shallow)
    env = ALONE | {"GIT_DIR": folder, "GIT_WORK_TREE": path}
    git("config", "core.bare", "false", env=env)
    git("read-tree", "--reset", "-u", _replace_entries(commit, lay, env) if lay else commit, cwd=path, env=env)


def _replace_entries(commit: str, lay: Mapping[str, TreeEntry | None], env: Mapping[str, str]) -> str:
    """Return the tree of a commit with these entries replaced."""
    apart = {**env, "GIT_INDEX_FILE": os.path.join(env["GIT_DIR"], "laid")}
    git("read-tree", commit, env=apart)
    # Removals come first, because a file may take the place of a folder, and a folder that of a file.
    rows = [f"0 {'0' * len(commit)}\t{path}\0" for path, entry in lay.items() if entry is None]
    rows += [f"{entry.mode} {entry.id}\t{path}\0" for path, entry in lay.items() if entry is not None]
    git("update-index", "-z", "--index-info", env=apart, stdin=os.fsencode("".join(rows)))
    tree = git("write-tree", "--missing-ok", env=apart).decode().strip()
    os.unlink(apart["GIT_INDEX_FILE"])
    return tree


def _format_refs(view: View) -> bytes:
    """Return branches and tags as a packed-refs file. Programs that derive a version from the nearest tag need them."""
    head = b"# pack-refs with: sorted \n"
    return head + view.git(
        "for-each-ref", "--sort=refname", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"
    )


def _write_file(folder: str, name: str, data: bytes) -> None:
    atomic_write(os.path.join(folder, name), data, 0o644)
