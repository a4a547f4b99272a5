"""Reads what an agent prints: whole lines from a file that grows, in little memory, and again from where it stopped."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fleet.files import open_plain

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

KIB, MIB = 1024, 1024 * 1024
LONGEST = MIB  # a longer line is cut …
KEPT = 64 * KIB  # … to this much of its beginning
CHUNK = 64 * KIB
AT_ONCE = 4 * MIB
LINES_AT_ONCE = 200  # what follows a line costs far more than reading it: twenty milliseconds for so many


class Line(NamedTuple):
    """One line, without its end."""

    text: str
    truncated: bool  # only the beginning of it is here
    end: int  # the offset of what follows it


class LineReader:
    """The lines of one growing file. It may not exist yet; it never shrinks."""

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        #: Behind the last whole line that was handed out: from here a new reader goes on.
        self.offset = offset
        self._position = offset  # what was read of the file; beyond the offset it is the beginning of a line
        self._head = bytearray()

    def read(self, most: int = AT_ONCE, *, lines: int = LINES_AT_ONCE) -> list[Line]:
        """The next lines, bounded in bytes and number; none in the midst of a long one: ask `behind` what is left."""
        found = self.lines(most)
        try:
            return list(islice(found, lines))
        finally:
            found.close()

    def lines(self, most: int = AT_ONCE) -> Generator[Line]:
        """The whole lines there are, from at most so many bytes: one noisy agent must not starve the others."""
        handle = self._open()
        if handle is None:
            return
        whole = False
        try:
            while most > 0 and (chunk := os.pread(handle, min(CHUNK, most), self._position)):
                most -= len(chunk)
                start = self._position
                self._position += len(chunk)
                yield from self._split(chunk, start)
            whole = True
        finally:
            os.close(handle)
            if not whole:  # whoever read stopped halfway: read the rest again
                self._position = self.offset
                self._head.clear()

    def last(self) -> Line | None:
        """What stands behind the last line's end, for when nothing more will come; call it once `lines` gives none."""
        length = self._position - self.offset
        self.offset = self._position
        return self._line(b"", truncated=length > LONGEST) if length else None

    def rest(self, tail: str) -> Iterator[Line]:
        """All that is left after the end: unread lines, one that never ended, and what its shim kept past its cap."""
        while self.behind:
            yield from self.lines()
        unended, beyond = self.last(), LineReader(tail)._to_the_end()
        first = next(beyond, None)
        if unended is not None:
            # The tail goes on in the midst of that line; or, where something is missing between, it begins a new one.
            yield unended._replace(text=unended.text + first.text) if first else unended
        if first is not None:
            yield first
        yield from beyond

    def _to_the_end(self) -> Iterator[Line]:
        while self.behind:
            yield from self.lines()
        if (unended := self.last()) is not None:
            yield unended

    @property
    def behind(self) -> int:
        """How many bytes there are that were not read yet."""
        try:
            return max(0, os.stat(self.path, follow_symlinks=False).st_size - self._position)  # noqa: PTH116 - no Path
        except FileNotFoundError:
            return 0

    def _open(self) -> int | None:
        try:
            return open_plain(self.path)
        except FileNotFoundError:
            return None

    def _split(self, chunk: bytes, start: int) -> Iterator[Line]:
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            length = start + end - self.offset
            self.offset = start + end + 1
            yield self._line(chunk[begin:end], truncated=length > LONGEST)
            begin = end + 1
        self._head += chunk[begin:]
        if self._position - self.offset > LONGEST:
            del self._head[KEPT:]

    def _line(self, rest: bytes, *, truncated: bool) -> Line:
        if self._head:
            rest = bytes(self._head) + rest
            self._head = bytearray()
        if truncated:
            rest = rest[:KEPT]
        if b"\0" in rest:
            rest = rest.replace(b"\0", b"")
        return Line(rest.decode("utf-8", "replace").rstrip("\r"), truncated, self.offset)
