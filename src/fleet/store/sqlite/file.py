"""The identity of a database file: whether its path still leads to it, and whether its tables are fleet's."""

from __future__ import annotations

import contextlib
import os

from fleet.core.errors import DatabaseReplaced, ForeignDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    Ids = list[tuple[int, int] | None]

#: Tables that every fleet database has, and two tables of codefleet's databases.
OURS = frozenset({"tasks", "edges", "child_counters"})
CODEFLEETS = frozenset({"workers", "workflows"})


#: Suffixes of the files that SQLite keeps beside an open database: its log, and the log's index.
LOG = ("-wal", "-shm")


class FileId:
    """The device and inode of a file and of its log, and the file's size, which never shrinks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._id: tuple[int, int] | None = None
        self._size = 0
        self._log_path = ""
        self._log: Ids = []
        with contextlib.suppress(OSError):  # opening the file reports the reason
            self._id, self._size = self._read_ids()

    def __str__(self) -> str:
        return ":".join(map(str, self._id or ()))

    def confirm(self) -> None:
        """Raise DatabaseReplaced unless the path leads to the same, untruncated file as before."""
        try:
            now, size = self._read_ids()
        except OSError:  # the disk fails; reading the database reports how
            return
        if now != self._id:
            raise DatabaseReplaced(self._path, "replaced" if now else "deleted or moved")
        if size < self._size:
            raise DatabaseReplaced(self._path, "cut short")
        self._size = size
        if not self.has_log:
            raise DatabaseReplaced(self._path, f"separated from its log ({self._path}-wal)")

    def hold_log(self) -> None:
        """Treat the log as a part of the file from now on. It is open now, and SQLite removes no open log."""
        with contextlib.suppress(OSError):
            self._log_path = os.path.realpath(self._path)  # SQLite keeps the log beside the real file
            self._log = _ids(self._log_path)

    @property
    def log(self) -> str:
        return str(self._log)

    @property
    def has_log(self) -> bool:
        """Return False if other processes that open the file would start a second log beside the open one."""
        if not any(self._log):
            return True
        with contextlib.suppress(OSError):
            return _ids(self._log_path) == self._log
        return True

    @property
    def keeps_changes(self) -> bool:
        """Return True if the log with the latest changes is still beside the file."""
        with contextlib.suppress(OSError):
            return _ids(self._log_path)[0] == self._log[0]
        return False

    @property
    def is_free(self) -> bool:
        """Return True if no other log was started beside the file since it lost the open one."""
        with contextlib.suppress(OSError):
            return _stat(self._log_path + LOG[0])[1] == 0
        return False

    @property
    def is_ours(self) -> bool:
        """Return True if the path leads to the same file as before, whatever its size."""
        with contextlib.suppress(OSError):
            return self._read_ids()[0] == self._id
        return False

    def _read_ids(self) -> tuple[tuple[int, int] | None, int]:
        return _stat(self._path)


def _ids(path: str) -> Ids:
    return [_stat(path + end)[0] for end in LOG]


def _stat(path: str) -> tuple[tuple[int, int] | None, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - paths of the store are strings
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    return (found.st_dev, found.st_ino), found.st_size


def check_tables(path: str, tables: Collection[str]) -> None:
    """Raise ForeignDatabase if tables exist and are not fleet's."""
    if tables and not OURS.issubset(tables):
        raise ForeignDatabase(path, owner="codefleet" if CODEFLEETS.issubset(tables) else "another program")
