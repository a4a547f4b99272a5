"""The file in which a coder keeps a session: a sign of life, and for some coders a source of further events."""

from __future__ import annotations

import glob
import os
from itertools import islice
from typing import TYPE_CHECKING

from fleet.engine.tail import LineReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from fleet.coders.base import Coder
    from fleet.core.event import Event

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
