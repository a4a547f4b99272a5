"""The file of a database: whether its path still leads to it, and whether its tables are fleet's."""

from __future__ import annotations

import contextlib
import os

from fleet.core.errors import DatabaseReplaced, ForeignDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

#: Tables that every database of fleet has, and two of codefleet's.
OURS = frozenset({"tasks", "edges", "child_counters"})
CODEFLEETS = frozenset({"workers", "workflows"})


class FileId:
    """The device and inode of the file at a path, and its size, which never shrinks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._id: tuple[int, int] | None = None
        self._size = 0
        with contextlib.suppress(OSError):  # opening it says why
            self._id, self._size = self._read()

    def __str__(self) -> str:
        return ":".join(map(str, self._id or ()))

    def confirm(self) -> None:
        """Raise DatabaseReplaced unless the path leads to the same file as before, which nobody cut short."""
        try:
            now, size = self._read()
        except OSError:  # the disk fails: reading the database says how
            return
        if now != self._id:
            raise DatabaseReplaced(self._path, "replaced" if now else "deleted or moved")
        if size < self._size:
            raise DatabaseReplaced(self._path, "cut short")
        self._size = size

    @property
    def is_ours(self) -> bool:
        """Return True if the path leads to the same file as before, whatever its size is."""
        with contextlib.suppress(OSError):
            return self._read()[0] == self._id
        return False

    def _read(self) -> tuple[tuple[int, int] | None, int]:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - paths of the store are strings
        except (FileNotFoundError, NotADirectoryError):
            return None, 0
        return (found.st_dev, found.st_ino), found.st_size


def check_tables(path: str, tables: Collection[str]) -> None:
    """Raise ForeignDatabase if there are tables, and they are not fleet's."""
    if tables and not OURS.issubset(tables):
        raise ForeignDatabase(path, owner="codefleet" if CODEFLEETS.issubset(tables) else "another program")
