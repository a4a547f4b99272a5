"""Receipts and collisions in the queue's database: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.jsontext import encode
from fleet.store import receipt_rules as rules
from fleet.store.sql_history_rows import collision_from, count_from, receipt_from, storable, values_of
from fleet.store.sql_workspaces import SqlWorkspaces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from fleet.core.collision import Collision
    from fleet.core.receipt import FindingCount, Receipt

_BEFORE_ALL = -(2**63)


class SqlReceipts(SqlWorkspaces):
    """A row for each run's receipt, and one for each pair of branches that collide."""

    def keep_receipt(self, receipt: Receipt) -> Receipt:
        with self._db.writing():
            if kept := self.receipt(receipt.run_id):
                return kept
            plain = receipt.replace(body=storable(receipt.body), model=storable(receipt.model))
            placed = rules.placed(plain, self._receipt("last_of_owner", owner=receipt.owner))
            self._db.rows(self._receipt_sql["insert_receipt"], values_of(placed))
            return placed

    def receipt(self, run_id: str) -> Receipt | None:
        return self._receipt("of_run", run=run_id)

    def receipts(self, task_id: str) -> list[Receipt]:
        return self._receipts("of_task", task=task_id)

    def receipt_chain(self, owner: str) -> list[Receipt]:
        return self._receipts("of_owner", owner=owner)

    def finding_counts(self, *, since: datetime | None = None) -> list[FindingCount]:
        values = {"since": to_micros(since) if since else _BEFORE_ALL}
        return [count_from(row) for row in self._db.rows(self._receipt_sql["finding_counts"], values)]

    def collisions(self, *, common: str | None = None) -> list[Collision]:
        return [collision_from(row) for row in self._db.rows(self._receipt_sql["collisions"], {"common": common})]

    def keep_collisions(self, common: str, seen: Sequence[Collision]) -> None:
        with self._db.writing(durable=False):
            kept = rules.carried_on(seen, self.collisions(common=common))
            self._db.rows(self._receipt_sql["forget_collisions"], {"common": common})
            for each in kept:
                files = storable(encode(each.files))
                self._db.rows(self._receipt_sql["insert_collision"], values_of(each) | {"files": files})

    def tell_collision(self, collision: Collision, at: datetime) -> bool:
        with self._db.writing(durable=False):
            task, other = collision.pair
            values = {"common": collision.common, "task": task, "other": other, "at": to_micros(at)}
            self._db.rows(self._receipt_sql["tell_collision"], values)
            return bool(self._db.changes())

    def _receipt(self, condition: str, **values: Any) -> Receipt | None:
        return next(iter(self._receipts(condition, **values)), None)

    def _receipts(self, condition: str, **values: Any) -> list[Receipt]:
        return [
            receipt_from(row)
            for row in self._db.rows(f"{self._receipt_sql['receipts']} {self._receipt_sql[condition]}", values)
        ]

    @property
    def _receipt_sql(self) -> dict[str, str]:
        return self._db.blocks("receipts")
