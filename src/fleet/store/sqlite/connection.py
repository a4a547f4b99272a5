"""One connection to the SQLite file: transactions that wait for their turn, errors in plain words, migrations."""

from __future__ import annotations

import contextlib
import os
import time

import apsw

from fleet.core.errors import ForeignDatabase, QueueMoved, SchemaMismatch, StoreFault, StoreHindered
from fleet.core.jsontext import encode
from fleet.files import flush_folder
from fleet.store import named_sql
from fleet.store.sqlite.file import FileId, check_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Any

PATIENCE_MS, RESCUE_PATIENCE_MS = 60_000, 1_000
_loaded: dict[str, dict[str, str]] = {}
SCHEMA_VERSION = 11
#: Suffix of the copy that is made before an upgrade. The number of the old schema follows.
BACKUP = ".schema-"
#: The setting that holds the old schema number during an upgrade.
UPGRADING = "fleet.upgrading_from"
PAGES_AT_ONCE = 4096
RESTORE = "run `fleet restore FILE` with your last backup; fleet keeps the damaged file"


class SqliteConnection:
    """A database file, opened by one thread of one process.

    `check_new` may refuse a new or empty file. If the path leads to another file later, all reads and writes raise: the
    writes of others would be invisible here.
    """

    def __init__(
        self,
        path: str,
        *,
        make: bool = False,
        migrate: bool = False,
        check_new: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        is_new = make and not os.path.exists(path)  # noqa: PTH110
        if is_new:
            check_new()
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._file = FileId(path)
        self._depth = 0
        self._durable = True
        try:
            self._db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
            self._db.set_busy_timeout(PATIENCE_MS)
            self._db.pragma("foreign_keys", True)
            version = self._db.pragma("user_version")
            self._refuse_foreign()
        except apsw.Error as error:
            raise self._fault(error) from error
        if version == 0 and not is_new:
            check_new()
        if version != SCHEMA_VERSION:
            self._prepare(version, make, migrate)
        self._file.hold_log()

    def close(self) -> None:
        """Close the file. A second call does nothing.

        A log that was removed is not written into the file, because it would overwrite newer changes of others.
        """
        if not self._file.has_log:
            with contextlib.suppress(apsw.ConnectionClosedError):
                self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._db.close()

    def rows(self, sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if not self._depth:
            self._file.confirm()
        try:
            return list(self._db.execute(sql, values))
        except apsw.Error as error:
            raise self._fault(error) from error

    def together(self, statements: Sequence[str], values: dict[str, Any]) -> list[list[tuple[Any, ...]]]:
        with self.reading():
            return [self.rows(statement, values) for statement in statements]

    def changes(self) -> int:
        return self._db.changes()

    def blocks(self, name: str) -> dict[str, str]:
        return _loaded.get(name) or _loaded.setdefault(name, named_sql.load("sqlite", name))

    def listed(self, texts: Iterable[str]) -> str:
        return encode(list(texts))

    def writing(self, *, durable: bool = True, alone: bool = True) -> SqliteTransaction:
        """Return a write transaction, of which only one runs at a time.

        A `durable` one reaches the disk before it is acknowledged. `alone` has no effect here. It is for databases with
        several writers at once.
        """
        return SqliteTransaction(self, "begin immediate", durable)

    def reading(self) -> SqliteTransaction:
        return SqliteTransaction(self, "begin", self._durable)

    def add_function(self, name: str, call: Any) -> None:
        self._db.create_scalar_function(name, call, deterministic=True)

    def migrate(self, steps: list[tuple[int, str]]) -> None:
        """Run schema migrations, one transaction per step, so that a kill leaves a complete version."""
        # A step that rebuilds a table drops the old one, which would delete all rows that refer to it.
        self.rows("pragma foreign_keys = off")
        try:
            for step in steps:
                with self.writing():
                    self._migrate_one(*step)
        finally:
            self.rows("pragma foreign_keys = on")

    def _migrate_one(self, number: int, script: str) -> None:
        if self._version() >= number:
            return
        self.rows(script)
        if self.rows("pragma foreign_key_check"):
            raise StoreFault(f"schema {number} would leave rows with dangling references: {self.path}")
        self.rows(f"pragma user_version = {number}")

    def _version(self) -> int:
        return int(self.rows("pragma user_version")[0][0])

    def _prepare(self, version: int, make: bool, migrate: bool) -> None:
        if version == 0 and make:
            self._use_log()
            with self.writing():  # creating a database is one transaction, however many migrations exist
                self.migrate(named_sql.migrations("sqlite"))
        elif 0 < version < SCHEMA_VERSION and migrate:
            self._back_up()
            self.migrate(named_sql.migrations("sqlite"))
            self.rows(self.blocks("queries")["unset_config"], {"key": UPGRADING})
        version = self._version()  # others may have upgraded the database meanwhile
        if version > SCHEMA_VERSION:
            raise SchemaMismatch(
                f"{self.path} has schema {version}, this fleet knows {SCHEMA_VERSION}", hint=self._hint_restore()
            )
        if version == 0:
            raise SchemaMismatch(f"the database is empty or does not belong to fleet: {self.path}", hint=RESTORE)
        if version < SCHEMA_VERSION:
            raise SchemaMismatch(
                f"{self.path} has schema {version}, this fleet needs {SCHEMA_VERSION}",
                hint="run `fleet run restart` to bring an older database up to date",
            )

    def _use_log(self) -> None:
        """Switch to a write-ahead log. SQLite itself does not wait for others that switch at the same time."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while True:
            try:
                self._db.execute("pragma journal_mode = wal")
                return
            except apsw.Error as error:
                if not isinstance(error, apsw.BusyError) or time.monotonic() > deadline:
                    raise self._fault(error) from error
            time.sleep(0.01)

    def _back_up(self) -> None:
        """Copy the database once per upgrade, even if the upgrade is killed and restarted, and delete older copies."""
        sql = self.blocks("queries")
        with self.writing():  # other upgrading processes wait here and find the upgrade done
            version = self._version()
            copy, begun = f"{self.path}{BACKUP}{version}", self.rows(sql["setting"], {"key": UPGRADING})
            if version >= SCHEMA_VERSION or (begun and os.path.exists(f"{self.path}{BACKUP}{begun[0][0]}")):  # noqa: PTH110
                return
            draft = f"{copy}.new"
            try:
                self._copy(draft)
                os.replace(draft, copy)  # noqa: PTH105
                flush_folder(os.path.dirname(copy))  # noqa: PTH120
            except (apsw.Error, OSError) as error:
                raise _make_copy_fault(error, copy) from error
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(draft)  # noqa: PTH108
            self.rows(sql["set_config"], {"key": UPGRADING, "value": str(version)})
        for other in backups(self.path):
            if other != copy:
                os.unlink(other)  # noqa: PTH108

    def _copy(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # left by an upgrade that was killed
            os.unlink(path)  # noqa: PTH108
        # Our own connection holds the lock, so SQLite cannot read through it for a copy.
        source = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            self._copy_to(path, source)
        finally:
            source.close()

    def _copy_to(self, path: str, source: apsw.Connection) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with copy.backup("main", source, "main") as running:
                while not running.done:
                    running.step(PAGES_AT_ONCE)
        finally:
            copy.close()

    def _hint_restore(self) -> str:
        """Return the hint for a database that a newer fleet has upgraded."""
        newer = "upgrade fleet: a newer version wrote the database"
        copy = f"{self.path}{BACKUP}{SCHEMA_VERSION}"
        if not os.path.exists(copy):  # noqa: PTH110
            return f"{newer}."
        back = f"rm -f {self.path}-wal {self.path}-shm && cp {copy} {self.path}"
        return f"{newer}; or stop fleet and run `{back}` to return to the earlier backup"

    @property
    def id(self) -> str:
        """Return the device and inode of the file."""
        return str(self._file)

    def confirm(self) -> None:
        """Raise DatabaseReplaced unless the path still leads to the open file."""
        self._file.confirm()

    @property
    def log(self) -> str:
        """Return the device and inode of each file of the log."""
        return self._file.log

    def take_in_log(self) -> bool:
        """Write a removed log into the file unless another log was started. Return True if no change is missing."""
        if not self._file.is_ours:
            return False
        if self._file.keeps_changes:  # only the log's index is gone, and SQLite rebuilds it
            return True
        with contextlib.suppress(apsw.Error):
            self._db.set_busy_timeout(RESCUE_PATIENCE_MS)
            return self._file.is_free and self._db.execute("pragma wal_checkpoint(truncate)").fetchall()[0][0] == 0
        return False

    def rescue(self, path: str) -> None:
        """Copy the open file with its whole log to a new file, even if its path leads elsewhere."""
        is_cut = self._file.is_ours
        try:
            if is_cut:  # its log may hold pages that the file has lost
                self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._copy_to(path, self._db)
            if is_cut:
                _refuse_damaged(path)
                return
            self._db.set_busy_timeout(RESCUE_PATIENCE_MS)
            # otherwise SQLite would use the log for another file
            self._db.execute("pragma wal_checkpoint(truncate)").fetchall()
        except apsw.Error as error:
            raise _translate_error(error, path) from error

    def _refuse_foreign(self) -> None:
        """Raise ForeignDatabase for another program's database, and leave its log unchanged."""
        try:
            check_tables(self.path, [name for (name,) in self._db.execute(self.blocks("file")["tables"])])
        except ForeignDatabase:
            with contextlib.suppress(OSError):
                if os.stat(f"{self.path}-wal").st_size:  # noqa: PTH116
                    self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._db.close()
            raise

    def _fault(self, error: apsw.Error) -> StoreFault:
        """Return the exception for an error. Raises DatabaseReplaced if the file was replaced meanwhile."""
        self._file.confirm()
        return _translate_error(error, self.path)

    def _begin(self, how: str, durable: bool) -> None:
        if not self._depth:
            self._file.confirm()
        self._depth += 1
        if self._depth > 1:
            return
        try:
            if durable != self._durable:
                self._db.pragma("synchronous", "full" if durable else "normal")
                self._durable = durable
            self._db.execute(how)
        except apsw.Error as error:
            self._depth = 0
            raise self._fault(error) from error

    def _end(self, failed: bool) -> None:
        self._depth -= 1
        if self._depth:
            return
        try:
            self._db.execute("rollback" if failed else "commit")
        except apsw.Error as error:
            if self._db.in_transaction:
                self._db.execute("rollback")
            if not failed:
                raise self._fault(error) from error


def backups(path: str) -> list[str]:
    """Return the copies of a database that upgrades made."""
    folder, name = os.path.split(path)
    found = [each for each in os.listdir(folder) if each.startswith(name + BACKUP)]  # noqa: PTH208
    return [os.path.join(folder, each) for each in found if each[len(name + BACKUP) :].isdigit()]  # noqa: PTH118


def _make_copy_fault(error: apsw.Error | OSError, copy: str) -> StoreFault:
    why = error.strerror if isinstance(error, OSError) else str(error)
    hint = "free some space for a copy of the database and try again; nothing was changed"
    return StoreHindered(f"the database cannot be copied to {copy} before its upgrade: {why}", hint=hint)


class SqliteTransaction:
    """An atomic block. A nested one is part of the outer one."""

    def __init__(self, connection: SqliteConnection, how: str, durable: bool) -> None:
        self._connection, self._how, self._durable = connection, how, durable

    def __enter__(self) -> None:
        self._connection._begin(self._how, self._durable)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection._end(kind is not None)


def _refuse_damaged(path: str) -> None:
    """Remove a copy and raise StoreFault if the copy lacks pages that its file had lost."""
    is_whole = False
    with contextlib.suppress(apsw.Error), contextlib.closing(apsw.Connection(path)) as copy:
        is_whole = copy.pragma("quick_check") == "ok"
    if not is_whole:
        os.unlink(path)  # noqa: PTH108
        raise StoreFault(f"pages that only the file had are lost: {path}")


def _translate_error(error: apsw.Error, path: str) -> StoreFault:
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_TRIGGER:  # only the triggers of a seal raise
        return QueueMoved()
    if isinstance(error, apsw.CantOpenError) and not os.path.lexists(path):
        return StoreFault(f"no database at {path}", hint="run `fleet init` to create it")
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError) and _is_read_only(path):
        return StoreHindered(
            f"the disk of the database is read-only: {path}", hint="mount the disk writable, then try again"
        )
    for kind, fact, hint in _FAULTS:
        if isinstance(error, kind):
            fault = StoreHindered if issubclass(kind, _HINDRANCES) else StoreFault
            return fault(f"{fact}: {path}", hint=hint)
    return StoreFault(f"the database refused: {error}: {path}")


def _is_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


_HINDRANCES = (apsw.FullError, apsw.BusyError, apsw.ReadOnlyError, apsw.IOError)
_FAULTS: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.FullError, "no room left on the disk of the database", "free some space and try again; nothing was changed"),
    (apsw.BusyError, "the database was locked for a minute", "try again: another process holds the lock"),
    (apsw.ReadOnlyError, "the database cannot be written", "check the owner and mode of the file and its folder"),
    (apsw.CantOpenError, "the database cannot be opened", "check the owner and mode of the file and its folder"),
    (apsw.NotADBError, "not a fleet database, or a damaged one", RESTORE),
    (apsw.CorruptError, "the database is damaged", RESTORE),
    (apsw.IOError, "the disk of the database failed", "check the disk and try again; nothing was changed"),
)
