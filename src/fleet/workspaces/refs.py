"""Branch tips, read from git's files without a process."""

# ruff: noqa: PTH113, PTH118
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.workspaces.admin import COMMIT, read
from fleet.workspaces.git import git

if TYPE_CHECKING:
    from fleet.workspaces.repository import Repository

MOST_PACKED = 64 * 1024 * 1024


def branch_tip(repository: Repository, branch: str) -> str | None:
    """Return the commit of a branch, or None if missing. Git runs only for a ref that is not a plain commit."""
    name = f"refs/heads/{branch}"
    loose = read(os.path.join(repository.common, name)).strip()
    if COMMIT.fullmatch(loose):
        return loose
    if loose:  # a symbolic ref or invalid content
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        told = git(*words, cwd=repository.common, env={"GIT_DIR": repository.common}, allow=(1, 128))
        return told.decode().strip() or None
    packed = read(os.path.join(repository.common, "packed-refs"), MOST_PACKED)
    found = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", packed, re.MULTILINE)
    return found[1] if found and COMMIT.fullmatch(found[1]) else None


def in_the_way(repository: Repository, branch: str) -> str:
    """Return an existing branch that git cannot keep beside this one, or "".

    Git cannot keep two branches if the name of one is a folder of the other.
    """
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
    """Return a packed branch that has one of these names or is below a folder."""
    packed = read(os.path.join(repository.common, "packed-refs"), MOST_PACKED)
    if " refs/heads/" not in packed:
        return ""
    exact = "".join(f"{re.escape(each)}|" for each in names)
    found = re.search(rf" refs/heads/({exact}{re.escape(folder)}/.+)$", packed, re.MULTILINE)
    return found[1] if found else ""
