"""What the store's ports need from a database of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from fleet.core.filter import Filter
    from fleet.core.task import Task


class SqlConnection(Protocol):
    """A connection for statements and transactions.

    SQL refers to values as `:name` and reads a list of texts with `json_each(:name)`.
    """

    def close(self) -> None:
        """Close the database. A second call does nothing."""

    def blocks(self, name: str) -> dict[str, str]:
        """Return the statements of one SQL file in this database's dialect."""

    def listed(self, texts: Iterable[str]) -> Any:
        """Return texts as the value that `json_each` reads."""

    def rows(self, sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and return all rows. Raises StoreFault."""

    def together(self, statements: Sequence[str], values: dict[str, Any]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of several reading statements that see the same snapshot. Raises StoreFault."""

    def changes(self) -> int:
        """Return the number of rows that the last statement changed."""

    def writing(self, *, durable: bool = True, alone: bool = True) -> AbstractContextManager[None]:
        """Return a write transaction. A nested one is part of the outer one.

        `durable` transactions reach the disk before they are acknowledged, and listeners are notified. Others also
        reach the disk first if agents can outlive the database. Only an `alone` transaction may rely on what it read:
        transactions that are not alone may run beside each other.
        """

    def reading(self) -> AbstractContextManager[None]:
        """Return a read transaction, which sees one snapshot of the database."""


class Search(Protocol):
    """The searches that tasks and claims need."""

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        """Return the matching tasks, in order."""

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        """Return the number of matching tasks, under "" or by the values of a field."""

    def urgent(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        """Return the most urgent matching tasks that no other claim has locked, each as (priority, created_at, id)."""
