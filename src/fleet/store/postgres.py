"""The queue that many hosts share: PostgreSQL, whose own clock judges every claim."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core import clock
from fleet.core.errors import ClaimLost
from fleet.core.filter import Filter
from fleet.core.matching import JUDGED, matches
from fleet.store.postgres_connection import Connection
from fleet.store.postgres_health import health
from fleet.store.postgres_listening import Listener
from fleet.store.sql_queue import SqlQueue, claim_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fleet.core.clock import Clock
    from fleet.core.health import Vital
    from fleet.core.task import Claim, Task

#: How long a claim lasts unless settings say otherwise.
LEASE = timedelta(seconds=60)


class PostgresQueue(SqlQueue):
    """Tasks in one database of a PostgreSQL server, under its schema `fleet`.

    A `lease` is how long claims last here. Silent connections are given up within a third of it. What others let expire
    is not touched before the server was within reach, and its clock not set, for a whole one: they come back first.
    """

    is_shared = True

    def __init__(
        self,
        url: str,
        *,
        make: bool = False,
        migrate: bool = False,
        lease: timedelta = LEASE,
        grace: timedelta | None = None,
        now: Clock | None = None,
    ) -> None:
        self._server = Connection(url, patience=lease / 3, make=make, migrate=migrate)
        self._grace = lease if grace is None else grace
        super().__init__(self._server, self._server.clock.now if now is None else now)

    @property
    def connection(self) -> Connection:
        return self._server

    def health(self) -> list[Vital]:
        return health(self._server)

    @contextmanager
    def listening(self, call: Callable[[], None]) -> Iterator[None]:
        listener = Listener(self._server, call)
        listener.start()
        try:
            yield
        finally:
            listener.stop()

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        asked, judged = _apart(where)
        if judged is None:
            return super().find(where, sort=sort, reverse=reverse, limit=limit)
        found = super().find(asked, sort=sort, reverse=reverse)
        fitting = [task for task in found if matches(task, judged)]
        return fitting[:limit] if limit else fitting

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        if _apart(where)[1] is None:
            return super().count(where, by=by)
        found = self.find(where)
        if not by:
            return {"": len(found)}
        if by == "label":
            return dict(Counter(label for task in found for label in task.labels))
        return dict(Counter(str(getattr(task, by)) for task in found))

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        held = list(claims)
        with self._db.writing(durable=False, alone=False):
            columns = {
                "ids": [claim.task.id for claim in held],
                "owners": [claim.owner for claim in held],
                "epochs": [claim.epoch for claim in held],
            }
            kept = tuple(self._first("renew", expires=clock.to_micros(self.now() + ttl), **columns)) if held else ()
            found = self.find(Filter(ids=kept)) if kept else []
        now = {(task.id, task.claim_owner, task.epoch): claim_of(task) for task in found}
        return [now[key] for claim in held if (key := (claim.task.id, claim.owner, claim.epoch)) in now]

    def adopt(self, task_id: str, owner: str, *, epoch: int, ttl: timedelta) -> Claim:
        with self._db.writing(durable=False):
            now = self.now()
            if self.get(task_id).claim_owner != owner and not self._may_take():
                raise ClaimLost(task_id, epoch)
            return self._adopt(task_id, owner, epoch, now, ttl)

    def reap(self, *, spare: Iterable[str] = ()) -> list[Task]:
        with self._db.writing():
            now = self.now()
            return self._reap(now, spare) if self._may_take() else []

    def _may_take(self) -> bool:
        """Whether what is expired is so because its owner is gone, and not because the database was, or its clock.

        Asked after the time was: one that came with a clock that was set is then known for it.
        """
        return self._server.reached_for() >= self._grace.total_seconds()

    def _first_in(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        asked, judged = _apart(where)
        if judged is not None:
            keys = tuple(task.id for task in self.find(where, sort="urgent", limit=limit))
            asked = asked.replace(ids=keys)
        return super()._first_in(asked, limit)

    def _lock_seats(self, seats: list[tuple[str, str]]) -> None:
        for coder, account in seats:
            self._rows("lock_seat", coder=coder, account=account)


def _apart(where: Filter) -> tuple[Filter, Filter | None]:
    """What the database is asked, and what Python judges of its answer, if anything."""
    judged = {name: value for name in JUDGED if (value := getattr(where, name)) is not None}
    if not judged:
        return where, None
    return where.replace(**dict.fromkeys(judged)), Filter(**judged)
