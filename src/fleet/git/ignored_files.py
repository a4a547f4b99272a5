"""Ignored files of a checkout that exist nowhere else, such as a database or an `.env`, without what tools recreate."""

# ruff: noqa: PTH118
from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.git.untrusted_folders import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.git.view import View

LIST = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
#: Directories that tools recreate. `target` counts only if a tool marked it as a cache.
SKIPPED = (
    *("node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    *(".gradle", ".next", "target"),
)


class IgnoredFiles(Record):
    """The ignored files of one checkout."""

    sizes: Mapping[str, int]  # files worth keeping, with their sizes
    skipped: Collection[str]  # directories that were not searched


def find_ignored(view: View, root: str, index: str, skip: Collection[str], env: Mapping[str, str]) -> IgnoredFiles:
    """Return the ignored files below a root, given its index. Paths are relative to the root."""
    told = view.git(*LIST, tree=root, index=index, env=env)
    sizes: dict[str, int] = {}
    skipped: set[str] = set()
    for path in (os.fsdecode(entry) for entry in told.split(b"\0") if entry):
        if path.endswith("/"):
            _add_sizes_below(root, path.rstrip("/"), skip, sizes, skipped)
        else:
            _add_size(root, path, sizes)
    return IgnoredFiles(sizes=sizes, skipped=skipped)


def made_again(root: str, path: str, skip: Collection[str]) -> bool:
    """Return True if a tool recreates this directory, judged by its name.

    A common word also needs the tool's mark file.
    """
    name = path.rpartition("/")[2]
    if name == "target":
        return "target" in skip and os.path.lexists(os.path.join(root, path, "CACHEDIR.TAG"))
    return name in skip


def _add_sizes_below(root: str, folder: str, skip: Collection[str], sizes: dict[str, int], skipped: set[str]) -> None:
    def enter(path: str) -> bool:
        again = made_again(root, path, skip)
        skipped.update([path] if again else [])
        return not again

    if enter(folder):
        for path, entries in walk(root, folder, enter):
            for entry in entries:
                _add_size(root, f"{path}/{entry.name}", sizes)


def _add_size(root: str, path: str, sizes: dict[str, int]) -> None:
    found = os.lstat(os.path.join(root, path))
    if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
        sizes[path] = found.st_size
