"""What could be wrong with the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from fleet.assembly import open_fleet
from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.home import Home

# An older one can lose what several processes write to a write-ahead log.
OLDEST_SQLITE = "3.51.3"
SHOWN = 3


def database(home: Home) -> Iterator[tuple[str, str, str, str]]:
    """Its library, its schema, and every page of it."""
    version = apsw.sqlite_lib_version()
    if _numbers(version) < _numbers(OLDEST_SQLITE):
        remedy = f"`pip install --upgrade apsw` brings {OLDEST_SQLITE} or newer."
        yield "sqlite", "wrong", f"SQLite {version} can damage a database that several processes write", remedy
    else:
        yield "sqlite", "ok", f"SQLite {version}", ""
    try:
        with open_fleet(home):
            yield "schema", "ok", "the one this fleet knows", ""
    except FleetError as error:
        yield "schema", "wrong", str(error), error.hint
    yield from _integrity(home.database)


def _integrity(path: str) -> Iterator[tuple[str, str, str, str]]:
    remedy = "keep a copy of the file, then restore your last `fleet bd export`."
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(5_000)
            faults = [str(row[0]) for row in connection.execute("pragma integrity_check(20)") if row[0] != "ok"]
            faults += [f"{row[0]} refers to nothing" for row in connection.execute("pragma foreign_key_check")]
        finally:
            connection.close()
    except apsw.Error as error:
        yield "integrity", "wrong", f"the database cannot be read: {error}", remedy
        return
    for fault in faults[:SHOWN]:
        yield "integrity", "wrong", fault, remedy
    if not faults:
        yield "integrity", "ok", path, ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
