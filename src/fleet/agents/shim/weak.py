"""The shim for systems without PID namespaces. It holds descendants as well as possible; the run records "weak".

The shim adopts orphans (child subreaper), and finds processes in /proc that have the run's mark in their environment.
An outer process waits for the shim's end. If the shim is killed with -9, the outer process adopts the orphans, kills
them, and only then releases the lock. Limitation: if both are killed, only the agent's own process dies with them
(PDEATHSIG).
"""

import _signal  # type: ignore[import-not-found]  # see process.py
import ctypes
import os
import sys
import time

from fleet.agents.shim.program import run
from fleet.agents.shim.record import has_record
from fleet.agents.shim.title import Title
from fleet.agents.shim.tree import KILL, FreezeState, processes, read, reaped_seconds, resident_kb, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
#: How long unkillable processes may hold the lock, and how often their end is checked.
UNKILLABLE_SECONDS, LOOK_SECONDS = 5.0, 0.005


def held(mark: str) -> "Descendants":
    """Return the process tree of the shim.

    On Linux this forks: the child returns and continues as the shim, and the parent waits for the child's end.
    """
    if sys.platform == "linux":
        outside = Descendants(mark)
        if pid := os.fork():
            _outlive(pid, outside)
    return Descendants(mark)


def _outlive(shim: int, tree: "Descendants") -> "NoReturn":
    """Wait for the shim's end, clear what its agent left, and exit with its code. This process also holds the lock."""
    code = 1
    try:
        Title().be("fleet-weak", os.getcwd())  # noqa: PTH109 - so that it is not mistaken for the shim
        _let_go()
        _, status = os.waitpid(shim, 0)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if not has_record():  # otherwise the shim has cleared, and processes with the mark now belong to a new run
            _clear(tree)
    finally:
        os._exit(code)  # never return into the shim's own code


def _clear(tree: "Descendants") -> None:
    give_up = time.monotonic() + UNKILLABLE_SECONDS
    while tree.others() and time.monotonic() < give_up:
        tree.kill(0)
        time.sleep(LOOK_SECONDS)


def _let_go() -> None:
    """Close everything but the lock. Readers of the shim's pipes then see their end without waiting for us."""
    lock = os.stat("lock")  # noqa: PTH116
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        try:
            if number < 3:
                os.dup2(nothing, number)
            elif number != nothing and not os.path.samestat(os.fstat(number), lock):
                os.close(number)
        except OSError:
            pass  # the descriptor that was used for the listing
    os.close(nothing)


class Descendants:
    """All processes below the shim, and those with its mark."""

    containment = "weak"

    def __init__(self, mark: str) -> None:
        self._me = os.getpid()
        self._mark = f"\0FLEET_RUN_ID={mark}\0".encode() if mark else b""
        self._ice = FreezeState()
        self._prctl(PR_SET_CHILD_SUBREAPER, 1)

    def others(self) -> list[int]:
        """Return every living process below the shim, by parent or by mark."""
        found = list(processes())
        below = {self._me}
        size = 0
        while size < len(below):
            size = len(below)
            below |= {pid for pid, parent, _, _ in found if parent in below}
        return [pid for pid, _, alive, _ in found if alive and pid != self._me and (pid in below or self._marked(pid))]

    def kill(self, agent: int) -> None:
        """Kill the agent's group, then each other process. The next call finds what they forked meanwhile."""
        if agent:
            send(-agent, KILL)
        for pid in self.others():
            send(pid, KILL)

    def freeze(self) -> int:
        """Stop each process. The next look finds what they forked meanwhile."""

        def stop(moving: list[int]) -> None:
            for pid in moving:
                send(pid, _signal.SIGSTOP)

        return self._ice.form(self.others, stop)

    def thaw(self) -> None:
        self._ice.melt(self.others)

    def used(self) -> tuple[float, int]:
        """Return CPU time of living and reaped processes, and memory of the living ones."""
        others = set(self.others())
        seconds = sum(seconds for pid, _, _, seconds in processes() if pid in others)
        return reaped_seconds() + seconds, sum(map(resident_kb, others))

    def in_child(self) -> None:
        """Arrange to die with the shim, or exit at once if the shim is already gone."""
        self._prctl(PR_SET_PDEATHSIG, KILL)
        if os.getppid() != self._me:
            os._exit(127)

    def _marked(self, pid: int) -> bool:
        return bool(self._mark) and self._mark in b"\0" + read(f"/proc/{pid}/environ")

    def _prctl(self, option: int, value: int) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main() -> None:
    """Manage the folder named on the command line."""
    run(held)
