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
    """The device and inode of the file at a path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._id: tuple[int, int] | None = None
        with contextlib.suppress(OSError):  # opening it says why
            self._id = self._read()

    def __str__(self) -> str:
        return ":".join(map(str, self._id or ()))

    def confirm(self) -> None:
        """Raise DatabaseReplaced unless the path leads to the same file as before."""
        try:
            now = self._read()
        except OSError:  # the disk fails: reading the database says how
            return
        if now != self._id:
            raise DatabaseReplaced(self._path, is_gone=now is None)

    def _read(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - paths of the store are strings
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino


def check_tables(path: str, tables: Collection[str]) -> None:
    """Raise ForeignDatabase if there are tables, and they are not fleet's."""
    if tables and not OURS.issubset(tables):
        raise ForeignDatabase(path, owner="codefleet" if CODEFLEETS.issubset(tables) else "another program")
