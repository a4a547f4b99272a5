"""The launcher's end of the starter: a process that has the shim in memory and forks one for each agent.

It is started when it is first needed and ends when its launcher does. One that died is followed by another.
"""

import array
import contextlib
import json
import socket
import subprocess
import threading
import weakref

from fleet.core.errors import FleetError
from fleet.launchers.detached import shim_command, start_detached
from fleet.launchers.shim.title import ROOM

#: A starter takes a request in a millisecond; a machine may be very busy.
SEND_SECONDS = 10.0
#: When so many starts came to nothing, and none to something, the system does not let it do what it should.
MOST_FAILURES = 3


class NotStarted(FleetError):
    """A shim ended before it was ready, or never was."""


class Starter:
    """Hands starts over. From any thread."""

    def __init__(self, space: str) -> None:
        self.successes = self.failures = 0
        self._space = space  # what kind of PID namespace a shim gets: "" none, "plain", "user" (inside one of those)
        self._lock = threading.Lock()
        self._link: socket.socket | None = None

    @property
    def works(self) -> bool:
        return self.successes > 0 or self.failures < MOST_FAILURES

    def hand_over(self, folder: str, lock: int, saying: int, *, apart: bool) -> None:
        """Have a shim started in a folder that is prepared, with its lock. Raises NotStarted: nobody takes it."""
        request = json.dumps({"folder": folder, "space": self._space, "apart": apart}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (lock, saying)))]
        try:
            link = self._reach()
            try:
                link.sendmsg([request], rights)
            except ConnectionError:  # it died since the last time
                self._reach(instead_of=link).sendmsg([request], rights)
        except OSError as error:
            raise NotStarted(f"the starter does not take {folder}: {error}") from error

    def _reach(self, instead_of: socket.socket | None = None) -> socket.socket:
        with self._lock:
            if self._link is not None and self._link is instead_of:
                self._link.close()
                self._link = None
            if self._link is None:
                self._link = _start()
                weakref.finalize(self, self._link.close)
            return self._link


def _start() -> socket.socket:
    """A new one; what is sent waits until it has come up."""
    with contextlib.ExitStack() as opened:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            opened.callback(ours.close)
            handle = theirs.fileno()
            start_detached(shim_command("starter", str(handle), ROOM), stdout=subprocess.DEVNULL, pass_fds=(handle,))
        ours.settimeout(SEND_SECONDS)
        opened.pop_all()
        return ours
