"""Connections to PostgreSQL: a small pool for threads, a lock for writers, and errors in plain words."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import psycopg

from fleet.core.clock import EPOCH
from fleet.core.errors import SchemaMismatch, StoreAway, StoreFault
from fleet.store import named_sql
from fleet.store.postgres.link import connect, translate_error
from fleet.store.sqlite.connection import SCHEMA_VERSION

if TYPE_CHECKING:
    from datetime import datetime


#: This clock runs while a laptop sleeps, and cannot be set.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: A jump this large means that the clock was set. Drift between two reports and slow answers hardly reach it.
SET_MICROS = 1_000_000


class ServerClock:
    """A clock that adds the elapsed time to the server's last report."""

    def __init__(self) -> None:
        self._ahead: int | None = None  # how far the server's clock is ahead of our steady clock, in microseconds

    def is_set(self, micros: int) -> bool:
        """Return True if the reported time differs from the expected one because the server's clock was set."""
        return self._ahead is not None and abs(micros - _steady_micros() - self._ahead) > SET_MICROS

    def told(self, micros: int) -> None:
        """Adopt the time that the server just reported."""
        self._ahead = micros - _steady_micros()

    def now(self) -> datetime:
        """Return the server's time, accurate to the time an answer takes to arrive."""
        return EPOCH + timedelta(microseconds=_steady_micros() + (self._ahead or 0))


def _steady_micros() -> int:
    return time.clock_gettime_ns(_STEADY) // 1000


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import timedelta
    from typing import Any, TypeVar

    from fleet.store.postgres.link import PostgresLink

    T = TypeVar("T")

#: Number of idle connections kept. Few threads of a supervisor use the store.
MOST_IDLE = 4
#: An idle connection that fails this fast had already been closed. Another connection is tried at once.
AT_ONCE_SECONDS = 0.5
EMPTY = "check `queue`; run `fleet init --home --queue …` for a new database, or restore your backup"

_loaded: dict[str, dict[str, str]] = {}
#: This Unicode noncharacter begins the escape sequences for NUL and for itself.
_MARK, _NUL = "\ufdd0", "\0"
_VALUE = re.compile(r"(?<![:\w]):(\w+)")


