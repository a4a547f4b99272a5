"""The store: tasks and their history in one SQL database, a port for each noun, imported when it is first used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from fleet.store.named_sql import Statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from fleet.core.clock import Clock
    from fleet.core.health import Vital
    from fleet.store.sql.accounts import SqlAccounts
    from fleet.store.sql.claims import SqlClaims
    from fleet.store.sql.hosts import SqlHosts, SqlTails
    from fleet.store.sql.messages import SqlMessages, SqlQuestions
    from fleet.store.sql.receipts import SqlCollisions, SqlReceipts
    from fleet.store.sql.runs import SqlRuns
    from fleet.store.sql.tasks import SqlComments, SqlEdges, SqlTasks
    from fleet.store.sql.tokens import SqlTokens
    from fleet.store.sql.workflows import SqlResults, SqlWorkflows
    from fleet.store.sql.workspaces import SqlTrust, SqlWorkspaces
    from fleet.store.sql_connection import Search, SqlConnection


class Store(ABC):
    """Tasks and their history. Processes may share it, and supervisors.

    Every writing method of a port is one transaction, or part of the one that `atomic` opened.
    `bd` is called hundreds of times, and pays only for the ports that it uses.
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
        """Let go of the database; safe to call twice."""
        self.connection.close()

    def confirm(self) -> None:  # noqa: B027 - a server is not replaced
        """Raise DatabaseReplaced if commands that start now would work on another database than this one."""

    def was_moved(self) -> bool:
        """Whether all of it was moved to another queue: what is here can be read, and each write raises QueueMoved."""
        return bool(Statements(self.connection, "moving").rows("is_sealed")[0][0])

    def atomic(self) -> AbstractContextManager[None]:
        """All of the writes inside, or none; nested ones join. Reads inside see them."""
        return self.connection.writing()

    def snapshot(self) -> AbstractContextManager[None]:
        """Reads inside see one moment."""
        return self.connection.reading()

    @abstractmethod
    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """While inside, `call` is called from another thread when somebody wrote something: a hint, and no promise."""

    @abstractmethod
    def health(self) -> list[Vital]:
        """What this queue says of its own health; reads all of it, never raises, and changes nothing."""

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
        from fleet.store.sql.tokens import SqlTokens

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
    """A row for each of bd's settings that was made."""

    def __init__(self, connection: SqlConnection) -> None:
        self._db = connection
        self._sql = Statements(connection, "queries")

    def all(self) -> dict[str, str]:
        return dict(self._sql.rows("config"))

    def set(self, key: str, value: str | None) -> None:
        """Make or, with None, forget a setting."""
        with self._db.writing():
            if value is None:
                self._sql.rows("unset_config", key=key)
            else:
                self._sql.rows("set_config", key=key, value=value)
