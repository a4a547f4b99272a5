"""Access to a run's folder: its exit record, and the connection to its shim's control socket."""

import contextlib
import json
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.agents.lock import is_locked
from fleet.core.errors import FleetError
from fleet.core.outcome import Exit

if TYPE_CHECKING:
    import asyncio

VERSION = 1
#: A shim sends its greeting in milliseconds, but a machine may be very busy.
GREETING_SECONDS = 15.0
#: The socket's path must fit an address: 108 bytes on Linux, 104 on macOS.
LONGEST_NAME = 100


class ShimConnection(NamedTuple):
    """A connection, and the state from the shim's greeting."""

    reader: "asyncio.StreamReader"
    writer: "asyncio.StreamWriter"
    state: dict[str, Any]

    @property
    def age_seconds(self) -> float | None:
        """Return the agent's age at the greeting. Return None if an older shim does not report it."""
        age = self.state.get("age")
        return float(age) if isinstance(age, int | float) else None

    @property
    def frozen_seconds(self) -> float:
        """Return how long the agent had been frozen at the greeting."""
        frozen = self.state.get("frozen")
        return float(frozen) if isinstance(frozen, int | float) else 0.0


def read_exit(folder: str) -> Exit | None:
    try:
        return exit_of(json.loads(Path(folder, "exit.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def exit_of(values: dict[str, Any]) -> Exit:
    """Return a shim's exit record. Fields of newer shims are ignored."""
    told = {name: values[name] for name in Exit._fields if name in values}
    return Exit(**told | {"apart": tuple(map(str, told.get("apart", ())))})


async def connect(folder: str, sock: socket.socket) -> ShimConnection | None:
    """Connect and read the greeting. Return None if no shim listens. The socket is closed unless the link holds it.

    Raises FleetError if the shim has another protocol version.
    """
    import asyncio

    sock.setblocking(False)
    try:
        with short_name(folder) as name:
            while not _connected(sock, name):  # noqa: ASYNC110 - the kernel has no event for this
                await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_unix_connection(sock=sock)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        sock.close()
        return None
    except BaseException:
        sock.close()
        raise
    try:
        async with asyncio.timeout(GREETING_SECONDS):
            greeting = json.loads(await reader.readline() or b"{}")
        if greeting.get("version") == VERSION:
            return ShimConnection(reader, writer, greeting["state"])
    except ConnectionResetError:
        greeting = {}
    except BaseException:
        writer.close()
        raise
    writer.close()
    if greeting:
        raise FleetError(f"the shim in {folder} uses protocol version {greeting.get('version')}, this fleet {VERSION}")
    return None  # the shim ended at that moment


def _connected(sock: socket.socket, name: str) -> bool:
    """Connect, or return False if the queue of connections is full. asyncio would treat that as connected."""
    try:
        sock.connect(name)
    except BlockingIOError:
        return False
    return True


def peer_of(sock: socket.socket) -> int | None:
    """Return the process id of the listener as the system reports it. Return None if unknown."""
    if sys.platform != "linux":
        return None
    pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid) or None


@contextlib.contextmanager
def short_name(folder: str) -> Iterator[str]:
    """Yield a path of the control socket that fits a socket address."""
    name = f"{folder}/control"
    if len(os.fsencode(name)) <= LONGEST_NAME:
        yield name
    elif sys.platform == "linux":
        handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{handle}/control"
        finally:
            os.close(handle)
    else:
        with tempfile.TemporaryDirectory(prefix="fleet") as short:
            Path(short, "f").symlink_to(folder)
            yield f"{short}/f/control"


#: Maximum time for all answers together, and minimum time for each.
ANSWER_SECONDS, LEAST_SECONDS = 2.0, 0.05
#: The same for the CPU use of all agents that a command lists.
SHARES_SECONDS = 0.1
#: More cores than any machine has. An agent could answer in place of its shim.
MOST_CORES = 10_000
#: More bytes than a shim ever sends before its answer.
LONGEST_TALK = 4 * 1024 * 1024


def freeze_all(folders: Collection[str]) -> set[str]:
    """Freeze the agents in these folders.

    Return the folders whose shim confirmed it, and those without a live agent.
    """
    answers = _answers("freeze", folders, ANSWER_SECONDS, LEAST_SECONDS)
    done = {folder for folder, answer in answers.items() if "ok" in answer and not answer.get("moving")}
    return done | {folder for folder in folders if folder not in done and not _lives(folder)}


def cpu_shares(folders: Collection[str]) -> dict[str, float]:
    """Return how many cores the agents in these folders use now. Those that do not answer at once are absent."""
    answers = _answers("cpu", folders, SHARES_SECONDS, 0.0)
    shares = {folder: answer.get("share") for folder, answer in answers.items()}  # older shims report none
    return {
        folder: float(share)
        for folder, share in shares.items()
        if isinstance(share, int | float) and 0 <= share <= MOST_CORES
    }


def _answers(what: str, folders: Collection[str], seconds: float, least: float) -> dict[str, dict[str, Any]]:
    """Ask all shims in these folders the same. Return the answers that come in time, by folder."""
    give_up = time.monotonic() + seconds
    found = {}
    with contextlib.ExitStack() as closing:
        calls = []
        for folder in folders:  # all requests are sent before the first wait
            with contextlib.suppress(OSError):
                calls.append(closing.enter_context(ShimCall(folder)))
                calls[-1].ask(what)
        for call in calls:
            with contextlib.suppress(OSError, ValueError, RecursionError):
                found[call.folder] = call.answer(give_up, least)
    return found


def pid_of(folder: str) -> int | None:
    """Return the process id of the shim in a folder. Return None if no shim lives or the system does not report it."""
    try:
        with ShimCall(folder) as call:
            return call.pid
    except OSError:
        return None


class ShimCall:
    """A connection to the shim of one folder. Raises OSError."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._link = socket.socket(socket.AF_UNIX)
        self._heard = b""
        try:
            self._link.setblocking(False)
            with short_name(folder) as name:
                self._link.connect(name)
        except BaseException:
            self._link.close()
            raise

    def __enter__(self) -> "ShimCall":
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    @property
    def pid(self) -> int | None:
        return peer_of(self._link)

    def ask(self, what: str, **values: object) -> None:
        """Send a request. Each connection is used for one."""
        self._link.sendall(json.dumps({"id": 1, "do": what, **values}).encode() + b"\n")

    def answer(self, give_up: float, least: float = LEAST_SECONDS) -> dict[str, Any]:
        """Return the answer. Wait until `give_up`, and at least `least` seconds for each part. Raises ValueError."""
        while True:
            line, found, rest = self._heard.partition(b"\n")
            if found:
                self._heard = rest
                said = json.loads(line)
                if said.get("id") == 1:
                    return dict(said)
                continue
            if len(self._heard) > LONGEST_TALK:
                raise ValueError("its answer is too long")
            self._link.settimeout(max(least, give_up - time.monotonic()))
            data = self._link.recv(65_536)
            if not data:
                raise OSError("it closed the connection")
            self._heard += data


def _lives(folder: str) -> bool:
    """Return True if anything of a folder's agent lives, or if that is unknown."""
    try:
        return is_locked(folder)
    except OSError:
        return True
