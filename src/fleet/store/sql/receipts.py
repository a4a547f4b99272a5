"""Receipts of runs, and live branches that git could not merge with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.jsontext import decode, encode
from fleet.core.receipt import FindingCount, Receipt, chain_receipt
from fleet.core.workspace import Collision
from fleet.store.named_sql import SqlPort
from fleet.store.sql.records import record_from, storable, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any


_BEFORE_ALL = -(2**63)


class SqlReceipts(SqlPort):
    """One row for each run's receipt."""

    file = "receipts"

    def keep(self, receipt: Receipt) -> Receipt:
        """Store the receipt of a run as the next in its owner's chain. If the run has a receipt, return that one."""
        with self._db.writing():
            if kept := self.get(receipt.run_id):
                return kept
            plain = receipt.replace(body=storable(receipt.body), model=storable(receipt.model))
            last = next(iter(self._receipts("last_of_owner", owner=receipt.owner)), None)
            linked = chain_receipt(plain, last.hash if last else "")
            self._sql.rows("insert_receipt", **values_of(linked))
            return linked

    def get(self, run_id: str) -> Receipt | None:
        return next(iter(self._receipts("of_run", run=run_id)), None)

    def of_task(self, task_id: str) -> list[Receipt]:
        return self._receipts("of_task", task=task_id)

    def chain(self, owner: str) -> list[Receipt]:
        """Return all receipts of one owner, oldest first."""
        return self._receipts("of_owner", owner=owner)

    def finding_counts(self, *, since: datetime | None = None) -> list[FindingCount]:
        """Return the number of ended runs for each coder, model and finding, optionally only those since a moment."""
        rows = self._sql.rows("finding_counts", since=to_micros(since) if since else _BEFORE_ALL)
        return [record_from(FindingCount, row) for row in rows]

    def _receipts(self, condition: str, **values: Any) -> list[Receipt]:
        return [record_from(Receipt, row) for row in self._sql.joined("receipts", condition, **values)]


class SqlCollisions(SqlPort):
    """One row for each pair of branches that collide."""

    file = "receipts"

    def find(self, *, common: str | None = None) -> list[Collision]:
        """Return the last seen collisions of one git directory or of all, oldest first."""
        found = [record_from(Collision, row) for row in self._sql.rows("collisions", common=common)]
        return [each.replace(files=tuple(decode(str(each.files)))) for each in found]

    def keep(self, common: str, seen: Sequence[Collision]) -> None:
        """Replace the known collisions of a repository. Known pairs keep their times."""
        with self._db.writing(durable=False):
            known = {each.pair: each for each in self.find(common=common)}
            self._sql.rows("forget_collisions", common=common)
            for new in seen:
                old = known.get(new.pair)
                each = new.replace(seen_at=old.seen_at, told_at=new.told_at or old.told_at) if old else new
                files = storable(encode(each.files))
                self._sql.rows("insert_collision", **(values_of(each) | {"files": files}))

    def mark_told(self, collision: Collision, at: datetime) -> bool:
        """Record that the later agent was told. Return False if it already was."""
        with self._db.writing(durable=False):
            task, other = collision.pair
            self._sql.rows("tell_collision", common=collision.common, task=task, other=other, at=to_micros(at))
            return bool(self._db.changes())
