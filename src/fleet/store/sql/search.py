"""Tasks chosen by a filter, in order."""

from __future__ import annotations

from fleet.core import clock
from fleet.core.filter import by_lane
from fleet.core.jsontext import encode
from fleet.store.named_sql import Statements
from fleet.store.sql.rows import task_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.filter import Filter
    from fleet.core.task import Task
    from fleet.store.sql_connection import SqlConnection


class SqlSearch:
    """A search in the database. `prepare` is called with each filter before its query."""

    def __init__(
        self, connection: SqlConnection, now: Clock, prepare: Callable[[Filter], None] = lambda where: None
    ) -> None:
        self._db = connection
        self._sql = Statements(connection, "queries")
        self._now = now
        self._prepare = prepare

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        return [task_from(row) for row in self._select("tasks", where, sort, reverse, limit)]

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        block = f"count_by_{by}" if by else "count"
        conditions, values = self._conditions(where)
        query = self._sql[block].replace("/* index */", self._sql[_index_for(where)])
        rows = self._db.rows(f"{query} {conditions} {self._sql['grouped'] if by else ''}", values)
        return {str(key): count for key, count in rows}

    def urgent(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        parts = [self._select("task_ids", each, "urgent", False, limit, "taken") for each in by_lane(where)]
        found = [(priority, created_at, key) for rows in parts for key, priority, created_at in rows]
        return found if len(parts) == 1 else sorted(found)

    def _select(
        self, block: str, where: Filter, sort: str, reverse: bool, limit: int, last: str = ""
    ) -> list[tuple[Any, ...]]:
        conditions, values = self._conditions(where)
        order = self._db.blocks("orders")[f"{sort}_reversed" if reverse else sort]
        if limit:
            order, values["limit"] = f"{order} {self._sql['limited']}", limit
        if ":now" in order:
            values["now"] = clock.to_micros(self._now())
        query = self._sql[block].replace("/* index */", self._sql[_index_for(where, sort)])
        return self._db.rows(f"{query} {conditions} {order} {self._sql[last] if last else ''}", values)

    def _conditions(self, where: Filter) -> tuple[str, dict[str, Any]]:
        self._prepare(where)
        terms, values, filters = [], {}, self._db.blocks("filters")
        for name, wanted in where.as_dict().items():
            if wanted is None:
                continue
            if name == "statuses" and len(wanted) == 1:  # an index is in order only for one status
                name, wanted = "status", wanted[0]
            sql = filters[name]
            terms.append(f"and not ({sql})" if wanted is False else f"and ({sql})")
            if ":" + name in sql:
                values[name] = self._bind_value(wanted)
        if any(":now" in term for term in terms):
            values["now"] = clock.to_micros(self._now())
        return " ".join(terms), values

    def _bind_value(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return self._db.listed(value)
        if isinstance(value, dict):
            return encode(value)
        return clock.to_micros(value) if hasattr(value, "tzinfo") else value


def _index_for(where: Filter, sort: str = "") -> str:
    """Return the block that names the best index, because the planner has no statistics."""
    if where.claimable:
        is_lane = where.coder is not None and where.account is not None and where.mode is not None
        return "index_claimable_by_lane" if is_lane else "index_claimable"
    if where.ready:
        return "index_requiring" if where.requires else "index_ready"
    if where.repo is not None and (where.branch is not None or where.branches is not None):
        return "index_by_branch"
    if where.defer_after is not None:
        return "index_put_off"
    return "index_unfinished" if where.unfinished and sort == "priority" else "no_index"
