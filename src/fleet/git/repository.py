"""The user's repositories: their parts, name and owner, and the lock around fleet's writes to them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.ids import sha256
from fleet.core.record import Record
from fleet.files import make_private
from fleet.home import admin_of_pointer, common_of, find_checkout, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.home import Home


#: Git's messages about a repository of another user.
FOREIGN = re.compile(r"dubious ownership|owned by someone else")


class NoRepository(FleetError):
    """The directory is not in a git repository."""

    hint = "go into one, or `git init` makes one; `fleet bd create --cwd DIR` needs none"


class NotOwned(FleetError):
    """A repository belongs to another user. Git obeys its settings only if the user allows it."""

    def __init__(self, place: str, why: str) -> None:
        named = place if re.fullmatch(r"[\w./+@:-]+", place) else quoted(place)
        hint = f"if you trust its author, run `git config --global --add safe.directory {named}`"
        super().__init__(f"git refuses the repository at {place}: {why}", hint=hint)


class RepositoryGone(FleetError):
    """A known repository is missing: moved, deleted, or on a disk that is not mounted."""

    def __init__(self, place: str) -> None:
        hint = "move it back, or mount its disk; `fleet retry` then continues its tasks"
        super().__init__(f"no git repository at {place}: no HEAD in it or in its .git folder", hint=hint)


class Repository(Record):
    """A repository, the same for all of its worktrees."""

    top: str  # the main checkout's directory; for a bare repository, the repository itself
    common: str  # the git directory that all worktrees share

    @property
    def name(self) -> str:
        return os.path.basename(self.top).removesuffix(".git") or "repository"  # noqa: PTH119

    @property
    def key(self) -> str:
        """Return a folder name that is unique to this repository on this machine."""
        return f"{_plain(self.name)}-{sha256(os.fsencode(self.common))[:8]}"


def is_gone(place: str) -> bool:
    """Return True if neither a main checkout nor a git directory exists at a path."""
    return not any(os.path.exists(os.path.join(place, name)) for name in ("HEAD", ".git/HEAD"))  # noqa: PTH110, PTH118


def refuse_gone(place: str) -> None:
    """Raise RepositoryGone unless a main checkout or a git directory exists at a path."""
    if is_gone(place):
        raise RepositoryGone(place)


def find_repository(directory: str) -> Repository:
    """Return the repository of a directory in its main checkout or a worktree. Raises NoRepository, NotOwned."""
    found = common_of(directory)
    common = os.path.realpath(found or _told(directory))
    top = os.path.dirname(common) if os.path.basename(common) == ".git" else common  # noqa: PTH119, PTH120
    if found is not None:
        checkout = find_checkout(os.path.realpath(directory)) or top
        pointer = os.path.join(checkout, ".git")  # noqa: PTH118
        refuse_foreign(checkout, pointer, admin_of_pointer(pointer) or pointer)
    repository = Repository(top=top, common=common)
    refuse_foreign_parts(repository)
    return repository


def refuse_foreign_parts(repository: Repository) -> None:
    """Raise NotOwned if a repository belongs to another user and git's settings do not allow it."""
    refuse_foreign(repository.top, repository.common)


def refuse_foreign(place: str, *parts: str) -> None:
    """Raise NotOwned if a checkout or a part of it belongs to another user, and git would refuse the checkout.

    Git checks ownership only if it discovers a repository itself, not if fleet sets GIT_DIR.
    """
    foreign = next((part for part in (place, *parts) if not _is_own(part)), None)
    if foreign is None:
        return
    from fleet.git.process import GitFault

    try:
        _ask(place)  # git knows safe.directory from all settings
    except GitFault as error:
        why = f"{foreign} belongs to another user (uid {os.lstat(foreign).st_uid})"
        raise NotOwned(place, why) from error


def _is_own(path: str) -> bool:
    """Return True unless a file belongs to another user, by git's rule. A missing file has nothing to obey."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return True
    user, caller = os.geteuid(), os.environ.get("SUDO_UID", "")
    return owner == user or (user == 0 and caller.isdecimal() and owner == int(caller))


def _told(directory: str) -> str:
    from fleet.git.process import GitFault

    try:
        return _ask(directory)
    except GitFault as error:
        if FOREIGN.search(error.said):
            raise NotOwned(directory, "it belongs to another user") from error
        raise NoRepository(f"{directory} is not in a git repository") from error


def _ask(directory: str) -> str:
    """Let git find the repository around a directory, with all settings of the user. Raises GitFault."""
    from fleet.git.process import git_text

    settings = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG")}
    words = ("rev-parse", "--path-format=absolute", "--git-common-dir")
    return git_text(*words, cwd=directory, env=settings | {"LC_ALL": "C"})


@contextlib.contextmanager
def locked(home: Home, repository: Repository) -> Iterator[int]:
    """Hold fleet's lock for writes to this repository, because git itself does not serialize them.

    Yield the descriptor of the lock. A child process that inherits the descriptor holds the lock until it ends.
    """
    make_private(home.locks)
    handle = os.open(home.lock(repository.key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:40] or "repository"
