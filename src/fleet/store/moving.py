"""All rows of one database copied to another: in parts, so that a kill costs one of them, and compared in the end.

Every database of fleet has the same tables with the same columns; SQLite's own migrations say which.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import apsw

from fleet.core.errors import StoreFault
from fleet.core.jsontext import decode, encode
from fleet.core.unique import new_uuid
from fleet.store import named_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fleet.store.sql_connection import SqlConnection

PART = 500
EVENTS = ("insert", "update", "delete")
#: Settings of a queue about itself: its name, and how far a copy into it has come.
NAME, STATE = "fleet.queue_id", "fleet.moving"
#: Settings that say something about one place and mean nothing in another.
LOCAL = (STATE, "fleet.beads_seen", "fleet.beads_program", "fleet.beads_owner", "fleet.beads_settings")


class Table(NamedTuple):
    """A table, and the columns that tell its rows apart."""

    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]


class Contents(NamedTuple):
    """How many rows a table has, and a sum over them that does not depend on their order."""

    rows: int
    sum: str


def tables() -> list[Table]:
    """Every table, those that others refer to first."""
    sql, schema, found = named_sql.load("sqlite", "moving"), apsw.Connection(":memory:"), []
    for _, script in named_sql.migrations("sqlite"):
        schema.execute(script)
    for (name,) in list(schema.execute(sql["tables"])):
        told = list(schema.execute(sql["columns"], {"table": name}))
        keys = sorted((order, column) for column, order in told if order)
        found.append(Table(name, tuple(column for column, _ in told), tuple(column for _, column in keys)))
    return found


def name_of(queue: SqlConnection) -> str:
    """What tells this queue's contents from those of any other, wherever they are copied to."""
    known = _settings(queue).get(NAME)
    if known is None:
        known = new_uuid()
        _set(queue, NAME, known)
    return known


def state_of(queue: SqlConnection) -> dict[str, Any]:
    """How far a copy into this queue has come; nothing where none is under way."""
    found: dict[str, Any] = decode(_settings(queue).get(STATE, "{}"))
    return found


def is_named(queue: SqlConnection, name: str) -> bool:
    """Whether this queue has the contents of that name, whole."""
    return _settings(queue).get(NAME) == name and state_of(queue).get("whole", True)


def is_empty(queue: SqlConnection) -> bool:
    """Whether there is no task in it, and never was one that ran."""
    return _count(queue, "tasks") == _count(queue, "runs") == 0


def is_sealed(queue: SqlConnection) -> bool:
    """Whether its contents were moved elsewhere."""
    return bool(queue.rows(queue.blocks("moving")["is_sealed"])[0][0])


def copy(source: SqlConnection, target: SqlConnection, tell: Callable[[str, int], None]) -> dict[str, Contents]:
    """Copy all rows, going on where an earlier copy of the same contents stopped; what the source has.

    A table that changed in the source since is emptied at the target and copied anew. `tell` hears of each part.
    Call it with the source's lock: nobody else may write there until the end. Raises StoreFault.
    """
    name, state = name_of(source), state_of(target)
    if state.get("of") != name:
        state = {"of": name, "done": [], "after": None}
    state = {**state, "whole": False}
    found = {}
    for table in tables():
        if table.name not in state["done"]:
            for rows in _parts(source, table, state["after"]):
                state = {**state, "after": [rows[-1][table.columns.index(key)] for key in table.keys]}
                _put_part(target, table, rows, state, tell)
            state = {**state, "done": [*state["done"], table.name], "after": None}
        found[table.name] = _mended(source, target, table, state, tell)  # at once: others refer to what is there
    return found


def finish(target: SqlConnection, settle_in: Callable[[], None] | None = None) -> None:
    """Say that the copy is whole, in one transaction with what has to be done for it to mean the same there.

    Until `let_go` it counts as a copy: called again, it is compared and done anew.
    """
    with target.writing():
        if settle_in is not None:
            settle_in()
        _set(target, STATE, encode({**state_of(target), "whole": True}))


def let_go(target: SqlConnection) -> None:
    """Have the copy be a queue like any other: its source is sealed."""
    with target.writing():
        target.rows(target.blocks("queries")["unset_config"], {"key": STATE})


def take_time(queue: SqlConnection) -> None:
    """Have the open transaction last as long as what others are told meanwhile: a database may end idle ones."""
    words = queue.blocks("moving").get("take_time")
    if words is not None:
        queue.rows(words)


def trust_again(queue: SqlConnection, before: str, after: str) -> None:
    """What is trusted at a path under the first word is so under the second too."""
    queue.rows(queue.blocks("moving")["trust_again"], {"before": before, "after": after})


