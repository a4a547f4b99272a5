"""Deleting a folder that a stranger filled: no link is followed, no mount is entered, no depth and no mode stops it."""

# Paths are relative to descriptors here, which pathlib does not know.
# ruff: noqa: PTH104, PTH118, PTH208
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: More levels than a file system holds; beyond it somebody is still writing there.
MOST_ROUNDS = 200_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotDeleted(FleetError):
    """Something in a folder could not be deleted; what is left of it is still there."""


def delete(path: str, *, wait: bool = True) -> None:
    """Delete what is at a path; nothing there is fine. Raises NotDeleted.

    Of two at once on one folder the second waits for the first, or leaves it to the first.
    """
    parent, name = os.path.split(path)
    try:
        with _opened(parent) as folder:
            if _unlinked(folder, name):
                return
            with contextlib.suppress(FileNotFoundError):
                _loosen(folder, name)
                with _opened(name, folder) as root:
                    _refuse_mount(folder, root, path)
                    fcntl.flock(root, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # Whoever held it until now may have given it another name: then it is not what was asked for.
                    if os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(root)):
                        _empty(root, path)
                        os.rmdir(name, dir_fd=folder)  # held until it is gone: whoever waits for it sees that
    except (FileNotFoundError, BlockingIOError):
        return
    except OSError as error:
        raise NotDeleted(f"{path} could not be deleted: {error.strerror}", hint=_hint(error)) from error


def set_aside(path: str, folder: str, prefix: str) -> str | None:
    """Move what is at a path out of the way in one step, to a new name in a folder of the same disk; none: missing."""
    aside = os.path.join(folder, f"{prefix}{os.urandom(6).hex()}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotDeleted(f"{path} could not be removed: {error.strerror}", hint=_hint(error)) from error
    return aside


def sweep(folder: str, prefix: str) -> None:
    """Delete what was set aside in a folder, by us or by a process killed since; not what another one is deleting."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(prefix):
            try:
                delete(os.path.join(folder, name), wait=False)
            except NotDeleted as error:  # it only takes room; whoever comes next tries again
                import logging

                logging.getLogger(__name__).warning("%s", error)


def _empty(root: int, path: str) -> None:
    # Each folder is moved up to the root before it is entered: depth costs neither descriptors nor recursion, and the
    # kernel refuses to move a mount point, also one of the same disk.
    fresh = (f".fleet-{os.getpid()}-{os.urandom(4).hex()}-{number}" for number in range(10**12))
    for _ in range(MOST_ROUNDS):
        names = os.listdir(root)
        if not names:
            return
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                _drop(root, name, fresh)
    raise NotDeleted(f"{path} is still being written to", hint="stop what runs there, then try again.")


def _drop(root: int, name: str, fresh: Iterator[str]) -> None:
    if _unlinked(root, name):
        return
    moved = _moved(root, name, root, fresh)
    with _opened(moved, root) as folder:
        for inner in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                if not _unlinked(folder, inner):
                    _moved(folder, inner, root, fresh)
    # What came in meanwhile is seen in the next round.
    with contextlib.suppress(OSError):
        os.rmdir(moved, dir_fd=root)


def _moved(folder: int, name: str, root: int, fresh: Iterator[str]) -> str:
    _loosen(folder, name)
    new = next(fresh)
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=root)
    return new


def _unlinked(folder: int, name: str) -> bool:
    """Whether it is gone; a folder is not."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        raise
    return True


def _loosen(folder: int, name: str) -> None:
    """Give ourselves every right on a folder; a link that took its place is not followed."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101
    finally:
        os.close(handle)


def _refuse_mount(folder: int, root: int, path: str) -> None:
    if _mount(folder) != _mount(root):
        raise NotDeleted(f"{path} is a mount point", hint=f"unmount it first: `umount {path}`.")


def _mount(handle: int) -> object:
    """What tells mounts apart: also two of the same disk, where the kernel says so."""
    with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{handle}", "rb") as lines:  # noqa: PTH123
        return next((line for line in lines if line.startswith(b"mnt_id:")), None)
    return os.fstat(handle).st_dev


@contextlib.contextmanager
def _opened(name: str, folder: int | None = None) -> Iterator[int]:
    # The folder that holds everything may be reached through links: it is the user's. What lies in it may not.
    flags = _FOLDER if folder is not None else _FOLDER & ~os.O_NOFOLLOW
    handle = os.open(name, flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _hint(error: OSError) -> str:
    if error.errno in (errno.EBUSY, errno.EXDEV):
        return "something is mounted in it; unmount that first."
    return "see who owns it and whether it is write-protected, then try again."
