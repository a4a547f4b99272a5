"""The home's SQLite file where bd has the tasks: looks at bd before it reads, and tells bd before it commits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fleet.store import named_sql
from fleet.store.sqlite_connection import Connection, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any

#: How often a transaction begins anew because bd changed while it waited for its turn.
TRIES = 5


class Written(NamedTuple):
    """One thing that a transaction wrote: a task, an edge, a comment, a setting, and what it is called."""

    kind: str
    one: str
    other: str


class Keeper(Protocol):
    """Who keeps the file and bd in step."""

    def look(self) -> None:
        """Bring the file up to date with bd, if bd changed."""

    def is_behind(self) -> bool:
        """Whether bd changed since the file was brought up to date."""

    def tell(self, written: list[Written]) -> None:
        """Make bd have what the open transaction wrote. Raises when bd will not: the transaction is taken back."""

    def take_back(self) -> None:
        """Undo what bd was asked while a transaction was open that has been taken back."""


class BeadsConnection(Connection):
    """A connection whose transactions bd has a part in. Without a keeper it is like any other."""

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
        """Let a keeper have its part in each transaction from now on."""
        for statement in named_sql.load("beads", "triggers").values():
            self.rows(statement)
        self._keeper, self._watching = keeper, True

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """What is written inside is what bd has already."""
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
        """Run a statement of the mirror's own."""
        return super().rows(self._sql[name], values)

    def writing(self, *, durable: bool = True, alone: bool = True) -> Transaction:
        return Watched(self, "begin immediate", durable)

    def reading(self) -> Transaction:
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
        """Let bd know what the outermost transaction wrote, before it is committed."""
        if self._depth != 1 or not self._watching or self._keeper is None:
            return
        with self.unwatched():
            written = [Written(*row) for row in self.block("written")]
            if written:
                self._keeper.tell(written)
                self.block("forget_written")

    def take_back(self) -> None:
        """Let bd know that the outermost transaction has come to nothing."""
        if not self._depth and self._watching and self._keeper is not None:
            with self.unwatched():
                self._keeper.take_back()


class Watched(Transaction):
    """A write transaction that ends only once bd has what it wrote."""

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
