"""Where branches are, read without a process: what git keeps about them is a line in a file."""

# ruff: noqa: PTH113, PTH118
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.workspaces.admin import COMMIT, MOST_PACKED, branch_tip, read

if TYPE_CHECKING:
    from fleet.workspaces.repository import Repository


def tip_of(repository: Repository, branch: str) -> str | None:
    """Where a branch is, none where it is not; what stands there itself where that is no commit."""
    loose = read(os.path.join(repository.common, "refs", "heads", branch)).strip()
    return branch_tip(repository, branch) if not loose or COMMIT.fullmatch(loose) else loose


def in_the_way(repository: Repository, branch: str) -> str:
    """A branch whose name is a folder of this one's, or lies below it: git cannot keep both. Empty: there is none."""
    heads = os.path.join(repository.common, "refs", "heads")
    if found := next((each for each in _above(branch) if os.path.isfile(os.path.join(heads, each))), ""):
        return found
    for folder, _, names in os.walk(os.path.join(heads, branch)):
        if name := next((each for each in sorted(names) if not each.endswith(".lock")), ""):
            return os.path.relpath(os.path.join(folder, name), heads)
    return _packed(repository, _above(branch), branch)


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
