"""Requests to many shims at once, without an event loop. Fencing of agents must not depend on one."""

import contextlib
import json
import signal
import socket
import time
from collections.abc import Collection
from typing import Any

from fleet.launchers.lock import is_locked
from fleet.launchers.shim_link import peer_of, short_name

#: Maximum time for all answers together, and minimum time for each.
ANSWER_SECONDS, LEAST_SECONDS = 2.0, 0.05
#: More bytes than a shim ever sends before its answer.
LONGEST_TALK = 4 * 1024 * 1024


def freeze_all(folders: Collection[str]) -> set[str]:
    """Freeze the agents in these folders.

    Return the folders whose shim confirmed it, and those without a live agent.
    """
    give_up = time.monotonic() + ANSWER_SECONDS
    with contextlib.ExitStack() as closing:
        calls = []
        for folder in folders:  # all requests are sent before the first wait
            with contextlib.suppress(OSError):
                calls.append(closing.enter_context(Call(folder)))
                calls[-1].ask("freeze")
        done = {call.folder for call in calls if call.is_done(give_up)}
    return done | {folder for folder in folders if folder not in done and not _lives(folder)}


def pid_of(folder: str) -> int | None:
    """Return the process id of the shim in a folder. Return None if no shim lives or the system does not report it."""
    try:
        with Call(folder) as call:
            return call.pid
    except OSError:
        return None


class Call:
    """A connection to the shim of one folder. Raises OSError."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._link = socket.socket(socket.AF_UNIX)
        self._heard = b""
        self._asked = 0
        try:
            self._link.setblocking(False)
            with short_name(folder) as name:
                self._link.connect(name)
        except BaseException:
            self._link.close()
            raise

    def __enter__(self) -> "Call":
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    @property
    def pid(self) -> int | None:
        return peer_of(self._link)

    def ask(self, what: str, **values: object) -> None:
        self._asked += 1
        self._link.sendall(json.dumps({"id": self._asked, "do": what, **values}).encode() + b"\n")

    def is_done(self, give_up: float) -> bool:
        """Return True if the shim confirms the freeze before `give_up`.

        A shim of an earlier version is asked to stop the agent's process group instead.
        """
        try:
            answer = self._answer(give_up)
            if "error" in answer:
                self.ask("signal", number=int(signal.SIGSTOP))
                answer = self._answer(give_up)
        except (OSError, ValueError):
            return False
        return "ok" in answer and not answer.get("moving")

    def _answer(self, give_up: float) -> dict[str, Any]:
        while True:
            line, found, rest = self._heard.partition(b"\n")
            if found:
                self._heard = rest
                said = json.loads(line)
                if said.get("id") == self._asked:
                    return dict(said)
                continue
            if len(self._heard) > LONGEST_TALK:
                raise ValueError("it talks without end")
            self._link.settimeout(max(LEAST_SECONDS, give_up - time.monotonic()))
            data = self._link.recv(65_536)
            if not data:
                raise OSError("it went away")
            self._heard += data


def _lives(folder: str) -> bool:
    """Return True if anything of a folder's agent lives, or if that is unknown."""
    try:
        return is_locked(folder)
    except OSError:
        return True
