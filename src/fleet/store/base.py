"""The store: tasks and their history in one SQL database.

Each noun has its own port, which is imported on first use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module

from fleet.store.named_sql import SqlPort, Statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from fleet.core.clock import Clock
    from fleet.core.health import HealthCheck
    from fleet.store.sql.accounts import SqlAccounts
    from fleet.store.sql.claims import SqlClaims
    from fleet.store.sql.hosts import SqlHosts, SqlTails
    from fleet.store.sql.messages import SqlMessages, SqlQuestions, SqlTokens
    from fleet.store.sql.receipts import SqlCollisions, SqlReceipts
    from fleet.store.sql.runs import SqlRuns
    from fleet.store.sql.tasks import SqlComments, SqlEdges, SqlTasks
    from fleet.store.sql.workflows import SqlResults, SqlWorkflows
    from fleet.store.sql.workspaces import SqlTrust, SqlWorkspaces
    from fleet.store.sql_connection import Search, SqlConnection


SQL = "fleet.store.sql."
#: The module and class of each port, and what it is given besides the connection.
PORTS: dict[str, tuple[str, ...]] = {
    "tasks": (SQL + "tasks", "SqlTasks", "_search"),
    "edges": (SQL + "tasks", "SqlEdges", "tasks"),
    "comments": (SQL + "tasks", "SqlComments", "tasks"),
    "claims": (SQL + "claims", "SqlClaims", "now", "tasks", "_search"),
    "tokens": (SQL + "messages", "SqlTokens", "now", "tasks"),
    "config": (__name__, "SqlConfig"),
    "runs": (SQL + "runs", "SqlRuns", "now", "accounts"),
    "questions": (SQL + "messages", "SqlQuestions", "now"),
    "messages": (SQL + "messages", "SqlMessages"),
    "accounts": (SQL + "accounts", "SqlAccounts"),
    "receipts": (SQL + "receipts", "SqlReceipts"),
    "collisions": (SQL + "receipts", "SqlCollisions"),
    "workflows": (SQL + "workflows", "SqlWorkflows"),
    "results": (SQL + "workflows", "SqlResults"),
    "hosts": (SQL + "hosts", "SqlHosts"),
    "tails": (SQL + "hosts", "SqlTails"),
    "workspaces": (SQL + "workspaces", "SqlWorkspaces", "now"),
    "trust": (SQL + "workspaces", "SqlTrust", "now", "_mark"),
}


class Store(ABC):
    """Tasks and their history.

    Processes and supervisors may share a store. Each writing method of a port is one transaction, or joins the one that
    `atomic` opened.
    """

    tasks: SqlTasks
    edges: SqlEdges
    comments: SqlComments
    claims: SqlClaims
    tokens: SqlTokens
    config: SqlConfig
    runs: SqlRuns
    questions: SqlQuestions
    messages: SqlMessages
    accounts: SqlAccounts
    receipts: SqlReceipts
    collisions: SqlCollisions
    workflows: SqlWorkflows
    results: SqlResults
    hosts: SqlHosts
    tails: SqlTails
    workspaces: SqlWorkspaces
    trust: SqlTrust

    is_shared: bool
    """Whether hosts other than this one may use it."""
    now: Clock
    """The only clock that claims are judged by."""

    def __init__(
        self, connection: SqlConnection, now: Clock, search: Search, *, mark: Callable[[], str] | None = None
    ) -> None:
        self.connection = connection
        self.now = now
        self._search = search
        self._mark = mark

    def close(self) -> None:
        """Close the database. A second call does nothing."""
        self.connection.close()

    def confirm(self) -> None:  # noqa: B027 - a server is not replaced
        """Raise DatabaseReplaced if commands that start now would open a different database."""

    def was_moved(self) -> bool:
        """Return True if the whole queue was moved to another one.

        A moved queue can still be read, but each write raises QueueMoved.
        """
        return bool(Statements(self.connection, "moving").rows("is_sealed")[0][0])

    def atomic(self) -> AbstractContextManager[None]:
        """Commit all writes inside the block or none.

        Nested blocks join the outer one. Reads inside the block see its writes.
        """
        return self.connection.writing()

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all reads inside the block see the same snapshot."""
        return self.connection.reading()

    @abstractmethod
    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `call` from another thread after writes by others, until the block ends.

        Calls are hints: fleet does not guarantee one for each write.
        """

    @abstractmethod
    def health(self) -> list[HealthCheck]:
        """Return health checks of this queue. Reads the whole queue, changes nothing and never raises."""

    if not TYPE_CHECKING:  # a type checker would allow any name

        def __getattr__(self, name):
            """Import and create a port on its first use: `bd` is called hundreds of times and needs only a few."""
            if name not in PORTS:
                raise AttributeError(name)
            module, kind, *needs = PORTS[name]
            port = getattr(import_module(module), kind)(self.connection, *(getattr(self, each) for each in needs))
            setattr(self, name, port)
            return port


class SqlConfig(SqlPort):
    """The bd settings, one row for each setting that was set."""

    file = "queries"

    def all(self) -> dict[str, str]:
        return dict(self._sql.rows("config"))

    def set(self, key: str, value: str | None) -> None:
        """Set a setting, or delete it if `value` is None."""
        with self._db.writing():
            if value is None:
                self._sql.rows("unset_config", key=key)
            else:
                self._sql.rows("set_config", key=key, value=value)
