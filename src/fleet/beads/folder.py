"""The `.beads` folder: creating it, locking it, and detecting writes to it."""

from __future__ import annotations

import glob
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from fleet.core.errors import HomeRefused
from fleet.files import lock_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.beads.program import Bd

PREFIX = "fleet"
LOOK_EVERY = 0.5
TURN_SECONDS = 30.0


def make_folder(bd: Bd, prefix: str = PREFIX) -> None:
    """Create bd's folder with `prefix` as the prefix of its ids. Raises HomeRefused if bd created none."""
    # fleet itself manages git, agent files and hooks in a repository.
    bd.run("init", "--prefix", prefix, "--skip-hooks", "--skip-agents", "--quiet")
    if not os.path.isdir(bd.folder):  # noqa: PTH112
        raise HomeRefused(f"bd did not create {bd.folder}", hint="run `bd init` there to see why")


def fingerprint(folder: str) -> str:
    """Return a string that changes with each write and only then. It is empty if the data is elsewhere.

    The string contains the root of each database, which reads do not change. It also contains the size of the journal
    written since.
    """
    found = []
    for manifest in sorted(glob.glob(f"{glob.escape(folder)}/embeddeddolt/*/.dolt/noms/manifest")):  # noqa: PTH207
        try:
            with open(manifest, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                found.append(file.read(4096))
            found.append(str(os.stat(f"{manifest[: -len('manifest')]}{'v' * 32}").st_size))  # noqa: PTH116
        except OSError:
            found.append("")
    return "|".join(found)


def take_turn(folder: str, *, seconds: float = TURN_SECONDS) -> int:
    """Lock the folder's lock file and return its descriptor.

    Other fleet processes do not write with bd until the descriptor is closed. The lock only makes the writes of others
    visible at once, so fleet stops waiting for it after `seconds`.
    """
    file = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with suppress(OSError):
        lock_within(file, seconds)
    return file


@contextmanager
def hold_turn(folder: str) -> Iterator[int]:
    """Hold the lock for writes with bd inside the block. Yields the descriptor of the lock file."""
    file = take_turn(folder)
    try:
        yield file
    finally:
        os.close(file)


def stamp(path: str) -> str:
    """Return a string that identifies one installation of a program."""
    found = os.stat(path)  # noqa: PTH116
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


@contextmanager
def listen_for_writes(folder: str, call: Callable[[], None]) -> Iterator[None]:
    """Call `call` from another thread after each write to the folder, until the block ends."""
    over = threading.Event()

    def watch() -> None:
        before = fingerprint(folder)
        while not over.wait(LOOK_EVERY):
            after = fingerprint(folder)
            if after != before:
                before = after
                call()

    thread = threading.Thread(target=watch, name="beads", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
