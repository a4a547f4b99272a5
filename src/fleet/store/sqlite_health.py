"""Health checks of a SQLite file: its library, all its pages and its journal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw

from fleet.core.errors import StoreFault
from fleet.core.health import State, Vital
from fleet.store.sqlite_connection import RESTORE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.store.sqlite_connection import Connection

# Older versions can lose data that several processes write to a write-ahead log.
OLDEST_SQLITE = "3.51.3"
# SQLite writes the log back at about 4 MB. A log this large means that a reader keeps a snapshot open.
LARGEST_LOG_MB = 256
SHOWN = 3


def health(connection: Connection) -> list[Vital]:
    """Return all health checks of an open database. Unreadable parts are reported as wrong; nothing is raised."""
    return [library(apsw.sqlite_lib_version()), *_integrity(connection), *_journal(connection)]


def library(version: str) -> Vital:
    """Return a check of whether this SQLite version is safe for a file with several writing processes."""
    if _numbers(version) >= _numbers(OLDEST_SQLITE):
        return Vital(name="sqlite", state=State.OK, fact=f"SQLite {version}")
    fact = f"SQLite {version} can damage a database that several processes write"
    remedy = f"`pip install --upgrade apsw` brings {OLDEST_SQLITE} or newer."
    return Vital(name="sqlite", state=State.WRONG, fact=fact, remedy=remedy)


def _integrity(connection: Connection) -> Iterator[Vital]:
    try:
        faults = [str(row[0]) for row in connection.rows("pragma integrity_check(20)") if row[0] != "ok"]
        faults += [f"{row[0]} refers to nothing" for row in connection.rows("pragma foreign_key_check")]
    except StoreFault as error:
        faults = [f"the database cannot be read: {error}"]
    for fault in faults[:SHOWN]:
        yield Vital(name="integrity", state=State.WRONG, fact=fault, remedy=RESTORE)
    if not faults:
        yield Vital(name="integrity", state=State.OK, fact=connection.path)


def _journal(connection: Connection) -> Iterator[Vital]:
    try:
        mode = str(connection.rows("pragma journal_mode")[0][0])
    except StoreFault as error:
        yield Vital(name="journal", state=State.WRONG, fact=str(error), remedy=error.hint or RESTORE)
        return
    size = _size_mb(f"{connection.path}-wal")
    if mode != "wal":
        fact = f"the journal mode is {mode}, in which readers and writers stop each other"
        remedy = "stop the supervisor, then set `pragma journal_mode = wal` with any SQLite tool."
        yield Vital(name="journal", state=State.WRONG, fact=fact, remedy=remedy)
    elif size > LARGEST_LOG_MB:
        fact = f"the write-ahead log has {size:.0f} MB: somebody has been reading for very long"
        remedy = "end what has the database open; `fleet run restart` lets the supervisor go of it."
        yield Vital(name="journal", state=State.WARNING, fact=fact, remedy=remedy)
    else:
        yield Vital(name="journal", state=State.OK, fact=f"a write-ahead log of {size:.1f} MB")


def _size_mb(path: str) -> float:
    try:
        return os.stat(path).st_size / 2**20  # noqa: PTH116 - paths of the store are strings
    except OSError:
        return 0.0


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
