"""Copying all rows of one database to another.

A copy that was killed is repeated: tables that are already equal are skipped. All fleet databases have the same tables
and columns, as defined by the SQLite migrations.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import apsw

from fleet.core.errors import StoreFault
from fleet.core.ids import new_uuid
from fleet.core.jsontext import decode, encode
from fleet.store import named_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fleet.store.sql_connection import SqlConnection

PART = 500
EVENTS = ("insert", "update", "delete")
#: Settings of a queue about itself: its name, and the progress of a copy into it.
NAME, STATE = "fleet.queue_id", "fleet.moving"
#: Settings that are valid only in one place.
LOCAL = (STATE, "fleet.beads_seen", "fleet.beads_program", "fleet.beads_owner", "fleet.beads_settings")


class Table(NamedTuple):
    """A table and its key columns."""

    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]


class Contents(NamedTuple):
    """The number of rows of a table, and a checksum that ignores their order."""

    rows: int
    sum: str


def tables() -> list[Table]:
    """Return all tables, referenced tables first."""
    sql, schema, found = named_sql.load("sqlite", "moving"), apsw.Connection(":memory:"), []
    for _, script in named_sql.migrations("sqlite"):
        schema.execute(script)
    for (name,) in list(schema.execute(sql["tables"])):
        told = list(schema.execute(sql["columns"], {"table": name}))
        keys = sorted((order, column) for column, order in told if order)
        found.append(Table(name, tuple(column for column, _ in told), tuple(column for _, column in keys)))
    return found


def name_of(queue: SqlConnection) -> str:
    """Return the name that identifies this queue's contents, even after a copy. Creates a name if it has none."""
    known = _settings(queue).get(NAME)
    if known is None:
        known = new_uuid()
        _set_config(queue, NAME, known)
    return known


def state_of(queue: SqlConnection) -> dict[str, Any]:
    """Return the progress of a copy into this queue. Empty if no copy is in progress."""
    found: dict[str, Any] = decode(_settings(queue).get(STATE, "{}"))
    return found


def is_named(queue: SqlConnection, name: str) -> bool:
    """Return True if this queue has a complete copy of the contents with that name."""
    return _settings(queue).get(NAME) == name and state_of(queue).get("whole", True)


def is_empty(queue: SqlConnection) -> bool:
    """Return True if the queue has no tasks and never had a run."""
    return _count_rows(queue, "tasks") == _count_rows(queue, "runs") == 0


def is_sealed(queue: SqlConnection) -> bool:
    """Return True if the contents were moved to another queue."""
    return bool(queue.rows(queue.blocks("moving")["is_sealed"])[0][0])


def copy(source: SqlConnection, target: SqlConnection, tell: Callable[[str, int], None]) -> dict[str, Contents]:
    """Copy each table in which the target differs. Return what the source has, by table.

    A repeated call skips the tables that an earlier copy completed. `tell` is called for each part. Hold the source's
    lock: no one else may write to the source until the end. Raises StoreFault.
    """
    _set_config(target, STATE, encode({"of": name_of(source), "whole": False}))
    found = {}
    for table in tables():
        found[table.name] = _contents(source, table)
        if found[table.name] != _contents(target, table):
            with target.writing():
                _empty(target, table)
            for rows in _iterate_batches(source, table):
                with target.writing():
                    for row in rows:
                        _insert_row(target, table, row)
                tell(table.name, len(rows))
        if "id" in table.keys and "after_copy" in target.blocks("moving"):
            _count_on(target, table)
    return found


def finish(target: SqlConnection, settle_in: Callable[[], None] | None = None) -> None:
    """Mark the copy as complete, in one transaction with `settle_in`.

    `settle_in` adjusts rows so that they mean the same in the target. Until `release_copy` the target still counts
    as a copy: another call of `copy` compares it and repairs differences.
    """
    with target.writing():
        if settle_in is not None:
            settle_in()
        _set_config(target, STATE, encode({**state_of(target), "whole": True}))


def release_copy(target: SqlConnection) -> None:
    """Turn the copy into a normal queue, after its source was sealed."""
    with target.writing():
        target.rows(target.blocks("queries")["unset_config"], {"key": STATE})


def allow_long_transaction(queue: SqlConnection) -> None:
    """Let the open transaction stay idle for as long as the copy takes. A database may end idle transactions."""
    words = queue.blocks("moving").get("take_time")
    if words is not None:
        queue.rows(words)


