"""Walking through an agent's folders: links are not followed, and locked folders are opened before their removal."""

# ruff: noqa: PTH101, PTH118
from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def walk(
    root: str, folder: str = "", enter: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield each directory from `folder` down, by its path from the root, and its entries except `.git`.

    The checkout of another repository is not entered. It appears only as an entry of its parent.
    """
    todo = [folder]
    while todo:
        path = todo.pop()
        entries = [entry for entry in _entries(os.path.join(root, path)) if entry.name != ".git"]
        yield path, entries
        inner = [joined(path, entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
        todo += [inside for inside in inner if not is_checkout(os.path.join(root, inside)) and enter(inside)]


def open_up(root: str) -> None:
    """Give the owner all rights on each directory below a root, because git skips what it cannot list."""
    todo = [root]
    while todo:
        folder = todo.pop()
        mode = stat.S_IMODE(os.lstat(folder).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(folder, mode | 0o700)
        todo += [entry.path for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]


def is_checkout(folder: str) -> bool:
    """Return True if a directory has a `.git` of any kind."""
    return os.path.lexists(os.path.join(folder, ".git"))


def has_content(entry: os.DirEntry[str]) -> bool:
    """Return True if an entry has content to keep, unlike a pipe, socket or device."""
    mode = entry.stat(follow_symlinks=False).st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)


def joined(*parts: str) -> str:
    """Return a path of the given parts, of which any may be empty."""
    return "/".join(part for part in parts if part)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)
