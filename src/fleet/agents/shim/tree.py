"""The agent's process tree: how it is listed, counted, frozen and killed."""

# contextlib would cost as much start time as the rest.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # see process.py
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class ProcessTree(Protocol):
        """All descendants of the shim. How reliably they are held depends on the system."""

        containment: str

        def others(self) -> list[int]:
            """Return every living process of the tree except the shim."""

        def kill(self, agent: int) -> None:
            """Kill all of them at once."""

        def freeze(self) -> int:
            """Stop all of them, including processes that were started or resumed since. Return how many still move."""

        def thaw(self) -> None:
            """Resume them, except those that were stopped before the freeze."""

        def used(self) -> tuple[float, int]:
            """Return their CPU seconds so far, including ended processes, and their current memory in KiB."""

        def in_child(self) -> None:
            """Prepare the agent's process before it executes the agent."""


TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
KILL = 9
#: Kernel letters of processes that do not run: stopped, traced, zombie, dead, gone.
STANDING = (b"T", b"t", b"Z", b"X", b"")
#: How often, and at what interval, a freeze checks whether the whole tree has stopped.
FREEZE_LOOKS, FREEZE_SECONDS = 40, 0.002


class Namespace:
    """A PID namespace whose first process is the shim. Nothing leaves it, and it dies with the shim."""

    containment = "pid namespace"

    def __init__(self) -> None:
        if os.getpid() != 1:
            # Anywhere else, kill(-1) would hit every process of the user.
            raise SystemExit("the shim is not the first process of a PID namespace")
        self._ice = FreezeState()

    def others(self) -> list[int]:
        """Return every living process of the namespace except the shim."""
        return [pid for pid, _, alive, _ in processes() if alive and pid != 1]

    def kill(self, agent: int) -> None:
        """Kill all by one kernel call, which even a process that is just being forked cannot escape."""
        send(-1, KILL)

    def freeze(self) -> int:
        """Stop all by one kernel call."""
        return self._ice.form(self.others, lambda _: send(-1, _signal.SIGSTOP))

    def thaw(self) -> None:
        """Resume each process separately, because some may have been stopped before."""
        self._ice.melt(self.others)

    def used(self) -> tuple[float, int]:
        """Return CPU time of living and reaped processes, and memory of the living ones."""
        found = [(pid, seconds) for pid, _, _, seconds in processes() if pid != 1]
        return reaped_seconds() + sum(seconds for _, seconds in found), sum(resident_kb(pid) for pid, _ in found)

    def in_child(self) -> None:
        """Do nothing: the kernel does all the work."""


class FreezeState:
    """State of a freeze: processes that were already stopped before it, for example by Ctrl-Z. A thaw skips them."""

    def __init__(self) -> None:
        self._still: set[int] | None = None  # None: not frozen

    def form(self, others: "Callable[[], list[int]]", stop: "Callable[[list[int]], None]") -> int:
        """Stop the processes until none moves. Return how many still move when time is up.

        A process may have left an unseen child just before it stopped. So the last look must find no new process.
        """
        if self._still is None:
            self._still = {pid for pid in others() if state(pid) == b"T"}
        standing: set[int] = set()
        for _ in range(FREEZE_LOOKS):
            seen = others()
            moving = [pid for pid in seen if state(pid) not in STANDING]
            if not moving and standing.issuperset(seen):
                return 0
            standing = set(seen).difference(moving)
            if moving:
                stop(moving)
                time.sleep(FREEZE_SECONDS)  # a process notices a signal only when it is scheduled
        return len(moving)

    def melt(self, others: "Callable[[], list[int]]") -> None:
        """Resume the other processes, children before parents. A parent would otherwise see its child as stopped."""
        still, self._still = self._still or set(), None
        for pid in sorted(set(others()) - still, reverse=True):
            send(pid, _signal.SIGCONT)


def send(pid: int, number: int) -> None:
    """Send a signal to a process, or with a negative number to a group. Missing processes are ignored."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def state(pid: int) -> bytes:
    """Return the kernel's letter for a process's state. Empty if the process is gone."""
    text = read(f"/proc/{pid}/stat")
    return text[text.rfind(b")") + 2 :][:1]


def processes() -> "Iterator[tuple[int, int, bool, float]]":
    """Yield each process in /proc: pid, parent, whether it lives, CPU seconds including its reaped children."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return  # macOS
    for name in names:
        if not name.isdigit():
            continue
        text = read(f"/proc/{name}/stat")
        # The command's name is in parentheses and may contain anything, even parentheses.
        fields = text[text.rfind(b")") + 2 :].split()
        if len(fields) > 14:
            seconds = sum(map(int, fields[11:15])) / TICKS
            yield int(name), int(fields[1]), fields[0] not in (b"Z", b"X"), seconds


def resident_kb(pid: int) -> int:
    """Return a process's current memory in KiB. Shared pages count in full."""
    fields = read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE // 1024 if len(fields) > 1 else 0


def reaped_seconds() -> float:
    """Return the CPU time of all reaped descendants."""
    spent = os.times()
    return spent.children_user + spent.children_system


def read(path: str) -> bytes:
    """Return a file of /proc. Empty if the process has ended or belongs to another user."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, 1024 * 1024)
    except OSError:
        return b""
    finally:
        os.close(handle)
