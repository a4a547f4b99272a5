"""Creating and removing worktrees: both a branch and a folder for one task, or neither."""

# ruff: noqa: PTH118, PTH119, PTH120, PTH208
from __future__ import annotations

import os
import re
import stat
import time
from typing import TYPE_CHECKING

from fleet.core.branch import check_branch
from fleet.core.errors import BranchInUse, FleetError
from fleet.core.record import Record
from fleet.files import atomic_write, make_private
from fleet.git.branches import delete_branch, resolve_base
from fleet.git.process import GitFault, git
from fleet.git.repository import locked
from fleet.git.untrusted_folders import NotDeleted, delete, set_aside, sweep
from fleet.git.view import branch_tip
from fleet.git.worktree_records import (
    WorktreeState,
    admin_of,
    branches_checked_out,
    busy,
    clear_stale,
    leads,
    lock_named,
    place_of,
    read,
    real,
    state_of,
    worktrees,
)

if TYPE_CHECKING:
    from fleet.git.repository import Repository
    from fleet.home import Home

__all__ = [
    "AddedWorktree",
    "WorktreeState",
    "add",
    "branches_checked_out",
    "delete_branch",
    "follow",
    "is_free",
    "remove",
]
__all__ += ["resolve_base", "state_of", "sweep_away", "take_away", "undo"]

#: Shown by `git worktree list`. The lock keeps another agent's `git worktree remove` from removing the worktree.
REASON = "an agent of fleet works here; `fleet kill` removes it"
#: Prefixes under which a removed folder waits for deletion: beside its path, and in the git directory.
ASIDE = ".gone-"
ADMIN_ASIDE = "fleet-gone-"
#: Pauses in which another git process may finish.
MOMENTS_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 0.0)
#: Git's messages about another running git process rather than an error.
RACE = re.compile(r"failed to read .*commondir|could not create directory of .*worktrees|\.lock': File exists")
#: A partial clone fetches missing objects at checkout.
FETCHING = {"GIT_NO_LAZY_FETCH": "0"}


class AddedWorktree(Record):
    """A worktree that was created."""

    path: str
    branch: str
    commit: str  # the commit that is checked out
    admin: str  # git's folder for it, for `state_of` and `remove`
    made: bool  # the branch was created for it


def add(
    home: Home,
    repository: Repository,
    *,
    path: str,
    branch: str,
    base_commit: str,
    made: bool,
) -> AddedWorktree:
    """Create a worktree on a new branch from a commit if `made`, else on an existing branch that is free.

    Git obeys the repository's settings and filters here, but no hooks. So call it only for a trusted repository. On
    failure, nothing stays behind. Raises BranchInUse, RepositoryBusy, GitFault, FleetError.
    """
    check_branch(branch)
    _refuse_place(repository, path)
    with locked(home, repository):
        tip = _check_branch_free(repository, branch, base_commit, made=made)
        try:
            admin = _register_with_retries(repository, path, branch, "" if tip else base_commit)
        except BaseException as error:
            asides = _undo_locked(repository, path, branch, base_commit if made else "", killed=_was_killed(error))
            _delete_asides(asides, repository, path)
            raise
    try:
        # Outside the lock, because this step takes long and each worktree has its own index.
        git("reset", "--hard", "--quiet", "--no-recurse-submodules", cwd=path, env=FETCHING)
    except BaseException:
        undo(home, repository, path=path, branch=branch, base_commit=base_commit, made=made)
        raise
    return AddedWorktree(path=path, branch=branch, commit=tip or base_commit, admin=admin, made=made)


def undo(home: Home, repository: Repository, *, path: str, branch: str, base_commit: str, made: bool) -> None:
    """Undo an `add`, however far it got, even if it was killed. A second call does nothing.

    A branch that it created is deleted only if it did not move.
    """
    with locked(home, repository):
        asides = _undo_locked(repository, path, branch, base_commit if made else "", killed=True)
    _delete_asides(asides, repository, path)