def bind(queue: SqlConnection, bound: Callable[[str], str]) -> None:
    """Have the tasks that are about a directory, and cannot travel, require what is made of what they require."""
    sql = queue.blocks("moving")
    for (before,) in queue.rows(sql["requirements"]):
        queue.rows(sql["bind"], {"before": before, "after": bound(before)})


def contents(queue: SqlConnection) -> dict[str, Contents]:
    return {table.name: _contents(queue, table) for table in tables()}


def seal(queue: SqlConnection) -> None:
    """Keep whoever still has it open from writing to it."""
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
    """Rename everything, so that the place is empty and nothing is lost. Raises StoreFault where that is not to be."""
    words = queue.blocks("moving").get("set_aside")
    if words is None:
        raise StoreFault("this queue cannot be set aside", hint="move its file away by hand.")
    with queue.writing():
        queue.rows(words.format(stamp=stamp))


def _parts(queue: SqlConnection, table: Table, after: list[Any] | None) -> Iterator[list[tuple[Any, ...]]]:
    keys = ", ".join(table.keys)
    while True:
        slots = ", ".join(f":after{number}" for number in range(len(table.keys)))
        words = queue.blocks("moving")["page"].format(
            columns=", ".join(table.columns),
            table=table.name,
            after=f"where ({keys}) > ({slots})" if after else "",
            keys=keys,
        )
        values = {f"after{number}": value for number, value in enumerate(after or ())}
        rows = queue.rows(words, values | {"limit": PART})
        if rows:
            yield rows
        if len(rows) < PART:
            return
        after = [rows[-1][table.columns.index(key)] for key in table.keys]


def _contents(queue: SqlConnection, table: Table) -> Contents:
    total, count = 0, 0
    for rows in _parts(queue, table, None):
        for row in rows:
            if table.name == "config" and row[0] in LOCAL:
                continue
            count += 1
            total ^= int.from_bytes(hashlib.sha256(encode(list(map(_plain, row))).encode()).digest(), "big")
    return Contents(count, f"{total:064x}")


def _mended(
    source: SqlConnection, target: SqlConnection, table: Table, state: dict[str, Any], tell: Callable[[str, int], None]
) -> Contents:
    """What a table of the source holds, once the target's is like it."""
    found = _contents(source, table)
    if found != _contents(target, table):
        with target.writing():
            _empty(target, table)
        for rows in _parts(source, table, None):
            _put_part(target, table, rows, state, tell)
    if "id" in table.keys and "after_copy" in target.blocks("moving"):
        _count_on(target, table)
    return found


def _empty(queue: SqlConnection, table: Table) -> None:
    """Take every row out, and with tasks what belongs to them; what this place says of itself stays."""
    if table.name != "config":
        queue.rows(queue.blocks("moving")["empty"].format(table=table.name))
        return
    for key in set(_settings(queue)) - set(LOCAL):
        queue.rows(queue.blocks("queries")["unset_config"], {"key": key})


def _put_part(
    target: SqlConnection,
    table: Table,
    rows: list[tuple[Any, ...]],
    state: dict[str, Any],
    tell: Callable[[str, int], None],
) -> None:
    with target.writing():
        for row in rows:
            _put(target, table, row)
        _set(target, STATE, encode(state))
    tell(table.name, len(rows))


def _put(queue: SqlConnection, table: Table, row: tuple[Any, ...]) -> None:
    if table.name == "config" and row[0] in LOCAL:
        return
    values = {f"v{number}": value for number, value in enumerate(row)}
    words = queue.blocks("moving")["put"].format(
        table=table.name, columns=", ".join(table.columns), values=", ".join(f":{name}" for name in values)
    )
    queue.rows(words, values)


def _count_on(queue: SqlConnection, table: Table) -> None:
    """Have the next number that is given out be a new one."""
    if table.name in ("workspaces", "trusted", "receipts"):
        with queue.writing():
            queue.rows(queue.blocks("moving")["after_copy"].format(table=table.name))


def _count(queue: SqlConnection, table: str) -> int:
    return int(queue.rows(queue.blocks("moving")["count"].format(table=table))[0][0])


def _settings(queue: SqlConnection) -> dict[str, str]:
    return dict(queue.rows(queue.blocks("queries")["config"]))


def _set(queue: SqlConnection, key: str, value: str) -> None:
    with queue.writing():
        queue.rows(queue.blocks("queries")["set_config"], {"key": key, "value": value})


def _plain(value: Any) -> Any:
    """A value as every database gives it back."""
    if isinstance(value, float):
        return repr(value)
    return int(value) if isinstance(value, bool) else value
