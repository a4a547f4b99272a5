"""What git keeps about worktrees, read as data: no git runs, and nothing an agent wrote there is obeyed."""

# ruff: noqa: PTH118, PTH120, PTH208
from __future__ import annotations

import os
import re
import stat

from fleet.core.record import Record
from fleet.files import read_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.workspaces.repository import Repository

#: Longer than any of these files is; the rest of a longer one is not read.
LONGEST = 8192
MOST_FOLDERS = 10_000
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: What git leaves in a worktree's folder while something is going on, and its name.
GOING_ON = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


class WorktreeState(Record):
    """What is true of a worktree on disk."""

    path: str
    exists: bool  # whether there is a folder at the path
    admin: str | None  # git's folder about it; none when git knows of no worktree here
    branch: str | None = None  # the branch that is checked out
    commit: str | None = None  # the commit, where no branch is
    going_on: tuple[str, ...] = ()  # rebase, merge, cherry-pick, revert, bisect
    tampered: tuple[str, ...] = ()  # what does not lead where git made it lead: .git, commondir, gitdir, HEAD, admin


def state_of(repository: Repository, path: str, admin: str = "") -> WorktreeState:
    """What is true of the worktree at a path. `admin` is git's folder about it, where it is known since it was made."""
    path = real(path)
    admin = admin or admin_of(repository, path) or ""
    exists = os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114
    if not admin or not _is_folder(admin):
        return WorktreeState(path=path, exists=exists, admin=None, tampered=("admin",) if exists else ())
    branch, commit = head_of(admin)
    going_on = {word for name, word in GOING_ON.items() if os.path.lexists(os.path.join(admin, name))}
    return WorktreeState(
        path=path,
        exists=exists,
        admin=admin,
        branch=branch,
        commit=commit,
        going_on=tuple(sorted(going_on)),
        tampered=_tampered(repository, path, admin) if exists else (),
    )


def admin_of(repository: Repository, path: str) -> str | None:
    """Git's folder about the worktree at a path, by what that folder says, not by what the worktree says."""
    place = real(path)
    return next((admin for admin, where in worktrees(repository) if where == place), None)


def worktrees(repository: Repository) -> list[tuple[str, str]]:
    """Git's folder and the path of each worktree; the path is empty where git's folder does not say."""
    folder = os.path.join(repository.common, "worktrees")
    if not _is_folder(folder):
        return []
    found = []
    for name in sorted(os.listdir(folder))[:MOST_FOLDERS]:
        admin = os.path.join(folder, name)
        if _is_folder(admin):
            found.append((admin, place_of(admin)))
    return found


def branches_checked_out(repository: Repository) -> dict[str, str]:
    """Each branch that is checked out or being rebased somewhere, and where: the main checkout and all worktrees."""
    places = [] if repository.top == repository.common else [(repository.common, repository.top)]
    found: dict[str, str] = {}
    for admin, path in places + worktrees(repository):
        heads = (head_of(admin)[0], _rebased(admin, "rebase-merge"), _rebased(admin, "rebase-apply"))
        for branch in heads:
            if branch:
                found.setdefault(branch, path)
    return found


def head_of(admin: str) -> tuple[str | None, str | None]:
    """The branch or the commit that is checked out; neither when its HEAD makes no sense."""
    text = read(os.path.join(admin, "HEAD")).strip()
    if text.startswith("ref: refs/heads/"):
        return text.removeprefix("ref: refs/heads/"), None
    return None, text if COMMIT.fullmatch(text) else None


def read(path: str, limit: int = LONGEST) -> str:
    """The beginning of a regular file as text, else nothing. Links are not followed, pipes not waited for."""
    return os.fsdecode(read_start(path, limit))


def real(path: str) -> str:
    """The path as git writes it: links resolved up to the last name, which an agent could make a link itself."""
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    return os.path.join(os.path.realpath(folder), name)


def _tampered(repository: Repository, path: str, admin: str) -> tuple[str, ...]:
    pointer = read(os.path.join(path, ".git"))
    checks = {
        ".git": pointer.startswith("gitdir: ") and leads(path, pointer.removeprefix("gitdir: ")) == admin,
        "commondir": leads(admin, read(os.path.join(admin, "commondir"))) == repository.common,
        "gitdir": place_of(admin) == path,
        "HEAD": any(head_of(admin)),
    }
    return tuple(name for name, right in checks.items() if not right)


def place_of(admin: str) -> str:
    """Return where git's folder about a worktree says that the worktree is; empty where it says nothing."""
    text = read(os.path.join(admin, "gitdir")).removesuffix("\n")
    return os.path.dirname(leads(admin, text)) if text else ""


def leads(folder: str, text: str) -> str:
    """Return where the text of a pointer file in a folder leads."""
    return os.path.normpath(os.path.join(folder, text.removesuffix("\n"))).replace("\0", "")


def _rebased(admin: str, what: str) -> str | None:
    text = read(os.path.join(admin, what, "head-name")).strip()
    return text.removeprefix("refs/heads/") if text.startswith("refs/heads/") else None


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