def copy_trust(queue: SqlConnection, before: str, after: str) -> None:
    """Trust each trusted path under `before` also under `after`."""
    queue.rows(queue.blocks("moving")["trust_again"], {"before": before, "after": after})


def bind(queue: SqlConnection, bound: Callable[[str], str]) -> None:
    """Replace the requirements of tasks that are tied to a directory by `bound(requirement)`."""
    sql = queue.blocks("moving")
    for (before,) in queue.rows(sql["requirements"]):
        queue.rows(sql["bind"], {"before": before, "after": bound(before)})


def contents(queue: SqlConnection) -> dict[str, Contents]:
    return {table.name: _contents(queue, table) for table in tables()}


def seal(queue: SqlConnection) -> None:
    """Block all writes by processes that still have the queue open."""
    sql = queue.blocks("moving")
    with queue.writing():
        if is_sealed(queue):
            return
        if "before_sealing" in sql:
            queue.rows(sql["before_sealing"])
        for table in tables():
            for event in EVENTS:
                queue.rows(sql["seal"].format(table=table.name, event=event))


def set_aside(queue: SqlConnection, stamp: str) -> None:
    """Rename all tables so that the place is empty and nothing is lost. Raises StoreFault if the database cannot."""
    words = queue.blocks("moving").get("set_aside")
    if words is None:
        raise StoreFault("this queue cannot be set aside", hint="move its file away manually")
    with queue.writing():
        queue.rows(words.format(stamp=stamp))


def _iterate_batches(queue: SqlConnection, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    keys = ", ".join(table.keys)
    slots = ", ".join(f":after{number}" for number in range(len(table.keys)))
    after: dict[str, Any] = {}
    while True:
        words = queue.blocks("moving")["page"].format(
            columns=", ".join(table.columns),
            table=table.name,
            after=f"where ({keys}) > ({slots})" if after else "",
            keys=keys,
        )
        rows = queue.rows(words, after | {"limit": PART})
        if rows:
            yield rows
        if len(rows) < PART:
            return
        after = {f"after{number}": rows[-1][table.columns.index(key)] for number, key in enumerate(table.keys)}


def _contents(queue: SqlConnection, table: Table) -> Contents:
    total, count = 0, 0
    for rows in _iterate_batches(queue, table):
        for row in rows:
            if table.name == "config" and row[0] in LOCAL:
                continue
            count += 1
            total ^= int.from_bytes(hashlib.sha256(encode(list(map(_normalize_value, row))).encode()).digest(), "big")
    return Contents(count, f"{total:064x}")


def _empty(queue: SqlConnection, table: Table) -> None:
    """Delete all rows. Deleting tasks also deletes their dependent rows. Settings of this place stay."""
    if table.name != "config":
        queue.rows(queue.blocks("moving")["empty"].format(table=table.name))
        return
    for key in set(_settings(queue)) - set(LOCAL):
        queue.rows(queue.blocks("queries")["unset_config"], {"key": key})


def _insert_row(queue: SqlConnection, table: Table, row: tuple[Any, ...]) -> None:
    if table.name == "config" and row[0] in LOCAL:
        return
    values = {f"v{number}": value for number, value in enumerate(row)}
    words = queue.blocks("moving")["put"].format(
        table=table.name, columns=", ".join(table.columns), values=", ".join(f":{name}" for name in values)
    )
    queue.rows(words, values)


def _count_on(queue: SqlConnection, table: Table) -> None:
    """Make the next generated id follow the copied ones."""
    if table.name in ("workspaces", "trusted", "receipts"):
        with queue.writing():
            queue.rows(queue.blocks("moving")["after_copy"].format(table=table.name))


def _count_rows(queue: SqlConnection, table: str) -> int:
    return int(queue.rows(queue.blocks("moving")["count"].format(table=table))[0][0])


def _settings(queue: SqlConnection) -> dict[str, str]:
    return dict(queue.rows(queue.blocks("queries")["config"]))


def _set_config(queue: SqlConnection, key: str, value: str) -> None:
    with queue.writing():
        queue.rows(queue.blocks("queries")["set_config"], {"key": key, "value": value})


def _normalize_value(value: Any) -> Any:
    """Return a value in the form that all databases return."""
    if isinstance(value, float):
        return repr(value)
    return int(value) if isinstance(value, bool) else value
