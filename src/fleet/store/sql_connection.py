"""What the ports of the store ask of a database, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from fleet.core.filter import Filter
    from fleet.core.task import Task


class SqlConnection(Protocol):
    """Statements and transactions. SQL names values `:name`, and reads a list of texts with `json_each(:name)`."""

    def close(self) -> None:
        """Let go of the database; safe to call twice."""

    def blocks(self, name: str) -> dict[str, str]:
        """The statements of one file of SQL in this database's words."""

    def listed(self, texts: Iterable[str]) -> Any:
        """Texts as the value that `json_each` reads."""

    def rows(self, sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and fetch all it answers. Raises StoreFault."""

    def together(self, statements: Sequence[str], values: dict[str, Any]) -> list[list[tuple[Any, ...]]]:
        """What several statements that only read answer, each about the same moment. Raises StoreFault."""

    def changes(self) -> int:
        """How many rows the last statement changed."""

    def writing(self, *, durable: bool = True, alone: bool = True) -> AbstractContextManager[None]:
        """A write transaction; a nested one is part of the outer.

        `durable` ones reach the disk before they are acknowledged, and are told to whoever listens; the others do at
        least where agents can outlive the database. Only one that is `alone` may rely on what it read: others that are
        not may go on beside each other.
        """

    def reading(self) -> AbstractContextManager[None]:
        """A read transaction: one moment of the database."""


class Search(Protocol):
    """What tasks and claims ask of a search."""

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        """Return the tasks that fit, in order."""

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        """Return how many tasks fit."""

    def urgent(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        """Return the most urgent tasks that fit and nobody else is claiming, each as (priority, created_at, id)."""
