"""Read the output of an agent: whole lines from a growing file, with little memory, from where a reader stopped."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fleet.files import open_plain

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

KIB, MIB = 1024, 1024 * 1024
LONGEST = MIB  # a longer line is cut …
KEPT = 64 * KIB  # … to this many bytes of its beginning
CHUNK = 64 * KIB
AT_ONCE = 4 * MIB
LINES_AT_ONCE = 200  # processing a line costs far more than reading it: twenty milliseconds for this many


class Line(NamedTuple):
    """A line without its line break."""

    text: str
    truncated: bool  # True if only the beginning of the line is included
    end: int  # the offset of the next line


class LineReader:
    """The lines of a growing file. The file may not exist yet and never shrinks."""

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        #: The offset behind the last whole line that was returned. A new reader continues here.
        self.offset = offset
        self._position = offset  # how far the file was read; beyond `offset` is the beginning of a line
        self._head = bytearray()

    def read(self, most: int = AT_ONCE, *, lines: int = LINES_AT_ONCE) -> list[Line]:
        """Return the next lines, limited in bytes and number.

        Return an empty list within a long line: `behind` shows how much is left.
        """
        found = self.lines(most)
        try:
            return list(islice(found, lines))
        finally:
            found.close()

    def lines(self, most: int = AT_ONCE) -> Generator[Line]:
        """Yield the whole lines in at most `most` bytes. The limit keeps a noisy agent from delaying others."""
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
            if not whole:  # the caller stopped early: read the rest again
                self._position = self.offset
                self._head.clear()

    def last(self) -> Line | None:
        """Return the text behind the last line break, when no more output follows.

        Call this after `lines` yields none.
        """
        length = self._position - self.offset
        self.offset = self._position
        return self._line(b"", truncated=length > LONGEST) if length else None

    def rest(self, tail: str) -> Iterator[Line]:
        """Yield the rest after the end.

        These are unread lines, an unterminated line, and output that the shim kept beyond its size limit.
        """
        while self.behind:
            yield from self.lines()
        unended, beyond = self.last(), LineReader(tail)._to_the_end()
        first = next(beyond, None)
        if unended is not None:
            # The tail continues that line, or begins another line if output between the two is missing.
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
        """Return how many bytes have not been read."""
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
