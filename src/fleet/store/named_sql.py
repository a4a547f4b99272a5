"""SQL in .sql files, divided into blocks that begin with a line `-- name --`."""

from __future__ import annotations

import os.path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from fleet.store.sql_connection import SqlConnection

FOLDER = os.path.join(os.path.dirname(__file__), "sql")  # noqa: PTH118, PTH120 - pathlib costs each call 10 ms


def load(database: str, name: str) -> dict[str, str]:
    """Return the blocks of one file by name."""
    with open(os.path.join(FOLDER, database, name + ".sql"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
        text = file.read()
    blocks: dict[str, str] = {}
    for block in ("\n" + text).split("\n-- ")[1:]:
        head, _, body = block.partition("\n")
        if head.endswith(" --"):
            name = head[:-3]
            blocks[name] = body.strip()
        else:  # a comment at the start of a line inside the last block
            blocks[name] += f"\n-- {head}\n{body.rstrip()}"
    return blocks


def has(database: str, name: str) -> bool:
    """Return True if the database has its own file of this name."""
    return os.path.exists(os.path.join(FOLDER, database, name + ".sql"))  # noqa: PTH110, PTH118


def migrations(database: str) -> list[tuple[int, str]]:
    folder = os.path.join(FOLDER, database)  # noqa: PTH118
    found = []
    for name in sorted(os.listdir(folder)):  # noqa: PTH208
        if name[:4].isdigit():
            with open(os.path.join(folder, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                found.append((int(name[:4]), file.read()))
    return found


class Statements:
    """The blocks of one SQL file, run through a connection."""

    def __init__(self, connection: SqlConnection, name: str) -> None:
        self._connection = connection
        self._blocks = connection.blocks(name)

    def __contains__(self, block: str) -> bool:
        return block in self._blocks

    def __getitem__(self, block: str) -> str:
        return self._blocks[block]

    def rows(self, block: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """Run one block and return all rows. Raises StoreFault."""
        return self._connection.rows(self._blocks[block], values)

    def joined(self, *blocks: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a statement that is composed of several blocks. Raises StoreFault."""
        return self._connection.rows(" ".join(self._blocks[block] for block in blocks), values)

    def first(self, block: str, /, **values: Any) -> list[str]:
        """Run one block and return the first column."""
        return [row[0] for row in self._connection.rows(self._blocks[block], values)]


class SqlPort:
    """A port of the store: the statements of one SQL file."""

    file: ClassVar[str]

    def __init__(self, connection: SqlConnection) -> None:
        self._db = connection
        self._sql = Statements(connection, self.file)
