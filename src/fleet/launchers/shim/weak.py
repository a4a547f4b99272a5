"""The shim where PID namespaces are not to be had: descendants are held as well as can be, and the run says "weak".

Orphans come to the shim (child subreaper), and whatever carries the run's mark in its environment is found in /proc.
What this cannot do: when the shim itself is killed with -9 only the agent's own process goes with it (PDEATHSIG).
"""

import _signal  # type: ignore[import-not-found]  # see process.py
import ctypes
import os
import sys

from fleet.launchers.shim.program import run
from fleet.launchers.shim.tree import KILL, Ice, processes, read, reaped_seconds, resident_kb, send

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


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
        """Each of them."""
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
    run(Descendants)
