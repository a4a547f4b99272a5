"""Whose database lies in a folder that fleet has not made, found out without touching it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

import apsw

from fleet.store import named_sql
from fleet.store.sqlite_file import check_tables


def check_owner(path: str) -> None:
    """Raise ForeignDatabase for a database of another program, without changing a byte in its folder."""
    try:
        tables = _tables(f"file:{_quoted(path)}?immutable=1")  # without the log, which SQLite would write back
        if not tables and os.path.exists(f"{path}-wal"):  # noqa: PTH110
            tables = _tables_of_copy(path)
    except (apsw.Error, OSError):  # absent, or not to be read: opening it says why
        return
    check_tables(path, tables)


def _tables(uri: str) -> list[str]:
    with contextlib.closing(apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)) as database:
        return [name for (name,) in database.execute(named_sql.load("sqlite", "file")["tables"])]


def _tables_of_copy(path: str) -> list[str]:
    """Read a database with its log in a folder of our own: a killed program leaves all of it in the log."""
    with tempfile.TemporaryDirectory() as folder:
        for end in ("", "-wal"):
            shutil.copyfile(path + end, f"{folder}/copy{end}")
        return _tables(f"file:{_quoted(folder)}/copy")


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
