"""Hosts, and the last events of runs that each host stores for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.admission import QueueSnapshot
from fleet.core.clock import from_micros, to_micros
from fleet.core.host import Host
from fleet.core.jsontext import decode, encode
from fleet.core.run import Account
from fleet.store.named_sql import SqlPort
from fleet.store.sql.records import record_from, storable, values_of

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


class SqlHosts(SqlPort):
    """One row for each host that was seen and not forgotten."""

    file = "hosts"

    def glance(self, host_id: str, key: str) -> QueueSnapshot:
        """Return what this host needs to look for work, including the queue setting `key`, in one query."""
        queries, history = self._db.blocks("queries"), self._db.blocks("history")
        asked = (queries["waiting_coders"], history["accounts"], queries["setting"], self._sql["host"])
        coders, accounts, settings, hosts = self._db.together(asked, {"host": host_id, "key": key})
        return QueueSnapshot(
            coders=[row[0] for row in coders],
            accounts=[record_from(Account, row) for row in accounts],
            setting=next((row[0] for row in settings), None),
            host=next((_host(row) for row in hosts), None),
        )

    def keep(self, host: Host) -> Host:
        """Store what a host reports about itself. Return it with the stored `drained_at`, which only `drain` sets."""
        with self._db.writing(durable=False, alone=False):
            [(drained_at,)] = self._sql.rows("keep_host", **(values_of(host) | {"labels": encode(host.labels)}))
        return host.replace(drained_at=None if drained_at is None else from_micros(drained_at))

    def all(self) -> list[Host]:
        """Return all hosts that were seen and not forgotten, by name."""
        return [_host(row) for row in self._sql.rows("hosts")]

    def drain(self, host_id: str, at: datetime | None) -> bool:
        """Keep a host from taking work, or let it again if `at` is None. Return False if the host is unknown."""
        with self._db.writing():
            self._sql.rows("drain_host", id=host_id, at=None if at is None else to_micros(at))
            return bool(self._db.changes())

    def forget(self, host_id: str) -> bool:
        """Delete a host's row. Return False if the host is unknown."""
        with self._db.writing():
            self._sql.rows("forget_host", id=host_id)
            return bool(self._db.changes())


class SqlTails(SqlPort):
    """One row for each run that left a tail."""

    file = "hosts"

    def keep(self, run_id: str, text: str, at: datetime) -> None:
        """Store the last events of a run, for when its host is unreachable. A later call replaces them."""
        with self._db.writing(durable=False, alone=False):
            self._sql.rows("keep_tail", run=run_id, text=storable(text), at=to_micros(at))

    def get(self, run_id: str) -> tuple[str, datetime] | None:
        """Return the stored last events of a run and their time, or None."""
        for text, kept_at in self._sql.rows("tail", run=run_id):
            return text, from_micros(kept_at)
        return None

    def forget(self, before: datetime) -> int:
        """Delete event tails older than `before`. Return the number deleted."""
        with self._db.writing(durable=False):
            self._sql.rows("forget_tails", before=to_micros(before))
            return self._db.changes()


def _host(row: tuple[Any, ...]) -> Host:
    found = record_from(Host, row)
    return found.replace(labels=tuple(decode(str(found.labels))))
