"""Collisions: which live branches git could not merge with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.collision import Collision
from fleet.core.jsontext import decode, encode
from fleet.store.named_sql import Statements
from fleet.store.sql.records import record_from, storable, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fleet.store.sql_connection import SqlConnection


class SqlCollisions:
    """A row for each pair of branches that collide."""

    def __init__(self, connection: SqlConnection) -> None:
        self._db = connection
        self._sql = Statements(connection, "receipts")

    def find(self, *, common: str | None = None) -> list[Collision]:
        """The branches that collide, of one repository's git directory or any, as last seen; longest known first."""
        found = [record_from(Collision, row) for row in self._sql.rows("collisions", common=common)]
        return [each.replace(files=tuple(decode(str(each.files)))) for each in found]

    def keep(self, common: str, seen: Sequence[Collision]) -> None:
        """Keep which branches of a repository collide now, in place of what was known; known pairs keep their times."""
        with self._db.writing(durable=False):
            known = {each.pair: each for each in self.find(common=common)}
            self._sql.rows("forget_collisions", common=common)
            for new in seen:
                old = known.get(new.pair)
                each = new.replace(seen_at=old.seen_at, told_at=new.told_at or old.told_at) if old else new
                files = storable(encode(each.files))
                self._sql.rows("insert_collision", **(values_of(each) | {"files": files}))

    def mark_told(self, collision: Collision, at: datetime) -> bool:
        """Note that the later agent was told; whether it had not been."""
        with self._db.writing(durable=False):
            task, other = collision.pair
            self._sql.rows("tell_collision", common=collision.common, task=task, other=other, at=to_micros(at))
            return bool(self._db.changes())
