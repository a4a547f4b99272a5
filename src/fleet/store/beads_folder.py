"""The `.beads` folder: how it is made, and how its files tell that something was written."""

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

    from fleet.store.beads_program import Bd

PREFIX = "fleet"
LOOK_EVERY = 0.5
TURN_SECONDS = 30.0


def make(bd: Bd, prefix: str = PREFIX) -> None:
    """Let bd make its folder, with what ids in it begin with. Raises HomeRefused when it did not."""
    # Of git, of agents' files and of hooks in a repository fleet keeps track itself.
    bd.run("init", "--prefix", prefix, "--skip-hooks", "--skip-agents", "--quiet")
    if not os.path.isdir(bd.folder):  # noqa: PTH112
        raise HomeRefused(f"bd made no {bd.folder}", hint="run `bd init` there yourself, and look at what it says.")


def fingerprint(folder: str) -> str:
    """What differs after every write and stays the same else; empty where the files are elsewhere.

    It is the root of each database, which reading leaves alone, and how much was written since it was noted.
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
    """A file that is open and locked: nobody of fleet's writes with bd until it is closed.

    It is a courtesy that makes others' writes visible at once: after so many seconds it is not waited for any longer.
    """
    file = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with suppress(OSError):
        lock_within(file, seconds)
    return file


@contextmanager
def turn(folder: str) -> Iterator[int]:
    """While inside, nobody of fleet's writes with bd; the file that says so."""
    file = take_turn(folder)
    try:
        yield file
    finally:
        os.close(file)


def stamp(path: str) -> str:
    """What tells one installation of a program from another."""
    found = os.stat(path)  # noqa: PTH116
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


@contextmanager
def listening(folder: str, call: Callable[[], None]) -> Iterator[None]:
    """While inside, `call` is called from another thread after the folder was written to."""
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
