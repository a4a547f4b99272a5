"""Health checks of a database file, and copies of it while others write."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

import apsw

from fleet.core.errors import StoreFault
from fleet.core.health import HealthCheck, HealthState
from fleet.store import named_sql
from fleet.store.sqlite.connection import RESTORE, SCHEMA_VERSION
from fleet.store.sqlite.file import check_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.store.sqlite.connection import SqliteConnection


# Older versions can lose data that several processes write to a write-ahead log.
OLDEST_SQLITE = "3.51.3"
# SQLite writes the log back at about 4 MB. A log this large means that a reader keeps a snapshot open.
LARGEST_LOG_MB = 256
SHOWN = 3


def health(connection: SqliteConnection) -> list[HealthCheck]:
    """Return all health checks of an open database. Unreadable parts are reported as wrong; nothing is raised."""
    return [library(apsw.sqlite_lib_version()), *_integrity(connection), *_journal(connection)]


def library(version: str) -> HealthCheck:
    """Return a check of whether this SQLite version is safe for a file with several writing processes."""
    if _numbers(version) >= _numbers(OLDEST_SQLITE):
        return HealthCheck(name="sqlite", state=HealthState.OK, fact=f"SQLite {version}")
    fact = f"SQLite {version} can damage a database that several processes write"
    remedy = f"run `pip install --upgrade apsw` to bring {OLDEST_SQLITE} or newer"
    return HealthCheck(name="sqlite", state=HealthState.WRONG, fact=fact, remedy=remedy)


def _integrity(connection: SqliteConnection) -> Iterator[HealthCheck]:
    try:
        faults = [str(row[0]) for row in connection.rows("pragma integrity_check(20)") if row[0] != "ok"]
        faults += [f"{row[0]} has a dangling reference" for row in connection.rows("pragma foreign_key_check")]
    except StoreFault as error:
        faults = [f"the database cannot be read: {error}"]
    for fault in faults[:SHOWN]:
        yield HealthCheck(name="integrity", state=HealthState.WRONG, fact=fault, remedy=RESTORE)
    if not faults:
        yield HealthCheck(name="integrity", state=HealthState.OK, fact=connection.path)


def _journal(connection: SqliteConnection) -> Iterator[HealthCheck]:
    try:
        mode = str(connection.rows("pragma journal_mode")[0][0])
    except StoreFault as error:
        yield HealthCheck(name="journal", state=HealthState.WRONG, fact=str(error), remedy=error.hint or RESTORE)
        return
    size = _size_mb(f"{connection.path}-wal")
    if mode != "wal":
        fact = f"the journal mode is {mode}, which makes readers and writers block each other"
        remedy = "stop the supervisor, then set `pragma journal_mode = wal` with any SQLite tool"
        yield HealthCheck(name="journal", state=HealthState.WRONG, fact=fact, remedy=remedy)
    elif size > LARGEST_LOG_MB:
        fact = f"the write-ahead log has {size:.0f} MB: a reader has been open for very long"
        remedy = "stop the programs that have the database open, or run `fleet run restart`"
        yield HealthCheck(name="journal", state=HealthState.WARNING, fact=fact, remedy=remedy)
    else:
        yield HealthCheck(name="journal", state=HealthState.OK, fact=f"a write-ahead log of {size:.1f} MB")


def _size_mb(path: str) -> float:
    try:
        return os.stat(path).st_size / 2**20  # noqa: PTH116 - paths of the store are strings
    except OSError:
        return 0.0


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def copy(source: str, target: str) -> None:
    """Copy a snapshot of a database into a new file with SQLite's backup API. Raises StoreFault."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        before, after = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READWRITE), apsw.Connection(target)
        with before, after, after.backup("main", before, "main") as copying:
            copying.step(-1)  # in one step: writers do not block it, and it cannot be forced to restart
        before.close()
        after.close()
    except apsw.Error as error:
        raise StoreFault(f"the database cannot be copied: {error}: {source}") from error


def check(path: str) -> None:
    """Raise StoreFault unless a file is a complete fleet database that this fleet can open or upgrade."""
    try:
        database = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        version = database.pragma("user_version")
        (found,) = list(database.execute("pragma quick_check(1)"))
        database.close()
    except apsw.Error as error:
        raise StoreFault(f"the database in the backup cannot be read: {error}") from error
    if found != ("ok",) or not 0 < version <= SCHEMA_VERSION:
        why = f"schema {version}, this fleet knows {SCHEMA_VERSION}" if found == ("ok",) else found[0]
        raise StoreFault(f"the database in the backup cannot be used: {why}")


def check_owner(path: str) -> None:
    """Raise ForeignDatabase for a database of another program, without changing a byte in its folder."""
    try:
        tables = _tables(f"file:{_quote_path(path)}?immutable=1")  # without the log, which SQLite would write back
        if not tables and os.path.exists(f"{path}-wal"):  # noqa: PTH110
            tables = _tables_of_copy(path)
    except (apsw.Error, OSError):  # an absent or unreadable file is reported when it is opened
        return
    check_tables(path, tables)


def _tables(uri: str) -> list[str]:
    with contextlib.closing(apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)) as database:
        return [name for (name,) in database.execute(named_sql.load("sqlite", "file")["tables"])]


def _tables_of_copy(path: str) -> list[str]:
    """Read a copy of a database and its log in a temporary folder. A killed program may leave all data in the log."""
    with tempfile.TemporaryDirectory() as folder:
        for end in ("", "-wal"):
            shutil.copyfile(path + end, f"{folder}/copy{end}")
        return _tables(f"file:{_quote_path(folder)}/copy")


def _quote_path(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
