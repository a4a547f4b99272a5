"""The store that many hosts share: PostgreSQL, whose own clock judges every claim."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from fleet.core import clock
from fleet.core.filter import Filter
from fleet.core.matching import JUDGED, matches
from fleet.store.base import Store
from fleet.store.postgres_connection import Connection
from fleet.store.postgres_health import health
from fleet.store.postgres_listening import Listener
from fleet.store.sql.claims import SqlClaims, claim_of
from fleet.store.sql.search import SqlSearch
from fleet.store.sql.workspaces import SqlTrust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fleet.core.clock import Clock
    from fleet.core.health import Vital
    from fleet.core.task import Claim, Task

#: How long a claim lasts unless settings say otherwise.
LEASE = timedelta(seconds=60)


class PostgresStore(Store):
    """All of it in one database of a PostgreSQL server, under its schema `fleet`.

    A `lease` is how long claims last here. Silent connections are given up within a third of it. What others let expire
    is not touched before the server was within reach, and its clock not set, for a whole one: they come back first.
    `mark` tells this home from those of other hosts, for what is trusted at a path.
    """

    is_shared = True
    connection: Connection

    def __init__(
        self,
        url: str,
        *,
        make: bool = False,
        migrate: bool = False,
        lease: timedelta = LEASE,
        grace: timedelta | None = None,
        now: Clock | None = None,
        mark: Callable[[], str] | None = None,
    ) -> None:
        server = Connection(url, patience=lease / 3, make=make, migrate=migrate)
        self._grace = lease if grace is None else grace
        self._mark = mark
        now = server.clock.now if now is None else now
        super().__init__(server, now, JudgedSearch(SqlSearch(server, now)))

    @cached_property
    def claims(self) -> PostgresClaims:
        return PostgresClaims(self.connection, self.now, self.tasks, self._search, self._may_take)

    @cached_property
    def trust(self) -> SqlTrust:
        return SqlTrust(self.connection, self.now, self._mark)

    def health(self) -> list[Vital]:
        return health(self.connection)

    @contextmanager
    def listening(self, call: Callable[[], None]) -> Iterator[None]:
        listener = Listener(self.connection, call)
        listener.start()
        try:
            yield
        finally:
            listener.stop()

    def _may_take(self) -> bool:
        """Whether what is expired is so because its owner is gone, and not because the database was, or its clock.

        Asked after the time was: one that came with a clock that was set is then known for it.
        """
        return self.connection.reached_for() >= self._grace.total_seconds()


class PostgresClaims(SqlClaims):
    """Claims that are renewed with one statement, however many they are."""

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        held = list(claims)
        with self._db.writing(durable=False, alone=False):
            columns = {
                "ids": [claim.task.id for claim in held],
                "owners": [claim.owner for claim in held],
                "epochs": [claim.epoch for claim in held],
            }
            expires = clock.to_micros(self._now() + ttl)
            kept = tuple(self._sql.first("renew", expires=expires, **columns)) if held else ()
            found = self._tasks.find(Filter(ids=kept)) if kept else []
        now = {(task.id, task.claim_owner, task.epoch): claim_of(task) for task in found}
        return [now[key] for claim in held if (key := (claim.task.id, claim.owner, claim.epoch)) in now]


class JudgedSearch:
    """A search that leaves to Python what the database compares otherwise than SQLite does."""

    def __init__(self, search: SqlSearch) -> None:
        self._search = search

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        asked, judged = _apart(where)
        if judged is None:
            return self._search.find(where, sort=sort, reverse=reverse, limit=limit)
        found = self._search.find(asked, sort=sort, reverse=reverse)
        fitting = [task for task in found if matches(task, judged)]
        return fitting[:limit] if limit else fitting

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        if _apart(where)[1] is None:
            return self._search.count(where, by=by)
        found = self.find(where)
        if not by:
            return {"": len(found)}
        if by == "label":
            return dict(Counter(label for task in found for label in task.labels))
        return dict(Counter(str(getattr(task, by)) for task in found))

    def urgent(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        asked, judged = _apart(where)
        if judged is not None:
            keys = tuple(task.id for task in self.find(where, sort="urgent", limit=limit))
            asked = asked.replace(ids=keys)
        return self._search.urgent(asked, limit)


def _apart(where: Filter) -> tuple[Filter, Filter | None]:
    """What the database is asked, and what Python judges of its answer, if anything."""
    judged = {name: value for name in JUDGED if (value := getattr(where, name)) is not None}
    if not judged:
        return where, None
    return where.replace(**dict.fromkeys(judged)), Filter(**judged)
