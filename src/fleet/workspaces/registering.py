"""Registering a worktree with its repository: the files that `git worktree add` writes, and no process for them.

Git starts three processes for it, more than a small checkout takes. What is written here is read by git alone, and is
the same; a repository that keeps its refs or its settings in another way is left to git itself.
"""

# ruff: noqa: PTH102, PTH103, PTH104, PTH106, PTH118, PTH119, PTH123
from __future__ import annotations

import contextlib
import fcntl
import os
import re
from typing import TYPE_CHECKING

from fleet.files import atomic_write
from fleet.workspaces.admin import leads, place_of, read, real
from fleet.workspaces.git import git
from fleet.workspaces.refs import new_branch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.workspaces.repository import Repository

#: Settings with which git does more, or writes otherwise: refs elsewhere, settings for each worktree, modes of its own.
OTHERWISE = re.compile(
    r"worktreeconfig|refstorage|relativeworktrees|userelativepaths|sharedrepository|objectformat|logallrefupdates\s*=\s*[^t\s]",
    re.IGNORECASE,
)
#: What is there when git does more.
MORE = ("config.worktree", "reftable", "info/sparse-checkout")
MOST_CONFIG = 1 << 20
MOST_NAMES, MOST_TRIES = 10_000, 1_000


def is_usual(repository: Repository) -> bool:
    """Whether a repository is of the kind that nearly all are."""
    common = repository.common
    if any(os.path.lexists(os.path.join(common, name)) for name in MORE):
        return False
    config = read(os.path.join(common, "config"), MOST_CONFIG)
    return bool(config) and not OTHERWISE.search(config)


def register(repository: Repository, path: str, branch: str, *, reason: str, aside: str) -> str:
    """Make git's folder about a worktree that is on a branch, locked for a reason; that folder. Raises OSError.

    Whole or not at all: it is made aside, under a name that is swept where we are killed, and renamed into its place.
    """
    with _drafted(repository.common, aside) as draft:
        texts = {
            "locked": reason,
            "gitdir": f"{real(path)}/.git\n",
            "HEAD": f"ref: refs/heads/{branch}\n",
            "commondir": "../..\n",
        }
        for name, text in texts.items():
            _write(os.path.join(draft, name), text)
        return _put(draft, os.path.join(repository.common, "worktrees"), os.path.basename(path))


def point(tree: str, admin: str) -> None:
    """Write the pointer of a worktree to git's folder about it."""
    _write(os.path.join(tree, ".git"), f"gitdir: {admin}\n")


def follow(path: str, admin: str, *, before: str, admin_before: str) -> None:
    """Have a worktree that was moved and git's folder about it lead to each other again. Raises FleetError.

    `before` is where the worktree was, and `admin_before` where git's folder was. What an agent changed stays changed.
    """
    if place_of(admin) == before:
        atomic_write(os.path.join(admin, "gitdir"), os.fsencode(f"{real(path)}/.git\n"), 0o644)
    pointer = read(os.path.join(path, ".git")).removeprefix("gitdir: ")
    if pointer and leads(before, pointer) == admin_before and leads(path, pointer) != admin:
        atomic_write(os.path.join(path, ".git"), os.fsencode(f"gitdir: {admin}\n"), 0o644)


def make_branch(repository: Repository, branch: str, commit: str, *, aside: str) -> None:
    """Make a branch that is not there yet. Raises GitFault, also where somebody made it meanwhile."""
    said = f"branch: Created from {commit}"
    if is_usual(repository) and _quickly(repository, branch, commit, said, aside):
        return
    words = ("update-ref", "-m", said, f"refs/heads/{branch}", commit, "0" * len(commit))
    git(*words, cwd=repository.common, env={"GIT_DIR": repository.common})


def _quickly(repository: Repository, branch: str, commit: str, words: str, aside: str) -> bool:
    with contextlib.suppress(OSError), _drafted(repository.common, aside) as draft:
        try:
            return new_branch(repository, branch, commit, draft=draft, words=words)
        finally:
            os.rmdir(draft)
    return False


def _put(draft: str, folder: str, name: str) -> str:
    """Move a draft to a new name in a folder. Git removes that folder wherever it finds it empty: then once more."""
    for left in reversed(range(MOST_TRIES)):
        try:
            os.makedirs(folder, exist_ok=True)
            place = _claimed(folder, name)
            os.rename(draft, place)
        except (FileNotFoundError, FileExistsError):  # the second from makedirs, if the folder goes meanwhile
            if not left or not os.path.lexists(draft):
                raise
        else:
            return place
    raise AssertionError("the last try returns or raises")


def _claimed(folder: str, name: str) -> str:
    """A new name in a folder: an empty folder that nobody else makes any more."""
    for number in range(MOST_NAMES):
        place = os.path.join(folder, f"{name}{number or ''}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)
            return place
    raise FileExistsError(f"{folder} has too many {name}")


@contextlib.contextmanager
def _drafted(place: str, prefix: str) -> Iterator[str]:
    """A new folder, held, so that nobody sweeps it away."""
    draft, handle = _new_draft(place, prefix)
    try:
        yield draft
    finally:
        os.close(handle)


def _new_draft(place: str, prefix: str) -> tuple[str, int]:
    """Before it is held, whoever sweeps may take it for one that was left behind: then another."""
    while True:
        draft = os.path.join(place, f"{prefix}{os.urandom(6).hex()}")
        os.mkdir(draft)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.lexists(draft):
                return draft, handle
            os.close(handle)


def _write(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
