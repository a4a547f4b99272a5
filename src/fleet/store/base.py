"""The store: tasks and their history in one SQL database.

Each noun has its own port, which is imported on first use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from fleet.store.named_sql import Statements

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


class Store(ABC):
    """Tasks and their history.

    Processes and supervisors may share a store. Each writing method of a port is one transaction, or joins the one that
    `atomic` opened. Ports are created on first use because `bd` is called hundreds of times and needs only a few of
    them.
    """

    is_shared: bool
    """Whether hosts other than this one may use it."""
    now: Clock
    """The only clock that claims are judged by."""

    def __init__(self, connection: SqlConnection, now: Clock, search: Search) -> None:
        self.connection = connection
        self.now = now
        self._search = search

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

    @cached_property
    def tasks(self) -> SqlTasks:
        from fleet.store.sql.tasks import SqlTasks

        return SqlTasks(self.connection, self._search)

    @cached_property
    def edges(self) -> SqlEdges:
        from fleet.store.sql.tasks import SqlEdges

        return SqlEdges(self.connection, self.tasks)

    @cached_property
    def comments(self) -> SqlComments:
        from fleet.store.sql.tasks import SqlComments

        return SqlComments(self.connection, self.tasks)

    @cached_property
    def claims(self) -> SqlClaims:
        from fleet.store.sql.claims import SqlClaims

        return SqlClaims(self.connection, self.now, self.tasks, self._search)

    @cached_property
    def tokens(self) -> SqlTokens:
        from fleet.store.sql.messages import SqlTokens

        return SqlTokens(self.connection, self.now, self.tasks)

    @cached_property
    def config(self) -> SqlConfig:
        return SqlConfig(self.connection)

    @cached_property
    def runs(self) -> SqlRuns:
        from fleet.store.sql.runs import SqlRuns

        return SqlRuns(self.connection, self.now, self.accounts)

    @cached_property
    def questions(self) -> SqlQuestions:
        from fleet.store.sql.messages import SqlQuestions

        return SqlQuestions(self.connection, self.now)

    @cached_property
    def messages(self) -> SqlMessages:
        from fleet.store.sql.messages import SqlMessages

        return SqlMessages(self.connection)

    @cached_property
    def accounts(self) -> SqlAccounts:
        from fleet.store.sql.accounts import SqlAccounts

        return SqlAccounts(self.connection)

    @cached_property
    def receipts(self) -> SqlReceipts:
        from fleet.store.sql.receipts import SqlReceipts

        return SqlReceipts(self.connection)

    @cached_property
    def collisions(self) -> SqlCollisions:
        from fleet.store.sql.receipts import SqlCollisions

        return SqlCollisions(self.connection)

    @cached_property
    def workflows(self) -> SqlWorkflows:
        from fleet.store.sql.workflows import SqlWorkflows

        return SqlWorkflows(self.connection)

    @cached_property
    def results(self) -> SqlResults:
        from fleet.store.sql.workflows import SqlResults

        return SqlResults(self.connection)

    @cached_property
    def hosts(self) -> SqlHosts:
        from fleet.store.sql.hosts import SqlHosts

        return SqlHosts(self.connection)

    @cached_property
    def tails(self) -> SqlTails:
        from fleet.store.sql.hosts import SqlTails

        return SqlTails(self.connection)

    @cached_property
    def workspaces(self) -> SqlWorkspaces:
        from fleet.store.sql.workspaces import SqlWorkspaces

        return SqlWorkspaces(self.connection, self.now)

    @cached_property
    def trust(self) -> SqlTrust:
        from fleet.store.sql.workspaces import SqlTrust

        return SqlTrust(self.connection, self.now)


class SqlConfig:
    """The bd settings, one row for each setting that was set."""

    def __init__(self, connection: SqlConnection) -> None:
        self._db = connection
        self._sql = Statements(connection, "queries")

    def all(self) -> dict[str, str]:
        return dict(self._sql.rows("config"))

    def set(self, key: str, value: str | None) -> None:
        """Set a setting, or delete it if `value` is None."""
        with self._db.writing():
            if value is None:
                self._sql.rows("unset_config", key=key)
            else:
                self._sql.rows("set_config", key=key, value=value)
