"""Operations on a database file without a store: copying it while others write, checking it, and checking its owner."""

import contextlib
import os
import shutil
import tempfile

import apsw

from fleet.core.errors import StoreFault
from fleet.store import named_sql
from fleet.store.sqlite_connection import SCHEMA_VERSION
from fleet.store.sqlite_file import check_tables


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
        tables = _tables(f"file:{_quoted(path)}?immutable=1")  # without the log, which SQLite would write back
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
        return _tables(f"file:{_quoted(folder)}/copy")


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
