"""The connection to the home's SQLite file if bd holds the tasks.

The connection checks bd for changes before it reads and passes writes to bd before it commits.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fleet.store import named_sql
from fleet.store.sqlite.connection import SqliteConnection, SqliteTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any

#: How often a transaction restarts because bd changed while the transaction waited for the lock.
TRIES = 5


class WrittenItem(NamedTuple):
    """One item that a transaction wrote: its kind (task, edge, comment or setting) and its keys."""

    kind: str
    one: str
    other: str


class Keeper(Protocol):
    """A component that keeps the file and bd in sync."""

    def look(self) -> None:
        """Update the file from bd if bd changed."""

    def is_behind(self) -> bool:
        """Return True if bd changed since the last update of the file."""

    def tell(self, written: list[WrittenItem]) -> None:
        """Apply the open transaction's writes to bd.

        Raises if bd refuses them; the transaction is then rolled back.
        """

    def take_back(self) -> None:
        """Undo in bd the calls made for a transaction that was rolled back."""


class BeadsConnection(SqliteConnection):
    """A connection whose transactions include bd. Without a keeper it behaves like a plain connection."""

    def __init__(
        self,
        path: str,
        *,
        make: bool = False,
        migrate: bool = False,
        check_new: Callable[[], None] = lambda: None,
    ) -> None:
        self._keeper: Keeper | None = None
        self._watching = False
        super().__init__(path, make=make, migrate=migrate, check_new=check_new)
        self._sql = named_sql.load("beads", "mirror")

    def watch(self, keeper: Keeper) -> None:
        """Involve a keeper in each transaction from now on."""
        for statement in named_sql.load("beads", "triggers").values():
            self.rows(statement)
        self._keeper, self._watching = keeper, True

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Suspend the keeper inside the block, for writes that bd already has."""
        before, self._watching = self._watching, False
        try:
            yield
        finally:
            self._watching = before

    def rows(self, sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if self._watching and not self._depth:
            self.look()
        return super().rows(sql, values)

    def block(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a statement from the mirror's SQL file."""
        return super().rows(self._sql[name], values)

    def writing(self, *, durable: bool = True, alone: bool = True) -> SqliteTransaction:
        return WatchedTransaction(self, "begin immediate", durable)

    def reading(self) -> SqliteTransaction:
        if self._watching and not self._depth:
            self.look()
        return super().reading()

    def look(self) -> None:
        if self._keeper is not None:
            with self.unwatched():
                self._keeper.look()

    def _begin(self, how: str, durable: bool) -> None:
        if self._depth or not self._watching or self._keeper is None or how == "begin":
            return super()._begin(how, durable)
        for left in reversed(range(TRIES)):
            self.look()
            super()._begin(how, durable)
            if not left or not self._keeper.is_behind():
                return None
            super()._end(True)
        return None

    def tell(self) -> None:
        """Pass the writes of the outermost transaction to bd, before they are committed."""
        if self._depth != 1 or not self._watching or self._keeper is None:
            return
        with self.unwatched():
            written = [WrittenItem(*row) for row in self.block("written")]
            if written:
                self._keeper.tell(written)
                self.block("forget_written")

    def take_back(self) -> None:
        """Tell bd that the outermost transaction was rolled back."""
        if not self._depth and self._watching and self._keeper is not None:
            with self.unwatched():
                self._keeper.take_back()


class WatchedTransaction(SqliteTransaction):
    """A write transaction that commits only after bd has accepted its writes."""

    def __init__(self, connection: BeadsConnection, how: str, durable: bool) -> None:
        super().__init__(connection, how, durable)
        self._beads = connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._beads.tell()
        except BaseException as refusal:
            self._fail(type(refusal), refusal, refusal.__traceback__)
            raise
        if kind is None:
            super().__exit__(kind, error, trace)
        else:
            self._fail(kind, error, trace)

    def _fail(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        self._beads.take_back()
