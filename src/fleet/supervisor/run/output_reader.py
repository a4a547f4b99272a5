"""Read the output of an agent: whole lines from a growing file, with little memory, from where a reader stopped."""

from __future__ import annotations

import glob
import os
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fleet.files import open_plain

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from datetime import datetime

    from fleet.coders.base import Coder
    from fleet.core.event import Event


KIB, MIB = 1024, 1024 * 1024
LONGEST = MIB  # a longer line is cut …
KEPT = 64 * KIB  # … to this many bytes of its beginning
CHUNK = 64 * KIB
AT_ONCE = 4 * MIB
LINES_AT_ONCE = 200  # processing a line costs far more than reading it: twenty milliseconds for this many


class OutputLine(NamedTuple):
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

    def read(self, most: int = AT_ONCE, *, lines: int = LINES_AT_ONCE) -> list[OutputLine]:
        """Return the next lines, limited in bytes and number.

        Return an empty list within a long line: `behind` shows how much is left.
        """
        found = self.lines(most)
        try:
            return list(islice(found, lines))
        finally:
            found.close()

    def lines(self, most: int = AT_ONCE) -> Generator[OutputLine]:
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

    def last(self) -> OutputLine | None:
        """Return the text behind the last line break, when no more output follows.

        Call this after `lines` yields none.
        """
        length = self._position - self.offset
        self.offset = self._position
        return self._line(b"", truncated=length > LONGEST) if length else None

    def rest(self, tail: str) -> Iterator[OutputLine]:
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

    def _to_the_end(self) -> Iterator[OutputLine]:
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

    def _split(self, chunk: bytes, start: int) -> Iterator[OutputLine]:
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            length = start + end - self.offset
            self.offset = start + end + 1
            yield self._line(chunk[begin:end], truncated=length > LONGEST)
            begin = end + 1
        self._head += chunk[begin:]
        if self._position - self.offset > LONGEST:
            del self._head[KEPT:]

    def _line(self, rest: bytes, *, truncated: bool) -> OutputLine:
        if self._head:
            rest = bytes(self._head) + rest
            self._head = bytearray()
        if truncated:
            rest = rest[:KEPT]
        if b"\0" in rest:
            rest = rest.replace(b"\0", b"")
        return OutputLine(rest.decode("utf-8", "replace").rstrip("\r"), truncated, self.offset)


#: Maximum number of files to search for a session's file, because agents can create any number.
MOST_FILES = 1_000
LONGEST_FIRST_LINE = 1024 * 1024


class Transcript:
    """The transcript of a run. Its file may appear late or never."""

    def __init__(
        self,
        coder: Coder,
        cwd: str,
        env: Mapping[str, str],
        offset: int | None,
        *,
        whole: bool = False,
        since: datetime | None = None,
    ) -> None:
        """Continue reading at `offset`. None means the current end of the file, as its content belongs to earlier runs.

        `whole` means that no stream exists and the file has all events. If the session is unknown, look for a session
        that began in this directory after `since`.
        """
        self._coder, self._cwd, self._env = coder, cwd, env
        self._parse = coder.parse_session if whole else coder.parse_transcript
        self._since = since if whole else None
        self._offset = offset
        self._reader: LineReader | None = None
        self._size = 0

    @property
    def offset(self) -> int:
        """Return the offset up to which the file was read."""
        return self._reader.offset if self._reader else self._offset or 0

    @property
    def behind(self) -> bool:
        """Return True if something is left for the next look."""
        return self._reader is not None and self._reader.behind > 0

    def look(self, session: str) -> tuple[list[Event], bool]:
        """Return the new events in the file, and True if the file grew."""
        if self._reader is None and not self._find(session):
            return [], False
        assert self._reader is not None
        try:
            size = os.path.getsize(self._reader.path)  # noqa: PTH202
        except OSError:
            return [], False
        grew, self._size = size != self._size, size
        events = [event for line in self._reader.read() for event in self._parse(line.text)]
        return events, grew

    def _find(self, session: str) -> bool:
        for path in self._candidates(session):
            if os.path.isfile(path) and not os.path.islink(path):  # noqa: PTH113, PTH114
                self._size = os.path.getsize(path)  # noqa: PTH202
                self._reader = LineReader(path, self._size if self._offset is None else min(self._offset, self._size))
                return True
        return False

    def _candidates(self, session: str) -> Iterator[str]:
        if session:
            yield from files_of(self._coder.transcript(session, self._cwd, self._env))
        elif self._since is not None:
            for path in files_of(self._coder.recent_sessions(self._cwd, self._env)):
                if self._is_ours(path, self._since):
                    yield path

    def _is_ours(self, path: str, since: datetime) -> bool:
        """Return True if a file holds a session that began in this run's directory, and not before the run."""
        try:
            if os.path.getmtime(path) < since.timestamp():  # noqa: PTH204
                return False
            with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                found = self._coder.session_of(file.readline(LONGEST_FIRST_LINE))
        except OSError:
            return False
        return found is not None and os.path.realpath(found[1]) == os.path.realpath(self._cwd)


def files_of(pattern: str) -> Iterator[str]:
    """Return the files that match a coder's glob, at most MOST_FILES."""
    return islice(glob.iglob(pattern), MOST_FILES) if pattern else iter(())  # noqa: PTH207
