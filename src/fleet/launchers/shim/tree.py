"""Everything that descends from the agent: how it is seen, counted and killed."""

# contextlib would cost as much as all of this.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # see process.py
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class Tree(Protocol):
        """How well descendants are held depends on the system."""

        containment: str

        def others(self) -> list[int]:
            """Every living process of the tree but the shim."""

        def kill(self, agent: int) -> None:
            """Kill all of them at once."""

        def freeze(self) -> int:
            """Stop all of them where they are, also those that came or went on since; how many still move."""

        def thaw(self) -> None:
            """Let them go on, but for those that were stopped before."""

        def used(self) -> tuple[float, int]:
            """CPU seconds of all of them so far, the ended ones included, and the memory they hold now, in KiB."""

        def in_child(self) -> None:
            """What the agent's process does before it becomes the agent."""


TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
KILL = 9
#: The letters of those who do nothing: stopped, held by a debugger, dead, gone.
STANDING = (b"T", b"t", b"Z", b"X", b"")
#: How often, and in what distance, it is looked whether all of a tree stand still.
FREEZE_LOOKS, FREEZE_SECONDS = 40, 0.002


class Namespace:
    """A PID namespace whose first process is the shim: nothing leaves it, and it dies with the shim."""

    containment = "pid namespace"

    def __init__(self) -> None:
        if os.getpid() != 1:
            # Anywhere else, kill(-1) would hit every process of the user.
            raise SystemExit("the shim is not the first process of a PID namespace")
        self._ice = Ice()

    def others(self) -> list[int]:
        """Every living process here but the shim."""
        return [pid for pid, _, alive, _ in processes() if alive and pid != 1]

    def kill(self, agent: int) -> None:
        """One call of the kernel: a process that is just being forked does not escape it."""
        send(-1, KILL)

    def freeze(self) -> int:
        """One call of the kernel again."""
        return self._ice.form(self.others, lambda _: send(-1, _signal.SIGSTOP))

    def thaw(self) -> None:
        """Each of them, for some may have been stopped before."""
        self._ice.melt(self.others)

    def used(self) -> tuple[float, int]:
        """CPU: the living, with what they reaped, and what was reaped here; memory: the living."""
        found = [(pid, seconds) for pid, _, _, seconds in processes() if pid != 1]
        return reaped_seconds() + sum(seconds for _, seconds in found), sum(resident_kb(pid) for pid, _ in found)

    def in_child(self) -> None:
        """Nothing: the kernel does it all."""


class Ice:
    """What a freeze has to remember: who stood still already, by Ctrl-Z say, is not set going by its end."""

    def __init__(self) -> None:
        self._still: set[int] | None = None  # none: nothing is frozen

    def form(self, others: "Callable[[], list[int]]", stop: "Callable[[list[int]], None]") -> int:
        """Have them stopped until none is seen to move; how many still do when that takes too long.

        One that was seen before it stopped may have left a child behind that was not: only a second look which finds
        nobody else is the last.
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
                time.sleep(FREEZE_SECONDS)  # a signal is noticed when a process has its next turn
        return len(moving)

    def melt(self, others: "Callable[[], list[int]]") -> None:
        """Let the others go on; children before their parents, who would take them for stopped."""
        still, self._still = self._still or set(), None
        for pid in sorted(set(others()) - still, reverse=True):
            send(pid, _signal.SIGCONT)


def send(pid: int, number: int) -> None:
    """A signal to one process, or with a negative number to a group; no matter whether it is there."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def state(pid: int) -> bytes:
    """The kernel's letter for what a process does; empty: it is gone."""
    text = read(f"/proc/{pid}/stat")
    return text[text.rfind(b")") + 2 :][:1]


def processes() -> "Iterator[tuple[int, int, bool, float]]":
    """Of each process that /proc shows: pid, parent, whether it lives, CPU seconds with its reaped children."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return  # macOS
    for name in names:
        if not name.isdigit():
            continue
        text = read(f"/proc/{name}/stat")
        # The command's name stands in brackets and may hold anything, brackets too.
        fields = text[text.rfind(b")") + 2 :].split()
        if len(fields) > 14:
            seconds = sum(map(int, fields[11:15])) / TICKS
            yield int(name), int(fields[1]), fields[0] not in (b"Z", b"X"), seconds


def resident_kb(pid: int) -> int:
    """The memory that a process holds now; pages that it shares with others count in full."""
    fields = read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE // 1024 if len(fields) > 1 else 0


def reaped_seconds() -> float:
    """CPU time of the children that were waited for, and of theirs."""
    spent = os.times()
    return spent.children_user + spent.children_system


def read(path: str) -> bytes:
    """A file of /proc; nothing when its process has ended or is not ours."""
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
