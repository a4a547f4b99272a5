"""The store that many hosts share: PostgreSQL, whose own clock judges every claim; its news and its health."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import psycopg

from fleet.core import clock
from fleet.core.clock import from_micros, growing_pauses, now
from fleet.core.errors import FleetError, StoreFault
from fleet.core.filter import Filter
from fleet.core.health import State, Vital
from fleet.core.matching import JUDGED, matches
from fleet.store.base import Store
from fleet.store.postgres_connection import Connection
from fleet.store.postgres_tls import in_force
from fleet.store.sql.claims import SqlClaims, claim_of
from fleet.store.sql.search import SqlSearch
from fleet.store.sql.workspaces import SqlTrust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fleet.core.clock import Clock
    from fleet.core.health import Vital
    from fleet.core.task import Claim, Task
    from fleet.store.postgres_connection import Connection
    from fleet.store.postgres_link import Link


#: How long a claim lasts unless settings say otherwise.
LEASE = timedelta(seconds=60)
log = logging.getLogger(__name__)
#: Between two tries to listen again.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
STOP_SECONDS = 1.0
OLDEST = 130000
#: A call of the store takes some five answers of the server.
SLOWEST_MS = 100.0
#: Claims go by the server's clock alone; but people read times beside those of their own machine.
LARGEST_DIFFERENCE = 5.0
TRIES = 5


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


class Listener(threading.Thread):
    """Calls somebody whenever the database has news; what is missed while it is away, one call makes good."""

    def __init__(self, connection: Connection, call: Callable[[], None]) -> None:
        super().__init__(name="listener", daemon=True)
        self._connection, self._call = connection, call
        self._heard, self._end = os.pipe()
        self._told = False

    def stop(self) -> None:
        """Stop listening. One that is just being connected ends a little later by itself."""
        os.close(self._end)
        self.join(STOP_SECONDS)

    def run(self) -> None:
        try:
            self._listen()
        finally:
            os.close(self._heard)

    def _listen(self) -> None:
        pauses = growing_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                with self._connection.link() as link:
                    link.execute(b"listen fleet")
                    pauses, self._told = growing_pauses(FIRST_PAUSE, LONGEST_PAUSE), False
                    self._call()  # for what was written before we listened
                    self._follow(link)
                    return
            except (FleetError, psycopg.Error, OSError) as error:
                self._tell(error)
            if self._ends_within(next(pauses)):
                return

    def _follow(self, link: Link) -> None:
        """Call until stopped. Raises when the connection breaks."""
        while True:
            ready, _, _ = select.select([link.fileno(), self._heard], [], [])
            if self._heard in ready:
                return
            if list(link.notifies(timeout=0)):
                self._call()

    def _ends_within(self, seconds: float) -> bool:
        return bool(select.select([self._heard], [], [], seconds)[0])

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("not listening to the database, only looking now and then: %s", error)


def health(connection: Connection) -> list[Vital]:
    try:
        return list(_signs(connection))
    except StoreFault as error:
        return [Vital(name="postgresql", state=State.WRONG, fact=str(error), remedy=error.hint or "look at its log.")]


def _signs(connection: Connection) -> Iterator[Vital]:
    waits, rows = [], []
    for _ in range(TRIES):
        began = time.perf_counter()
        rows = connection.rows(connection.blocks("connection")["server"])
        waits.append(time.perf_counter() - began)
        ours = now()
    version, number, micros, commit, fsync, size, name = rows[0]
    yield _version(str(version), int(number), f"database {name} of {size / 2**20:.0f} MB")
    with connection.link() as link:
        yield in_force(link)
    yield _latency(min(waits) * 1000)
    yield _clock((from_micros(micros) - ours).total_seconds())
    if commit == "off" or fsync == "off":
        fact = f"the server does not wait for its disk (fsync = {fsync}, synchronous_commit = {commit})"
        remedy = "set both to on in postgresql.conf: a power cut there can lose tasks that were acknowledged."
        yield Vital(name="durability", state=State.WARNING, fact=fact, remedy=remedy)


def _version(version: str, number: int, more: str) -> Vital:
    if number >= OLDEST:
        return Vital(name="postgresql", state=State.OK, fact=f"PostgreSQL {version}, {more}")
    fact = f"PostgreSQL {version} is older than 13, the first that fleet was made for"
    return Vital(name="postgresql", state=State.WRONG, fact=fact, remedy="upgrade the server.")


def _latency(ms: float) -> Vital:
    fact = f"an answer takes {ms:.1f} ms"
    if ms <= SLOWEST_MS:
        return Vital(name="latency", state=State.OK, fact=fact)
    return Vital(name="latency", state=State.WARNING, fact=fact, remedy="run the database nearer to its hosts.")


def _clock(seconds: float) -> Vital:
    if abs(seconds) <= LARGEST_DIFFERENCE:
        return Vital(name="clock", state=State.OK, fact=f"the server's clock differs by {abs(seconds):.1f} s")
    fact = f"the server's clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
    remedy = "have both follow NTP; claims are safe, for they go by the server's alone."
    return Vital(name="clock", state=State.WARNING, fact=fact, remedy=remedy)
