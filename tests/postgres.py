"""A PostgreSQL server of the tests' own: in a folder that goes with it, on a socket nobody else has."""

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
from fleet.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: Where Debian puts the programs of each version, beside those on the PATH.
BINARIES = "/usr/lib/postgresql"
START_SECONDS = 60.0

_numbers = count(1)


class Server:
    """One server. It lives until the last test of this process, unless it is stopped before."""

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
        """How to reach one of its databases."""
        where = f"127.0.0.1:{self.port}/{database}" if self.host == "127.0.0.1" else f"/{database}?host={self.host}"
        return f"postgresql://fleet@{where}"

    def make_database(self) -> str:
        """A new empty database; its address."""
        name = f"test_{next(_numbers)}_{os.getpid()}"
        with psycopg.connect(self.url(), autocommit=True) as link:
            link.execute(f"create database {name}".encode())
        return self.url(name)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["-c", "max_connections=250", "-c", "shared_buffers=32MB", "-c", "max_wal_size=128MB"]
        words += ["-c", "dynamic_shared_memory_type=mmap"]  # in its folder: it may be killed
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
        """End it: at once, as a crash does, unless told otherwise."""
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(START_SECONDS)
        self._process = None

    def set_clock(self, ahead: str) -> None:
        """Let its clock show another time from now on, of one that was made for it: "+3600", "-3600"."""
        new = self.folder / "clock.new"
        new.write_text(f"{ahead}\n")
        new.replace(self.folder / "clock")

    @property
    def pid(self) -> int:
        """The process of the server itself."""
        assert self._process is not None
        return self._process.pid

    def remove(self) -> None:
        """End it, and remove all it had."""
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
    """Begins the command of a server whose clock is as a file says; the steady clocks stay as they are."""
    file.write_text("+0\n")
    steady = ("FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1")
    return ["env", f"LD_PRELOAD={faketime()}", f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_NO_CACHE=1", *steady]


@functools.cache
def faketime() -> str:
    """The library that sets the clock of a program; without it its tests are left out."""
    needs.require(shutil.which("faketime") and shutil.which("unshare"), "faketime")
    inside = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    told = subprocess.run([*inside, "faketime", "-f", "+0", "env"], capture_output=True, text=True, check=True).stdout
    return next(line.partition("=")[2] for line in told.splitlines() if line.startswith("LD_PRELOAD="))


def forget_dead_clocks() -> None:
    """Remove the files of faketime for processes that were killed: it does not start in a process with their number."""
    for path in leftovers.MEMORY.glob("*faketime_*"):
        if not Path("/proc", path.name.rpartition("_")[2]).exists():
            path.unlink(missing_ok=True)


@functools.cache
def server() -> Server:
    """The server of this process, started when a test first needs it; without PostgreSQL its tests are left out."""
    needs.require(_program("postgres") and _program("initdb"), "PostgreSQL")
    return Server()


@functools.cache
def shared_database() -> str:
    """One database for all tests that leave nothing behind but rows, made as `fleet init` makes it."""
    url = server().make_database()
    PostgresStore(url, make=True).close()
    return url


def emptied(url: str) -> str:
    """The same database without a row: cheaper than a new one by far."""
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
    """Without the server, for as long as the block takes."""
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
    """Whom to be, since PostgreSQL refuses to be root; empty where we are not."""
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
