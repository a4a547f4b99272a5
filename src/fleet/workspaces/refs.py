"""Where branches are, and a new one made, without a process: what git keeps about them is a line in a file.

A branch is made by linking a whole file to its name, which nobody else can do then, and which no kill leaves half done.
Anything doubtful is left to git, which says what is wrong; so is every move of a branch that is there.
"""

# ruff: noqa: PTH103, PTH108, PTH112, PTH113, PTH118, PTH120
from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from fleet.workspaces.admin import COMMIT, MOST_PACKED, branch_tip, read

if TYPE_CHECKING:
    from fleet.workspaces.repository import Repository

#: Who made it, in its log.
WHO = "fleet <fleet@localhost>"
NOWHERE = "0" * 40


def tip_of(repository: Repository, branch: str) -> str | None:
    """Where a branch is, none where it is not; what stands there itself where that is no commit."""
    loose = read(os.path.join(repository.common, "refs", "heads", branch)).strip()
    return branch_tip(repository, branch) if not loose or COMMIT.fullmatch(loose) else loose


def new_branch(repository: Repository, branch: str, commit: str, *, draft: str, words: str) -> bool:
    """Make a branch that is not there, with `draft` as a folder on the way that is swept where we are killed.

    Whether it was done; where not, nothing was, and git can tell why. Call it with the repository's lock.
    """
    path = os.path.join(repository.common, "refs", "heads", branch)
    if len(commit) != len(NOWHERE) or os.path.lexists(f"{path}.lock") or _is_in_the_way(repository, branch):
        return False
    whole = os.path.join(draft, "ref")
    try:
        with open(whole, "x", encoding="ascii") as file:  # noqa: PTH123
            file.write(f"{commit}\n")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.link(whole, path)
    except OSError:  # it is there, something else stands in its way, or this disk has no links
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(whole)
    with contextlib.suppress(OSError):  # it is made, whether or not that can be noted
        _log(repository.common, branch, f"{NOWHERE} {commit} {WHO} {_now()}\t{words}\n")
    return True


def in_the_way(repository: Repository, branch: str) -> str:
    """A branch whose name is a folder of this one's, or lies below it: git cannot keep both. Empty: there is none."""
    heads = os.path.join(repository.common, "refs", "heads")
    if found := next((each for each in _above(branch) if os.path.isfile(os.path.join(heads, each))), ""):
        return found
    for folder, _, names in os.walk(os.path.join(heads, branch)):
        if name := next((each for each in sorted(names) if not each.endswith(".lock")), ""):
            return os.path.relpath(os.path.join(folder, name), heads)
    return _packed(repository, _above(branch), branch)


def _is_in_the_way(repository: Repository, branch: str) -> bool:
    """Whether a packed branch has this name, or one that is a folder of it, or lies below it; loose ones show."""
    return bool(_packed(repository, [*_above(branch), branch], branch))


def _above(branch: str) -> list[str]:
    parts = branch.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _packed(repository: Repository, names: list[str], folder: str) -> str:
    """A packed branch that has one of these names, or lies below a folder."""
    packed = read(os.path.join(repository.common, "packed-refs"), MOST_PACKED)
    if " refs/heads/" not in packed:
        return ""
    exact = "".join(f"{re.escape(each)}|" for each in names)
    found = re.search(rf" refs/heads/({exact}{re.escape(folder)}/.+)$", packed, re.MULTILINE)
    return found[1] if found else ""


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
        data, before = os.fsencode(line), os.fstat(handle).st_size
        if os.write(handle, data) < len(data):  # a disk just full: half a line would spoil the next one too
            os.ftruncate(handle, before)
    finally:
        os.close(handle)


def _now() -> str:
    now = time.time()
    return f"{int(now)} {time.strftime('%z', time.localtime(now))}"