def take_away(home: Home, repository: Repository, path: str, admin: str = "") -> list[str]:
    """Remove a worktree in one quick step that frees its path and branch at once. `sweep_away` deletes the contents.

    Nothing is saved here. Return the folders that wait for deletion. Raises NotDeleted if the path is not a worktree or
    has a mount.
    """
    with locked(home, repository):
        return _take_away_locked(repository, path, admin)


def sweep_away(repository: Repository, path: str) -> None:
    """Delete what was removed from a path and its neighbors, even by a process that was killed."""
    sweep(os.path.dirname(path), ASIDE)
    sweep(repository.common, ADMIN_ASIDE)


def remove(home: Home, repository: Repository, path: str, admin: str = "") -> None:
    """Remove a worktree with its contents. Calling it again is safe, even after a kill midway. Its branch stays."""
    _delete_asides(take_away(home, repository, path, admin), repository, path)


def follow(path: str, admin: str, *, before: str, admin_before: str) -> None:
    """Repair the pointers between a moved worktree and git's folder for it. Raises FleetError.

    `before` is the old path of the worktree, and `admin_before` that of git's folder. Pointers that an agent changed
    are not touched.
    """
    if place_of(admin) == before:
        atomic_write(os.path.join(admin, "gitdir"), os.fsencode(f"{real(path)}/.git\n"), 0o644)
    pointer = read(os.path.join(path, ".git")).removeprefix("gitdir: ")
    if pointer and leads(before, pointer) == admin_before and leads(path, pointer) != admin:
        atomic_write(os.path.join(path, ".git"), os.fsencode(f"gitdir: {admin}\n"), 0o644)


def is_free(repository: Repository, branch: str) -> bool:
    """Return True if a branch exists and is not checked out, so that a worktree may use it."""
    return branch_tip(repository, branch) is not None and branch not in branches_checked_out(repository)


def _check_branch_free(repository: Repository, branch: str, base_commit: str, *, made: bool) -> str | None:
    """Return the tip of the branch, or None if it must be created. Raises BranchInUse, FleetError."""
    tip = branch_tip(repository, branch)
    # By git's rule, a branch that does not exist yet belongs to no worktree.
    where = branches_checked_out(repository).get(branch) if tip is not None else None
    if where is not None:
        raise BranchInUse(
            f"branch {branch!r} is checked out at {where}", hint="choose another branch, or remove that worktree"
        )
    # A killed `add` may have left its new branch at the base.
    if made and tip not in (None, base_commit):
        raise BranchInUse(
            f"branch {branch!r} already exists", hint="choose another name, or omit --base to continue on it"
        )
    if not made and tip is None:
        raise FleetError(f"no such branch: {branch!r}", hint="run `git branch` to list them")
    return tip


def _register_with_retries(repository: Repository, path: str, branch: str, base_commit: str) -> str:
    make_private(os.path.dirname(path))
    for pause in MOMENTS_SECONDS:
        try:
            return _register_once(repository, path, branch, base_commit)
        except GitFault as fault:
            _wait_or_raise(repository, fault, pause)
            _undo_locked(repository, path, branch, base_commit, killed=False)
    raise FleetError(f"git did not create a worktree at {path}")


def _register_once(repository: Repository, path: str, branch: str, base_commit: str) -> str:
    words = ["worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", REASON]
    words += ["--no-track", "-b", branch, "--", path, base_commit] if base_commit else ["--", path, branch]
    git(*words, cwd=repository.common, env={"GIT_DIR": repository.common})
    os.chmod(path, 0o700)  # noqa: PTH101 - git creates it with the umask
    # Git's own pointer is the quickest answer. Others wait for the lock, and the repository may have many worktrees.
    admin = leads(path, read(os.path.join(path, ".git")).removeprefix("gitdir: "))
    if os.path.dirname(admin) != os.path.join(repository.common, "worktrees") or place_of(admin) != real(path):
        admin = admin_of(repository, path) or ""
    if not admin:
        raise FleetError(f"git did not create a worktree at {path}")
    return admin


