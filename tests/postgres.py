"""A PostgreSQL server for the tests, in a temporary folder, on its own socket."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

import leftovers
import needs
from fleet.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: The folder in which Debian puts the programs of each version, besides those on the PATH.
BINARIES = "/usr/lib/postgresql"
START_SECONDS = 60.0

_numbers = count(1)


class Server:
    """One server. It lives until the last test of this process, or until it is stopped."""

    def __init__(self, *, tcp: bool = False, on_disk: bool = False, faked: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fleet-pg-", dir=None if on_disk else leftovers.memory_folder()))
        self.user = _unprivileged()
        self.host, self.port = str(self.folder), 5432
        if tcp:
            self.host, self.port = "127.0.0.1", _free_port()
        self._data = self.folder / "data"
        self._start = [*_with_a_clock(self.folder / "clock"), _program("postgres")] if faked else [_program("postgres")]
        self._process: subprocess.Popen[bytes] | None = None
        if self.user:
            os.chown(self.folder, *_ids(self.user))
        self._call(
            "initdb", "-D", str(self._data), "-U", "fleet", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        leftovers.at_end.callback(self.remove)
        self.start()

    def url(self, database: str = "postgres") -> str:
        where = f"127.0.0.1:{self.port}/{database}" if self.host == "127.0.0.1" else f"/{database}?host={self.host}"
        return f"postgresql://fleet@{where}"

    def make_database(self) -> str:
        """Create an empty database. Return its URL."""
        name = f"test_{next(_numbers)}_{os.getpid()}"
        with psycopg.connect(self.url(), autocommit=True) as link:
            link.execute(f"create database {name}".encode())
        return self.url(name)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        words = ["-c", "max_connections=250", "-c", "shared_buffers=32MB", "-c", "max_wal_size=128MB"]
        words += ["-c", "dynamic_shared_memory_type=mmap"]  # in its folder, because the server may be killed
        words += ["-c", f"port={self.port}", "-c", f"unix_socket_directories={self.folder}"]
        words += ["-c", f"listen_addresses={self.host if self.host == '127.0.0.1' else ''}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._start, "-D", str(self._data), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._as_user(),
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server, by default at once, as a crash does."""
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(START_SECONDS)
        self._process = None

    def set_clock(self, ahead: str) -> None:
        """Set the clock of a server made with `faked`, for example to "+3600" or "-3600"."""
        new = self.folder / "clock.new"
        new.write_text(f"{ahead}\n")
        new.replace(self.folder / "clock")

    @property
    def pid(self) -> int:
        """Return the process id of the server."""
        assert self._process is not None
        return self._process.pid

    def remove(self) -> None:
        """Stop the server, and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        forget_dead_clocks()

    def _call(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [_program(name), *words], capture_output=True, cwd=self.folder, timeout=120, **self._as_user()
        )
        assert done.returncode == 0, done.stderr.decode()

    def _as_user(self) -> dict[str, Any]:
        return {"user": self.user, "group": _ids(self.user)[1], "extra_groups": []} if self.user else {}


def _with_a_clock(file: Path) -> list[str]:
    """Return the start of the command of a server whose clock follows a file; the steady clocks stay real."""
    file.write_text("+0\n")
    steady = ("FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1")
    return ["env", f"LD_PRELOAD={faketime()}", f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_NO_CACHE=1", *steady]


@functools.cache
def faketime() -> str:
    """Return the library that sets the clock of a program. Skips the test if faketime is missing."""
    needs.require(shutil.which("faketime") and shutil.which("unshare"), "faketime")
    inside = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    told = subprocess.run([*inside, "faketime", "-f", "+0", "env"], capture_output=True, text=True, check=True).stdout
    return next(line.partition("=")[2] for line in told.splitlines() if line.startswith("LD_PRELOAD="))


def forget_dead_clocks() -> None:
    """Remove files of faketime of killed processes: it does not start in a process that reuses their id."""
    for path in leftovers.MEMORY.glob("*faketime_*"):
        if not Path("/proc", path.name.rpartition("_")[2]).exists():
            path.unlink(missing_ok=True)


@functools.cache
def server() -> Server:
    """Return the server of this process, started when first needed. Skips the test if PostgreSQL is missing."""
    needs.require(_program("postgres") and _program("initdb"), "PostgreSQL")
    return Server()


@functools.cache
def shared_database() -> str:
    """Return one database, made as `fleet init` makes it, for all tests that leave only rows behind."""
    url = server().make_database()
    PostgresStore(url, make=True).close()
    return url


def emptied(url: str) -> str:
    """Remove all rows of the database, which is much cheaper than a new one. Return its URL."""
    link, script = _broom(url)
    link.execute(script)
    return url


@functools.cache
def _broom(url: str) -> tuple[psycopg.Connection[tuple[str]], bytes]:
    link: psycopg.Connection[tuple[str]] = psycopg.connect(url, autocommit=True)
    leftovers.at_end.callback(link.close)
    found = link.execute("select tablename from pg_tables where schemaname = 'fleet'").fetchall()
    return link, ";".join(f"delete from fleet.{name}" for (name,) in found).encode()


@contextlib.contextmanager
def stopped(which: Server) -> Iterator[None]:
    """Stop the server for the duration of the block."""
    which.stop()
    try:
        yield
    finally:
        which.start()


def _program(name: str) -> str:
    found = shutil.which(name)
    if found:
        return found
    versions = sorted(Path(BINARIES).glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    return str(versions[-1]) if versions else ""


def _unprivileged() -> str:
    """Return the user for PostgreSQL, which refuses to run as root; "" if this process is not root."""
    if os.geteuid() != 0:
        return ""
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _ids(user: str) -> tuple[int, int]:
    found = pwd.getpwnam(user)
    return found.pw_uid, found.pw_gid


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
