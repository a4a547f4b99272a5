"""Reading files of the home: with a size limit, and never through a link or device that an agent may have placed."""

# Paths of the home are plain strings.
# ruff: noqa: PTH116, PTH118, PTH208
from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.files import NotPlain, open_folder, open_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.home import Home

LARGEST = 16 * 2**20  # of a larger file only the end is shown
CHUNK = 2**16
PAUSE_SECONDS = 0.2

#: The parts that `fleet task ID …` shows, and their paths in the task's folder.
PARTS = {
    "log": "log.jsonl",
    "plan": "artifacts/PLAN_AND_STATUS.md",
    "knowledge": "artifacts/KNOWLEDGE.md",
    "events": "events.jsonl",
    "qa": "artifacts/Q&A.md",
    "result": "artifacts/result.json",
    "stderr": "log.stderr",
}


class HomeFile(NamedTuple):
    """A file below a folder that only the user can write. The path between them is not trusted."""

    base: str
    rest: str

    def __str__(self) -> str:
        return os.path.join(self.base, self.rest)


def part(home: Home, task_id: str, name: str) -> HomeFile:
    """Return the place of one part of a task's record."""
    return HomeFile(home.task(task_id), PARTS[name])


def newest_log(home: Home) -> HomeFile:
    """Return the log that the supervisor wrote last. Raises FleetError if no log exists."""
    try:
        names = [name for name in os.listdir(home.logging) if name.startswith("fleet-") and name.endswith(".jsonl")]
        places = [HomeFile(home.logging, name) for name in names]
        return max(places, key=lambda place: (os.stat(str(place)).st_mtime_ns, place))
    except (OSError, ValueError):
        raise FleetError("no log exists yet", hint="run `fleet run start`: the supervisor writes the log") from None


def text_of(place: HomeFile, *, lines: int | None = None) -> Iterator[str]:
    """Yield the text of a file, or its last lines, in pieces.

    Of a large file, yield only the end. Raises FleetError.
    """
    file = _open(place)
    if file is None:
        raise FleetError(f"{place} does not exist yet")
    try:
        _seek(file, lines)
        yield from _rest(file)
    finally:
        os.close(file)


def follow(place: HomeFile, is_over: Callable[[], bool], *, lines: int | None = None) -> Iterator[str]:
    """Yield the text of a file and everything appended to it until `is_over`.

    The file may appear late or be replaced.
    """
    file: int | None = None
    try:
        while True:
            over = is_over()  # checked first, so that text written before the end is still read
            if file is None and (file := _open(place)) is not None:
                _seek(file, lines)
                lines = None
            if file is not None:
                yield from _rest(file)
                if _was_replaced(file, str(place)):
                    os.close(file)
                    file = None
                    continue
            if over:
                return
            time.sleep(PAUSE_SECONDS)
    finally:
        if file is not None:
            os.close(file)


def _open(place: HomeFile) -> int | None:
    try:
        *folders, name = place.rest.split("/")
        with open_folder(place.base, *folders) as folder:
            return open_plain(name, folder=folder)
    except FileNotFoundError:
        return None
    except NotPlain as error:
        raise FleetError(f"{place} is not a plain file", hint="inspect it yourself before you trust it") from error
    except OSError as error:
        raise FleetError(f"cannot read {place}: {error.strerror}") from error


def _seek(file: int, lines: int | None) -> None:
    """Seek to the start, to the last lines, or to the earliest position that the size limit allows."""
    size = os.fstat(file).st_size
    start = max(0, size - LARGEST)
    if lines is not None:
        start = max(start, _start_of_last(file, size, lines))
    os.lseek(file, start, os.SEEK_SET)


def _start_of_last(file: int, size: int, lines: int) -> int:
    at, seen = size, 0
    if size and os.pread(file, 1, size - 1) != b"\n":
        seen = 1  # a last line without a newline counts too
    while at > 0 and size - at < LARGEST:
        step = min(CHUNK, at)
        at -= step
        data = os.pread(file, step, at)
        cut = len(data)
        while (cut := data.rfind(b"\n", 0, cut)) >= 0:
            seen += 1
            if seen > lines:
                return at + cut + 1
    return at


def _rest(file: int) -> Iterator[str]:
    """Yield the text that can be read now, in pieces that end at a line end if possible."""
    kept = b""
    while data := os.read(file, CHUNK):
        whole, newline, kept = (kept + data).rpartition(b"\n")
        if newline:
            yield (whole + newline).decode(errors="replace")
        elif len(kept) > LARGEST:
            yield kept.decode(errors="replace")
            kept = b""
    if kept:
        yield kept.decode(errors="replace")


def _was_replaced(file: int, path: str) -> bool:
    here = os.fstat(file)
    if here.st_size < os.lseek(file, 0, os.SEEK_CUR):
        return True
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False  # a file with this name may appear again
    return (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)