def _wait_or_raise(repository: Repository, fault: GitFault, pause: float) -> None:
    lock = lock_named(fault)
    if lock is not None and clear_stale(repository, lock) and pause:
        return
    if not pause or not RACE.search(fault.said):
        raise busy(lock) if lock else fault
    time.sleep(pause)


def _was_killed(error: BaseException) -> bool:
    return isinstance(error, GitFault) and error.status < 0


def _undo_locked(repository: Repository, path: str, branch: str, made_from: str, *, killed: bool) -> list[str]:
    """Undo an `add`. Return the folders that now wait for deletion."""
    asides: list[str | None] = []
    if admin_of(repository, path) or not os.path.lexists(path) or _is_worktree(path):
        asides += _take_away_locked(repository, path, "")
    for admin, place in worktrees(repository):
        # Git creates its folder first and records the path in it later. Until then, only its name identifies it.
        if not place and re.fullmatch(re.escape(os.path.basename(path)) + r"\d*", os.path.basename(admin)):
            asides.append(set_aside(admin, repository.common, ADMIN_ASIDE))
    ref = f"refs/heads/{branch}"
    if killed:
        clear_stale(repository, os.path.join(repository.common, f"{ref}.lock"), seconds=0)
    free = branch not in branches_checked_out(repository)
    if made_from and free and branch_tip(repository, branch) == made_from:
        git("update-ref", "-d", ref, made_from, cwd=repository.common, env={"GIT_DIR": repository.common})
    return [aside for aside in asides if aside]


def _delete_asides(asides: list[str], repository: Repository, path: str) -> None:
    for aside in asides:
        delete(aside)
    sweep_away(repository, path)


def _take_away_locked(repository: Repository, path: str, admin: str) -> list[str]:
    found = _find_own_admin(repository, path, admin)
    if not found and os.path.lexists(path) and not _is_worktree(path):
        raise NotDeleted(
            f"{path} is not a worktree of {repository.top}", hint="inspect the folder; fleet did not change it"
        )
    if _contains(real(path), repository.common) or _contains(real(path), repository.top):
        raise NotDeleted(f"{path} holds the repository itself", hint="nothing was removed")
    asides = [set_aside(path, os.path.dirname(path), ASIDE)]
    asides += [set_aside(found, repository.common, ADMIN_ASIDE)] if found else []
    return [aside for aside in asides if aside]


def _find_own_admin(repository: Repository, path: str, admin: str) -> str | None:
    """Return git's folder for the worktree at a path.

    This is its first folder, unless another worktree uses that folder now.
    """
    if not admin or os.path.dirname(admin) != os.path.join(repository.common, "worktrees"):
        return admin_of(repository, path)
    place = next((where for known, where in worktrees(repository) if known == admin), None)
    if place and place != real(path) and not state_of(repository, place, admin).tampered:
        return admin_of(repository, path)
    return admin if place is not None else admin_of(repository, path)


def _refuse_place(repository: Repository, path: str) -> None:
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):  # noqa: PTH112
        raise FleetError(f"{path} already exists", hint="run `fleet list --repair` to find leftover worktrees")
    if not os.path.isabs(path) or _contains(repository.common, path):  # noqa: PTH117
        raise FleetError(f"a worktree cannot be at {path}", hint="set project.worktree_root to another directory")


def _is_worktree(path: str) -> bool:
    """Return True if a path is an empty folder, a link, or a folder with git's pointer file."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return os.path.islink(path)  # noqa: PTH114
        return not os.listdir(path) or read(os.path.join(path, ".git")).startswith("gitdir: ")
    except PermissionError:
        return False


def _contains(folder: str, path: str) -> bool:
    return os.path.realpath(path) == folder or os.path.realpath(path).startswith(folder.rstrip(os.sep) + os.sep)
