"""The history beside a queue in PostgreSQL: the same connections and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.store.sql_history import SqlHistory
from fleet.store.workspace_rules import own_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.store.postgres import PostgresQueue


class PostgresHistory(SqlHistory):
    """All of it in the queue's database; whatever is written inside `queue.atomic()` is part of it.

    `mark` tells the home that asks from those of other hosts: what one of them trusts at a path means its own disk.
    """

    def __init__(self, queue: PostgresQueue, mark: Callable[[], str] | None = None) -> None:
        super().__init__(queue)
        self._mark = mark

    def _key(self, key: str) -> str:
        return own_key(key, self._mark) if self._mark else key
