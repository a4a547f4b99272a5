"""A branch made or moved by git's own rules and without a process: its lock, what it was, its log, a rename.

Only where the repository is of the usual kind and nothing is doubtful; else it is git's, which says what is wrong.
"""

# ruff: noqa: PTH103, PTH104, PTH108, PTH112, PTH118, PTH120
from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from fleet.workspaces.admin import COMMIT, MOST_PACKED, branch_tip, read

if TYPE_CHECKING:
    from fleet.workspaces.repository import Repository

#: Who moved it, in its log.
WHO = "fleet <fleet@localhost>"
NOWHERE = "0" * 40


def move_branch(repository: Repository, branch: str, commit: str, *, before: str | None, words: str) -> bool:
    """Have a branch be at a commit, if it is where it was: `before`, none for one that is not there.

    Whether it was done; where not, nothing was, and git can tell why. Call it with the repository's lock.
    """
    path = os.path.join(repository.common, "refs", "heads", branch)
    if len(commit) != len(NOWHERE) or (before is None and _is_in_the_way(repository, branch)):
        return False
    lock = path + ".lock"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError:
        return False
    try:
        with open(handle, "wb") as file:  # noqa: PTH123
            file.write(f"{commit}\n".encode())
        if not os.path.isdir(path) and not os.path.islink(path) and tip_of(repository, branch) == before:  # noqa: PTH114
            _log(repository.common, branch, f"{before or NOWHERE} {commit} {WHO} {_now()}\t{words}\n")
            os.rename(lock, path)
            return True
    except OSError:
        pass
    with contextlib.suppress(OSError):
        os.unlink(lock)
    return False


def tip_of(repository: Repository, branch: str) -> str | None:
    """Where a branch is, none where it is not; what stands there itself where that is no commit."""
    loose = read(os.path.join(repository.common, "refs", "heads", branch)).strip()
    return branch_tip(repository, branch) if not loose or COMMIT.fullmatch(loose) else loose


def _is_in_the_way(repository: Repository, branch: str) -> bool:
    """Whether a packed branch has this name, or one that is a folder of it, or lies below it; loose ones show."""
    packed = read(os.path.join(repository.common, "packed-refs"), MOST_PACKED)
    if " refs/heads/" not in packed:
        return False
    parts = branch.split("/")
    above = "|".join(re.escape("/".join(parts[:count])) for count in range(1, len(parts) + 1))
    return re.search(rf" refs/heads/(?:(?:{above})$|{re.escape(branch)}/)", packed, re.MULTILINE) is not None


def _log(common: str, branch: str, line: str) -> None:
    """Note it in the branch's log, where the repository keeps such logs."""
    logs = os.path.join(common, "logs", "refs", "heads")
    if not os.path.isdir(logs):
        return
    path = os.path.join(logs, branch)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o666)
    try:
        os.write(handle, os.fsencode(line))
    finally:
        os.close(handle)


def _now() -> str:
    now = time.time()
    return f"{int(now)} {time.strftime('%z', time.localtime(now))}"
