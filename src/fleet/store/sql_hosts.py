"""Hosts, and the last events of runs, in the queue's database: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import from_micros, to_micros
from fleet.core.glance import Glance
from fleet.core.jsontext import encode
from fleet.store.sql_flows import SqlFlows
from fleet.store.sql_history_rows import account_from, host_from, storable, values_of

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.core.host import Host


class SqlHosts(SqlFlows):
    """A row for each host that was ever seen and not forgotten, and for each run that left a tail."""

    def glance(self, host_id: str, key: str) -> Glance:
        queries, own = self._db.blocks("queries"), self._host_sql
        asked = (queries["waiting_coders"], self._db.blocks("history")["accounts"], queries["setting"], own["host"])
        coders, accounts, settings, hosts = self._db.together(asked, {"host": host_id, "key": key})
        return Glance(
            coders=[row[0] for row in coders],
            accounts=[account_from(row) for row in accounts],
            setting=next((row[0] for row in settings), None),
            host=next((host_from(row) for row in hosts), None),
        )

    def keep_host(self, host: Host) -> Host:
        with self._db.writing(durable=False, alone=False):
            values = values_of(host) | {"labels": encode(host.labels)}
            [(drained_at,)] = self._db.rows(self._host_sql["keep_host"], values)
        return host.replace(drained_at=None if drained_at is None else from_micros(drained_at))

    def hosts(self) -> list[Host]:
        return [host_from(row) for row in self._db.rows(self._host_sql["hosts"])]

    def drain_host(self, host_id: str, at: datetime | None) -> bool:
        with self._db.writing():
            self._db.rows(self._host_sql["drain_host"], {"id": host_id, "at": None if at is None else to_micros(at)})
            return bool(self._db.changes())

    def forget_host(self, host_id: str) -> bool:
        with self._db.writing():
            self._db.rows(self._host_sql["forget_host"], {"id": host_id})
            return bool(self._db.changes())

    def keep_tail(self, run_id: str, text: str, at: datetime) -> None:
        with self._db.writing(durable=False, alone=False):
            self._db.rows(self._host_sql["keep_tail"], {"run": run_id, "text": storable(text), "at": to_micros(at)})

    def tail(self, run_id: str) -> tuple[str, datetime] | None:
        for text, kept_at in self._db.rows(self._host_sql["tail"], {"run": run_id}):
            return text, from_micros(kept_at)
        return None

    def forget_tails(self, before: datetime) -> int:
        with self._db.writing(durable=False):
            self._db.rows(self._host_sql["forget_tails"], {"before": to_micros(before)})
            return self._db.changes()

    @property
    def _host_sql(self) -> dict[str, str]:
        return self._db.blocks("hosts")
