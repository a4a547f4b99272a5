"""One spare terminal: a session whose shim waits for its folder. Made ahead, because that is most of a start."""

import contextlib
import json
import os
import secrets
import select
import shutil
import socket as sockets
import time
from pathlib import Path
from typing import NamedTuple

from fleet.core.errors import FleetError
from fleet.launchers.lock import is_locked
from fleet.launchers.tmux_command import call, kill_session, reason
from fleet.launchers.tmux_session import LOGGING, Shape, keep_session, log_command, new_session, spare_of

#: What their sessions are called, until they are an agent's.
PREFIX = "fleet-spare-"
#: How long one may need to be ready, and to take what it is told to start.
MAKE_SECONDS, TAKE_SECONDS = 30.0, 60.0


class Server(NamedTuple):
    """The tmux server that they are made in, and how."""

    socket: str
    config: str | None
    containment: str


class SpareTerminal:
    """A session that waits to become an agent's, with its shim and its log. Closing it ends it."""

    def __init__(self, server: Server, folder: str, shape: Shape, link: sockets.socket) -> None:
        self.shape = shape
        self.used = False  # it is an agent's now, or was to be
        self._server, self._folder, self._link = server, folder, link

    @property
    def lives(self) -> bool:
        """Whether its shim still waits: it says nothing before it is told something."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        return not poll.poll(0)

    def become(self, session: str, folder: str, token: str, *, apart: bool) -> bool:
        """Be the session of an agent whose folder is prepared, and whose lock is held; False when it cannot.

        The lock that the spare holds takes the place of the folder's, and its log that of the folder's: a lock and
        an open file belong to what is named, not to the name. FleetError: it does not answer.
        """
        self.used = True
        name = f"{PREFIX}{Path(self._folder).name}"
        rename = ("rename-session", "-t", f"={name}", session, ";", *keep_session(session, remain=True))
        if call(self._server.socket, *rename).returncode:
            return False
        try:
            for each in ("stdout", "lock"):
                os.rename(f"{self._folder}/{each}", f"{folder}/{each}")  # noqa: PTH104
            self._link.sendall(json.dumps({"folder": folder, "token": token, "apart": apart}).encode() + b"\n")
            taken = self._link.recv(16) == b"taken"
        except TimeoutError:
            raise FleetError(f"the shim in {folder} did not start in {TAKE_SECONDS:g} s") from None
        except OSError:
            taken = False
        if taken or Path(folder, "started").exists():
            return True
        self._link.close()
        kill_session(self._server.socket, session)
        return False

    def close(self) -> None:
        """Let go of it: its shim ends unless it has become an agent's."""
        self._link.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def make(server: Server, place: str, shape: Shape) -> SpareTerminal:
    """A new one, ready. Raises FleetError, OSError; then nothing is left of it."""
    folder = f"{place}/{secrets.token_hex(8)}"
    os.makedirs(folder, mode=0o700)  # noqa: PTH103
    try:
        for name in ("stdout", "lock"):
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with sockets.socket(sockets.AF_UNIX) as listener:
            listener.settimeout(MAKE_SECONDS)
            _listen(listener, folder)
            try:
                _open(server, folder, shape)
                link, _ = listener.accept()
            except BaseException:
                kill_session(server.socket, f"{PREFIX}{Path(folder).name}")
                raise
        Path(folder, "call").unlink()
        made = SpareTerminal(server, folder, shape, link)
        link.settimeout(TAKE_SECONDS)
        _wait_for_log(made, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return made


def sweep(server: Server, place: str) -> None:
    """Take away what those of a supervisor that was killed left: they themselves have gone with it."""
    with contextlib.suppress(OSError):
        for folder in os.listdir(place):  # noqa: PTH208
            if not is_locked(f"{place}/{folder}"):
                kill_session(server.socket, f"{PREFIX}{folder}")
                shutil.rmtree(f"{place}/{folder}", ignore_errors=True)


def _listen(listener: sockets.socket, folder: str) -> None:
    """By way of a descriptor: the folder's own name may be longer than a socket's address."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{handle}/call")
        listener.listen(1)
    finally:
        os.close(handle)


def _open(server: Server, folder: str, shape: Shape) -> None:
    words = new_session(
        f"{PREFIX}{Path(folder).name}",
        shape,
        spare_of(folder, server.containment),
        log_command(folder, shape.log_cap, telling=True),
        taste=not server.config,
        remain=False,
    )
    done = call(server.socket, *words, config=server.config)
    if done.returncode:
        raise FleetError(f"tmux does not start a spare session: {reason(done)}")


def _wait_for_log(made: SpareTerminal, folder: str) -> None:
    """Until its log is open: it will be given another name."""
    give_up = time.monotonic() + MAKE_SECONDS
    while not Path(folder, LOGGING).exists():
        if time.monotonic() > give_up or not made.lives:
            made.close()
            raise FleetError("the log of a spare session did not start")
        time.sleep(0.01)