class PostgresConnection:
    """A database that the threads of this process share. Each thread has its own transactions.

    One database lock makes writers take turns, as in SQLite. So data that a writer reads stays valid until it commits.
    Writers that are not `alone` share the lock: they run beside each other, but never beside a writer that is alone.
    """

    def __init__(self, url: str, *, patience: timedelta, make: bool = False, migrate: bool = False) -> None:
        self.clock = ServerClock()
        self._url = url
        self._patience = patience
        self._idle: list[PostgresLink] = []
        self._lock = threading.Lock()
        self._here = _Here()
        self._closed = False
        self._reached_since = time.monotonic()
        try:
            version = self._version()
            if version != SCHEMA_VERSION:
                self._prepare(version, make, migrate)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all idle connections. A second call does nothing."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def blocks(self, name: str) -> dict[str, str]:
        """Return the statements of one SQL file: SQLite's, with PostgreSQL's own where they differ."""
        if name not in _loaded:
            own = named_sql.load("postgres", name) if named_sql.has("postgres", name) else {}
            _loaded[name] = {**(named_sql.load("sqlite", name) if named_sql.has("sqlite", name) else {}), **own}
        return _loaded[name]

    def listed(self, texts: Iterable[str]) -> list[str]:
        return list(texts)

    def rows(self, sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and return all rows. Raises StoreAway, StoreFault."""
        here = self._here

        def call(link: PostgresLink) -> list[tuple[Any, ...]]:
            cursor = link.execute(in_postgres(sql), escape_values(values or {}))
            here.changes = cursor.rowcount
            return unescape_rows(cursor.fetchall()) if cursor.description else []

        return self._call_and_translate(call, here.link) if here.link is not None else self._call_on_any(call)

    def together(self, statements: Sequence[str], values: dict[str, Any]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of several reading statements, sent as one statement in one round trip."""
        blocks = self.blocks("connection")
        answers = ", ".join(blocks["answer"].format(statement=each) for each in statements)
        [found] = self.rows(blocks["together"].format(answers=answers), values)
        return [unescape_rows([tuple(row.values()) for row in rows]) for rows in found]

    def changes(self) -> int:
        return self._here.changes

    def writing(self, *, durable: bool = True, alone: bool = True) -> PostgresTransaction:
        """Return a write transaction. `durable` ones notify listeners. Only an `alone` one may rely on what it read.

        All of them reach the server's disk before they are acknowledged. Agents outlive a crash of the server, and a
        lost claim would give their tasks to others.
        """
        return PostgresTransaction(self, "begin_alone" if alone else "begin_beside", durable)

    def reading(self) -> PostgresTransaction:
        return PostgresTransaction(self, "begin_reading", durable=False)

    def link(self) -> PostgresLink:
        """Return a separate connection, for a listener. Raises StoreAway, StoreFault."""
        link = connect(self._url, self._patience)
        try:
            link.execute(self._script("opened", patience=max(1, int(self._patience.total_seconds() * 800))))
        except BaseException as error:
            link.close()
            if isinstance(error, psycopg.Error):
                raise translate_error(error) from error
            raise
        return link

    def reached_for(self) -> float:
        """Return for how many seconds the server has been reachable with a reliable clock.

        Counted from the latest of three events: the server's start, its last failure, and the last jump of its clock.
        """
        uptime = self._facts()[1] / 1e6
        reached = time.monotonic() - self._reached_since
        # after its clock was set back, the server seems to start in the future
        return reached if uptime < 0 else min(uptime, reached)

    def _script(self, name: str, **values: Any) -> bytes:
        return self.blocks("connection")[name].format(**values).encode()

    def _facts(self) -> tuple[int, int, str, bool]:
        def call(link: PostgresLink) -> tuple[int, int, str, bool]:
            found: tuple[int, int, str, bool] | None = link.execute(self._script("facts")).fetchone()
            assert found is not None
            self._adopt_time(found[0])
            return found

        return (
            self._call_and_translate(call, self._here.link) if self._here.link is not None else self._call_on_any(call)
        )

    def _adopt_time(self, micros: int) -> None:
        """Adopt the server's time. If its clock was set, claims may look expired, so their owners get time to renew."""
        if self.clock.is_set(micros):
            self._reached_since = time.monotonic()  # before any thread can see the new time
        self.clock.told(micros)

    def _version(self) -> int:
        *_, version, is_standby = self._facts()
        if is_standby:
            raise StoreAway("the database is a read-only standby", hint="set `queue` to its primary")
        return int(version) if version.isdigit() else 0

    def _prepare(self, version: int, make: bool, migrate: bool) -> None:
        if (version == 0 and make) or (0 < version < SCHEMA_VERSION and migrate):
            with self.writing():
                version = self._version()  # others may have prepared the database while we waited for the lock
                for number, script in named_sql.migrations("postgres"):
                    if number > version:
                        self._run_script(script.encode())
                        self._run_script(self._script("set_version", number=number))
        version = self._version()
        if version > SCHEMA_VERSION:
            raise SchemaMismatch(
                f"the database has schema {version}, this fleet knows {SCHEMA_VERSION}",
                hint="upgrade fleet: a newer version wrote the database",
            )
        if version < SCHEMA_VERSION:
            raise SchemaMismatch(
                f"the database has schema {version}, this fleet needs {SCHEMA_VERSION}",
                hint=EMPTY if version == 0 else "run `fleet run restart` to bring an older database up to date",
            )

    def _run_script(self, script: bytes) -> None:
        link = self._here.link
        assert link is not None
        self._call_and_translate(lambda held: held.execute(script), link)

    def _begin(self, how: str, durable: bool) -> None:
        here = self._here
        here.depth += 1
        if here.depth > 1:
            assert here.how != "begin_beside" or how != "begin_alone", (
                "an exclusive transaction must be exclusive from its start"
            )
            return
        here.how, here.durable = how, durable
        script = self._script(how)

        def call(link: PostgresLink) -> None:
            cursor = link.execute(script)
            while cursor.nextset():
                pass
            (now,) = cursor.fetchone() or (None,)
            assert now is not None
            self._adopt_time(now)
            here.link = link

        try:
            self._call_on_any(call, keep=True)
        except BaseException:
            here.depth, here.link = 0, None
            raise

    def _end(self, failed: bool) -> None:
        here = self._here
        here.depth -= 1
        if here.depth:
            return
        link, here.link = here.link, None
        assert link is not None
        words = "rollback" if failed else "commit"
        if not failed and here.durable and here.how != "begin_reading":
            words = self.blocks("connection")["told"]
        try:
            self._call_and_translate(lambda held: held.execute(words.encode()), link)
        except StoreFault:
            if not failed:  # otherwise the earlier error is reported
                raise
        finally:
            self._put_back(link)

    def _call_on_any(self, call: Callable[[PostgresLink], T], *, keep: bool = False) -> T:
        """Call `call` with an idle or a new connection. With `keep`, the connection stays in use."""
        began = time.monotonic()
        with self._lock:
            link = self._idle.pop() if self._idle else None
        if link is not None:
            try:
                return self._call_on_link(link, call, keep)
            except StoreAway:
                if time.monotonic() - began > AT_ONCE_SECONDS:
                    raise
                self._drop_idle()
        return self._call_on_link(self._open_link(), call, keep)

    def _call_on_link(self, link: PostgresLink, call: Callable[[PostgresLink], T], keep: bool) -> T:
        done = False
        try:
            answer = self._call_and_translate(call, link)
            done = True
            return answer
        finally:
            if not (done and keep):
                self._put_back(link)

    def _open_link(self) -> PostgresLink:
        with self._note_outages():
            return self.link()

    def _put_back(self, link: PostgresLink) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE and link.is_at_rest:
                self._idle.append(link)
                return
        link.close()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _call_and_translate(self, call: Callable[[PostgresLink], T], link: PostgresLink) -> T:
        with self._note_outages():
            try:
                return call(link)
            except psycopg.errors.ReadOnlySqlTransaction as error:
                link.close()  # the next connection may reach the new primary
                raise translate_error(error) from error
            except psycopg.Error as error:
                raise translate_error(error) from error

    @contextmanager
    def _note_outages(self) -> Iterator[None]:
        try:
            yield
        except StoreAway:  # others may not have got through either, whether the server was down or busy
            self._reached_since = time.monotonic()
            raise


class _Here(threading.local):
    """The state of one thread."""

    link: PostgresLink | None = None  # set while in a transaction
    depth = 0
    how = ""
    durable = True
    changes = 0


class PostgresTransaction:
    """An atomic block. A nested one is part of the outer one."""

    def __init__(self, connection: PostgresConnection, how: str, durable: bool) -> None:
        self._connection, self._how, self._durable = connection, how, durable

    def __enter__(self) -> None:
        self._connection._begin(self._how, self._durable)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._connection._end(kind is not None)


@lru_cache(maxsize=1024)
def in_postgres(sql: str) -> bytes:
    """Return a statement with psycopg placeholders, in which lists are read by our own function."""
    return _VALUE.sub(r"%(\1)s", sql.replace("%", "%%")).replace("json_each(", "each_of(").encode()


def escape_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return values that PostgreSQL can store. `unescape_rows` restores each text."""
    return {name: _escape_value(value) for name, value in values.items()}


def unescape_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows as they were before `escape_values`."""
    return [tuple(map(_unescape_value, row)) if any(map(_is_marked, row)) else row for row in rows]


def _escape_value(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)  # flags are numbers, as in SQLite
    if isinstance(value, list):
        return [_escape_value(each) for each in value]
    if isinstance(value, str) and (_NUL in value or _MARK in value):
        return value.replace(_MARK, _MARK + "1").replace(_NUL, _MARK + "0")
    return value


def _is_marked(value: Any) -> bool:
    return isinstance(value, str) and _MARK in value


def _unescape_value(value: Any) -> Any:
    return value.replace(_MARK + "0", _NUL).replace(_MARK + "1", _MARK) if _is_marked(value) else value
