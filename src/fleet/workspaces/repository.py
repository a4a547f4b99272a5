"""A repository of the user's: where its parts lie, what names it, and the lock around every write to it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.home import common_of
from fleet.workspaces.git import GitFault, git_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.home import Home


class NoRepository(FleetError):
    """Here is no git repository."""

    hint = "go into one, or `git init` makes one; `fleet bd create --cwd DIR` needs none."


class RepositoryGone(FleetError):
    """A repository that fleet knows is not at its place: moved, deleted, or on a disk that is not mounted."""

    def __init__(self, place: str) -> None:
        hint = "move it back, or mount its disk; `fleet retry` then continues its tasks."
        super().__init__(f"no git repository at {place}: no HEAD in it or in its .git folder", hint=hint)


class Repository(Record):
    """One repository, whichever of its worktrees it was found from."""

    top: str  # the main checkout's directory; of a bare repository the repository itself
    common: str  # the git directory that all worktrees share

    @property
    def name(self) -> str:
        """What people call it: the directory's name."""
        return os.path.basename(self.top).removesuffix(".git") or "repository"  # noqa: PTH119

    @property
    def key(self) -> str:
        """A name for a folder that no other repository on this machine has."""
        return f"{_plain(self.name)}-{hashlib.sha256(os.fsencode(self.common)).hexdigest()[:8]}"


def is_gone(place: str) -> bool:
    """Whether neither a main checkout nor a git directory is at a place any more."""
    return not any(os.path.exists(os.path.join(place, name)) for name in ("HEAD", ".git/HEAD"))  # noqa: PTH110, PTH118


def refuse_gone(place: str) -> None:
    """Raise RepositoryGone unless a main checkout or a git directory is still at a place."""
    if is_gone(place):
        raise RepositoryGone(place)


def find_repository(directory: str) -> Repository:
    """The repository a directory belongs to, be it the main checkout or a worktree. Raises NoRepository."""
    common = os.path.realpath(common_of(directory) or _told(directory))
    top = os.path.dirname(common) if os.path.basename(common) == ".git" else common  # noqa: PTH119, PTH120
    return Repository(top=top, common=common)


def _told(directory: str) -> str:
    try:
        return git_text("rev-parse", "--path-format=absolute", "--git-common-dir", cwd=directory)
    except GitFault as error:
        raise NoRepository(f"{directory} is not in a git repository") from error


@contextlib.contextmanager
def locked(home: Home, repository: Repository) -> Iterator[None]:
    """Alone among fleet's processes in writing to this repository: git itself does not take turns."""
    folder = os.path.join(home.root, "locks")  # noqa: PTH118
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    handle = os.open(os.path.join(folder, repository.key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # noqa: PTH118
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:40] or "repository"
