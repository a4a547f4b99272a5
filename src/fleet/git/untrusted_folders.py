"""Folders where agents can write: walking through them and deleting them without following links."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Paths are relative to descriptors here, which pathlib does not support.
# ruff: noqa: PTH104, PTH118, PTH208


#: More levels than a file system holds. Beyond that, a process is still writing there.
MOST_ROUNDS = 200_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotDeleted(FleetError):
    """Something in a folder could not be deleted, and the rest is still there."""


def delete(path: str, *, wait: bool = True) -> None:
    """Delete a path. A missing path is fine. Raises NotDeleted.

    If another process deletes the same folder, wait for it, or with `wait` False leave the folder to it.
    """
    parent, name = os.path.split(path)
    try:
        with _open_folder(parent) as folder:
            if _unlink_entry(folder, name):
                return
            with contextlib.suppress(FileNotFoundError):
                _loosen_rights(folder, name)
                with _open_folder(name, folder) as root:
                    _refuse_mount(folder, root, path)
                    fcntl.flock(root, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # The previous holder of the lock may have renamed it, so that it is no longer the requested folder.
                    if os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(root)):
                        _empty_folder(root, path)
                        os.rmdir(name, dir_fd=folder)  # still locked until it is gone, so that waiting processes notice
    except (FileNotFoundError, BlockingIOError):
        return
    except OSError as error:
        raise NotDeleted(f"{path} could not be deleted: {error.strerror}", hint=_choose_hint(error)) from error


def set_aside(path: str, folder: str, prefix: str) -> str | None:
    """Move a path to a new name in a folder on the same disk, in one step. Return the new path, or None if missing.

    Raises NotDeleted.
    """
    aside = os.path.join(folder, f"{prefix}{os.urandom(6).hex()}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotDeleted(f"{path} could not be removed: {error.strerror}", hint=_choose_hint(error)) from error
    return aside


def sweep(folder: str, prefix: str) -> None:
    """Delete what this or a killed process set aside in a folder, except what another process is deleting."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(prefix):
            try:
                delete(os.path.join(folder, name), wait=False)
            except NotDeleted as error:  # it only takes up space; the next sweep tries again
                import logging

                logging.getLogger(__name__).warning("%s", error)


def _empty_folder(root: int, path: str) -> None:
    # Each folder is moved up to the root before it is entered, so that depth needs neither descriptors nor recursion.
    # The kernel refuses to move a mount point, even one of the same disk.
    fresh = (f".fleet-{os.getpid()}-{os.urandom(4).hex()}-{number}" for number in range(10**12))
    for _ in range(MOST_ROUNDS):
        names = os.listdir(root)
        if not names:
            return
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                _drop_entry(root, name, fresh)
    raise NotDeleted(f"{path} is still being written to", hint="stop what runs there, then try again")


def _drop_entry(root: int, name: str, fresh: Iterator[str]) -> None:
    if _unlink_entry(root, name):
        return
    moved = _move_entry(root, name, root, fresh)
    with _open_folder(moved, root) as folder:
        for inner in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                if not _unlink_entry(folder, inner):
                    _move_entry(folder, inner, root, fresh)
    # Entries that were added meanwhile are handled in the next round.
    with contextlib.suppress(OSError):
        os.rmdir(moved, dir_fd=root)


def _move_entry(folder: int, name: str, root: int, fresh: Iterator[str]) -> str:
    _loosen_rights(folder, name)
    new = next(fresh)
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=root)
    return new


def _unlink_entry(folder: int, name: str) -> bool:
    """Unlink an entry. Return False if it is a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        raise
    return True


def _loosen_rights(folder: int, name: str) -> None:
    """Give the owner all rights on a folder. A link in its place is not followed."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)


def _refuse_mount(folder: int, root: int, path: str) -> None:
    if _identify_mount(folder) != _identify_mount(root):
        raise NotDeleted(f"{path} is a mount point", hint=f"unmount it first: `umount {path}`")


def _identify_mount(handle: int) -> object:
    """Return a value that identifies a mount, even among mounts of the same disk if the kernel reports them."""
    with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{handle}", "rb") as lines:  # noqa: PTH123
        return next((line for line in lines if line.startswith(b"mnt_id:")), None)
    return os.fstat(handle).st_dev


@contextlib.contextmanager
def _open_folder(name: str, folder: int | None = None) -> Iterator[int]:
    # The parent folder belongs to the user and may be reached through links. Its contents may not.
    flags = _FOLDER if folder is not None else _FOLDER & ~os.O_NOFOLLOW
    handle = os.open(name, flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _choose_hint(error: OSError) -> str:
    if error.errno in (errno.EBUSY, errno.EXDEV):
        return "unmount the file systems in it first"
    return "check its owner and write permission, then try again"


# ruff: noqa: PTH101, PTH118


def walk(
    root: str, folder: str = "", enter: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield each directory from `folder` down, by its path from the root, and its entries except `.git`.

    The checkout of another repository is not entered. It appears only as an entry of its parent.
    """
    todo = [folder]
    while todo:
        path = todo.pop()
        entries = [entry for entry in _list_entries(os.path.join(root, path)) if entry.name != ".git"]
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
        todo += [entry.path for entry in _list_entries(folder) if entry.is_dir(follow_symlinks=False)]


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


def _list_entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)
