"""The store that many hosts share: PostgreSQL, with its notifications and health checks.

The server's clock judges all claims.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from fleet.core import clock
from fleet.core.clock import from_micros, iterate_pauses, now
from fleet.core.errors import FleetError, StoreFault
from fleet.core.filter import Filter
from fleet.core.health import HealthCheck, HealthState
from fleet.core.matching import JUDGED, matches
from fleet.store.base import Store
from fleet.store.postgres.connection import PostgresConnection
from fleet.store.postgres.link import check_encryption
from fleet.store.sql.claims import SqlClaims, claim_of
from fleet.store.sql.search import SqlSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fleet.core.clock import Clock
    from fleet.core.health import HealthCheck
    from fleet.core.task import Claim, Task
    from fleet.store.postgres.connection import PostgresConnection
    from fleet.store.postgres.link import PostgresLink


#: How long a claim lasts. Settings can change it.
LEASE = timedelta(seconds=60)
log = logging.getLogger(__name__)
#: Pauses between two attempts to listen again.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
STOP_SECONDS = 1.0
OLDEST = 130000
#: A call of the store needs about five answers of the server.
SLOWEST_MS = 100.0
#: Claims use only the server's clock, but people compare its times with those of their own machine.
LARGEST_DIFFERENCE = 5.0
TRIES = 5


class PostgresStore(Store):
    """Everything in the schema `fleet` of one PostgreSQL database.

    `lease` is how long claims last here. Silent connections are given up within a third of it. Expired claims of other
    owners stay untouched at first. The server must have been reachable, with a steady clock, for a whole grace period.
    Owners get this time to come back and renew. `mark` distinguishes this home from those of other hosts, for trust in
    a path.
    """

    is_shared = True
    connection: PostgresConnection

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
        server = PostgresConnection(url, patience=lease / 3, make=make, migrate=migrate)
        self._grace = lease if grace is None else grace
        now = server.clock.now if now is None else now
        super().__init__(server, now, JudgedSearch(SqlSearch(server, now)), mark=mark)
        self.claims = PostgresClaims(server, now, self.tasks, self._search, self._may_reap)

    def health(self) -> list[HealthCheck]:
        return health(self.connection)

    @contextmanager
    def listening(self, call: Callable[[], None]) -> Iterator[None]:
        listener = Listener(self.connection, call)
        listener.start()
        try:
            yield
        finally:
            listener.stop()

    def _may_reap(self) -> bool:
        """Return True if claims expired because their owner is gone, not because the server or its clock failed.

        Call it after reading the time. A jump of the server's clock is then already known.
        """
        return self.connection.reached_for() >= self._grace.total_seconds()


class PostgresClaims(SqlClaims):
    """Claims that are renewed with one statement, however many."""

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
    """A search that leaves to Python the comparisons in which the database differs from SQLite."""

    def __init__(self, search: SqlSearch) -> None:
        self._search = search

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        asked, judged = _split_filter(where)
        if judged is None:
            return self._search.find(where, sort=sort, reverse=reverse, limit=limit)
        found = self._search.find(asked, sort=sort, reverse=reverse)
        fitting = [task for task in found if matches(task, judged)]
        return fitting[:limit] if limit else fitting

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        if _split_filter(where)[1] is None:
            return self._search.count(where, by=by)
        found = self.find(where)
        if not by:
            return {"": len(found)}
        if by == "label":
            return dict(Counter(label for task in found for label in task.labels))
        return dict(Counter(str(getattr(task, by)) for task in found))

    def urgent(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        asked, judged = _split_filter(where)
        if judged is not None:
            keys = tuple(task.id for task in self.find(where, sort="urgent", limit=limit))
            asked = asked.replace(ids=keys)
        return self._search.urgent(asked, limit)


def _split_filter(where: Filter) -> tuple[Filter, Filter | None]:
    """Split a filter into a part for the database and a part for Python. The second is None if Python has no part."""
    judged = {name: value for name in JUDGED if (value := getattr(where, name)) is not None}
    if not judged:
        return where, None
    return where.replace(**dict.fromkeys(judged)), Filter(**judged)


class Listener(threading.Thread):
    """A thread that calls `call` on each notification of the database.

    Notifications that are missed while the database is unreachable are replaced by one call after the reconnect.
    """

    def __init__(self, connection: PostgresConnection, call: Callable[[], None]) -> None:
        super().__init__(name="listener", daemon=True)
        self._connection, self._call = connection, call
        self._heard, self._end = os.pipe()
        self._told = False

    def stop(self) -> None:
        """Stop listening. A listener that is just connecting ends a little later."""
        os.close(self._end)
        self.join(STOP_SECONDS)

    def run(self) -> None:
        try:
            self._listen()
        finally:
            os.close(self._heard)

    def _listen(self) -> None:
        pauses = iterate_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                with self._connection.link() as link:
                    link.execute(b"listen fleet")
                    pauses, self._told = iterate_pauses(FIRST_PAUSE, LONGEST_PAUSE), False
                    self._call()  # for writes made before we listened
                    self._follow(link)
                    return
            except (FleetError, psycopg.Error, OSError) as error:
                self._log_fault(error)
            if self._ends_within(next(pauses)):
                return

    def _follow(self, link: PostgresLink) -> None:
        """Forward notifications until stopped. Raises if the connection breaks."""
        while True:
            ready, _, _ = select.select([link.fileno(), self._heard], [], [])
            if self._heard in ready:
                return
            if list(link.notifies(timeout=0)):
                self._call()

    def _ends_within(self, seconds: float) -> bool:
        return bool(select.select([self._heard], [], [], seconds)[0])

    def _log_fault(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("cannot listen to the database, polling instead: %s", error)


def health(connection: PostgresConnection) -> list[HealthCheck]:
    try:
        return list(_signs(connection))
    except StoreFault as error:
        return [
            HealthCheck(
                name="postgresql",
                state=HealthState.WRONG,
                fact=str(error),
                remedy=error.hint or "read the log of the server",
            )
        ]


def _signs(connection: PostgresConnection) -> Iterator[HealthCheck]:
    waits, rows = [], []
    for _ in range(TRIES):
        began = time.perf_counter()
        rows = connection.rows(connection.blocks("connection")["server"])
        waits.append(time.perf_counter() - began)
        ours = now()
    version, number, micros, commit, fsync, size, name = rows[0]
    yield _version(str(version), int(number), f"database {name} of {size / 2**20:.0f} MB")
    with connection.link() as link:
        yield check_encryption(link)
    yield _latency(min(waits) * 1000)
    yield _clock((from_micros(micros) - ours).total_seconds())
    if commit == "off" or fsync == "off":
        fact = f"the server acknowledges before data is on disk (fsync = {fsync}, synchronous_commit = {commit})"
        remedy = "set both to on in postgresql.conf: a power cut can lose acknowledged tasks"
        yield HealthCheck(name="durability", state=HealthState.WARNING, fact=fact, remedy=remedy)


def _version(version: str, number: int, more: str) -> HealthCheck:
    if number >= OLDEST:
        return HealthCheck(name="postgresql", state=HealthState.OK, fact=f"PostgreSQL {version}, {more}")
    fact = f"PostgreSQL {version} is too old: fleet needs 13 or newer"
    return HealthCheck(name="postgresql", state=HealthState.WRONG, fact=fact, remedy="upgrade the server.")


def _latency(ms: float) -> HealthCheck:
    fact = f"an answer takes {ms:.1f} ms"
    if ms <= SLOWEST_MS:
        return HealthCheck(name="latency", state=HealthState.OK, fact=fact)
    return HealthCheck(
        name="latency", state=HealthState.WARNING, fact=fact, remedy="run the database nearer to its hosts."
    )


def _clock(seconds: float) -> HealthCheck:
    if abs(seconds) <= LARGEST_DIFFERENCE:
        return HealthCheck(
            name="clock", state=HealthState.OK, fact=f"the server's clock differs by {abs(seconds):.1f} s"
        )
    fact = f"the server's clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
    remedy = "let both follow NTP; claims are safe, because they use only the server's clock"
    return HealthCheck(name="clock", state=HealthState.WARNING, fact=fact, remedy=remedy)
