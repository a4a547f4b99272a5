"""The history beside the embedded queue: the same SQLite file, connection and transactions."""

from fleet.store.sql_history import SqlHistory


class SqliteHistory(SqlHistory):
    """All of it in the queue's file; whatever is written inside `queue.atomic()` is part of it."""
