"""What somebody declared to be all right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.store.named_sql import Statements
from fleet.store.sql.records import check_text, is_text, storable

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.core.clock import Clock
    from fleet.store.sql_connection import SqlConnection


class SqlTrust:
    """A row for each declaration.

    `mark` tells the home that asks from those of other hosts: what one of them trusts at a path means its own disk.
    """

    def __init__(self, connection: SqlConnection, now: Clock, mark: Callable[[], str] | None = None) -> None:
        self._db = connection
        self._sql = Statements(connection, "workspaces")
        self._now = now
        self._mark = mark

    def set(self, kind: str, key: str, value: str, by: str) -> None:
        """Put on record what somebody declared to be all right. Raises BadInput for text that is not UTF-8."""
        check_text(f"the {kind} to trust", key)
        check_text(f"what is trusted of the {kind}", value)
        with self._db.writing():
            at = to_micros(self._now())
            self._sql.rows("trust", kind=kind, key=self._key(key), value=value, at=at, by=storable(by))

    def get(self, kind: str, key: str) -> str | None:
        """What was last declared to be all right under this key."""
        if not is_text(key):
            return None
        for (value,) in self._sql.rows("trusted", kind=kind, key=self._key(key)):
            return str(value)
        return None

    def _key(self, key: str) -> str:
        return f"{self._mark()}:{key}" if self._mark and key.startswith("/") else key
