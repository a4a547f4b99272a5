"""The history beside a queue in PostgreSQL: the same connections and transactions."""

from fleet.store.sql_history import SqlHistory


class PostgresHistory(SqlHistory):
    """All of it in the queue's database; whatever is written inside `queue.atomic()` is part of it."""
