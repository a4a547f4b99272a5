"""Client of the starter: a process that has the shim in memory and forks one for each agent.

The starter is started at first use and ends with its launcher. A dead starter is replaced.
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

#: A starter accepts a request in a millisecond, but a machine may be very busy.
SEND_SECONDS = 10.0
#: After this many failed starts and no successful one, the system does not allow what the starter does.
MOST_FAILURES = 3


class NotStarted(FleetError):
    """A shim ended before it was ready, or did not become ready in time."""


class Starter:
    """Connection to the starter process, to which it passes starts. Thread-safe."""

    def __init__(self, space: str) -> None:
        self.successes = self.failures = 0
        self._space = space  # kind of PID namespace for shims: "" none, "plain", or "user" (inside a user namespace)
        self._lock = threading.Lock()
        self._link: socket.socket | None = None

    @property
    def works(self) -> bool:
        return self.successes > 0 or self.failures < MOST_FAILURES

    def hand_over(self, folder: str, lock: int, saying: int, *, apart: bool) -> None:
        """Start a shim in a prepared folder and pass it the lock.

        Raises NotStarted if the starter does not accept it.
        """
        request = json.dumps({"folder": folder, "space": self._space, "apart": apart}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (lock, saying)))]
        try:
            link = self._reach()
            try:
                link.sendmsg([request], rights)
            except ConnectionError:  # it died since the last request
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
    """Start a starter and return the connection to it. Requests wait until it has started."""
    with contextlib.ExitStack() as opened:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            opened.callback(ours.close)
            handle = theirs.fileno()
            start_detached(shim_command("starter", str(handle), ROOM), stdout=subprocess.DEVNULL, pass_fds=(handle,))
        ours.settimeout(SEND_SECONDS)
        opened.pop_all()
        return ours
