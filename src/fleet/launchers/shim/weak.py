"""The shim where PID namespaces are not to be had: descendants are held as well as can be, and the run says "weak".

Orphans come to the shim (child subreaper), and whatever carries the run's mark in its environment is found in /proc.
The step before the shim waits for its end: should it be killed with -9, the orphans come to that step, which kills them
and only then lets go of the lock. What this cannot do: when both are killed, only the agent's own process goes with
them (PDEATHSIG).
"""

import _signal  # type: ignore[import-not-found]  # see process.py
import ctypes
import os
import sys
import time

from fleet.launchers.shim.program import run
from fleet.launchers.shim.record import has_record
from fleet.launchers.shim.title import Title
from fleet.launchers.shim.tree import KILL, Ice, processes, read, reaped_seconds, resident_kb, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
#: How long processes that cannot be killed may keep the lock, and how often it is looked whether they have gone.
UNKILLABLE_SECONDS, LOOK_SECONDS = 5.0, 0.005


def held(mark: str) -> "Descendants":
    """The tree of the shim that we go on as, in a process of our own; in this one we stay, and wait for its end."""
    if sys.platform == "linux":
        outside = Descendants(mark)
        if pid := os.fork():
            _outlive(pid, outside)
    return Descendants(mark)


def _outlive(shim: int, tree: "Descendants") -> "NoReturn":
    """Wait for the end of the shim, let nothing of its agent be left, and end as it did. The lock is ours as well."""
    code = 1
    try:
        Title().be("fleet-weak", os.getcwd())  # noqa: PTH109 - not to be taken for the shim
        _let_go()
        _, status = os.waitpid(shim, 0)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if not has_record():  # else it saw to that itself, and what has the mark now is another's
            _clear(tree)
    finally:
        os._exit(code)  # never return into the shim's own code


def _clear(tree: "Descendants") -> None:
    give_up = time.monotonic() + UNKILLABLE_SECONDS
    while tree.others() and time.monotonic() < give_up:
        tree.kill(0)
        time.sleep(LOOK_SECONDS)


def _let_go() -> None:
    """Of everything but the lock: who waits for the end of what the shim has open does not wait for us."""
    lock = os.stat("lock")  # noqa: PTH116
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        try:
            if number < 3:
                os.dup2(nothing, number)
            elif number != nothing and not os.path.samestat(os.fstat(number), lock):
                os.close(number)
        except OSError:
            pass  # the one by which they were listed
    os.close(nothing)


class Descendants:
    """All processes below the shim, and those with its mark."""

    containment = "weak"

    def __init__(self, mark: str) -> None:
        self._me = os.getpid()
        self._mark = f"\0FLEET_RUN_ID={mark}\0".encode() if mark else b""
        self._ice = Ice()
        self._prctl(PR_SET_CHILD_SUBREAPER, 1)

    def others(self) -> list[int]:
        """Every living process below the shim, by parent or by mark."""
        found = list(processes())
        below = {self._me}
        size = 0
        while size < len(below):
            size = len(below)
            below |= {pid for pid, parent, _, _ in found if parent in below}
        return [pid for pid, _, alive, _ in found if alive and pid != self._me and (pid in below or self._marked(pid))]

    def kill(self, agent: int) -> None:
        """The agent's group first, then each of the others; what they fork meanwhile is found by the next call."""
        if agent:
            send(-agent, KILL)
        for pid in self.others():
            send(pid, KILL)

    def freeze(self) -> int:
        """Each of them; what they fork meanwhile is found by the next look."""

        def stop(moving: list[int]) -> None:
            for pid in moving:
                send(pid, _signal.SIGSTOP)

        return self._ice.form(self.others, stop)

    def thaw(self) -> None:
        self._ice.melt(self.others)

    def used(self) -> tuple[float, int]:
        """CPU: the living, with what they reaped, and what was reaped here; memory: the living."""
        others = set(self.others())
        seconds = sum(seconds for pid, _, _, seconds in processes() if pid in others)
        return reaped_seconds() + seconds, sum(map(resident_kb, others))

    def in_child(self) -> None:
        """Die with the shim; if it is gone already, at once."""
        self._prctl(PR_SET_PDEATHSIG, KILL)
        if os.getppid() != self._me:
            os._exit(127)

    def _marked(self, pid: int) -> bool:
        return bool(self._mark) and self._mark in b"\0" + read(f"/proc/{pid}/environ")

    def _prctl(self, option: int, value: int) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main() -> None:
    """Keep the folder that the command line names."""
    run(held)
