"""A whole copy of a database file, made while others write to it; and whether a file is a sound database."""

import os

import apsw

from fleet.core.errors import StoreFault
from fleet.store.sqlite_connection import SCHEMA_VERSION


def copy(source: str, target: str) -> None:
    """Copy a database as it is at one moment into a new file, by SQLite's own means. Raises StoreFault."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        before, after = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READWRITE), apsw.Connection(target)
        with before, after, after.backup("main", before, "main") as copying:
            copying.step(-1)  # in one step: writers are not kept waiting, and cannot have it begin again
        before.close()
        after.close()
    except apsw.Error as error:
        raise StoreFault(f"the database cannot be copied: {error}: {source}") from error


def check(path: str) -> None:
    """Raise StoreFault unless a file is a whole fleet database that this fleet can open or bring up to date."""
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
