"""Everything that descends from the agent: how it is seen, counted and killed."""

# contextlib would cost as much as all of this.
# ruff: noqa: SIM105

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class Tree(Protocol):
        """How well descendants are held depends on the system."""

        containment: str

        def others(self) -> list[int]:
            """Every living process of the tree but the shim."""

        def kill(self, agent: int) -> None:
            """Kill all of them at once."""

        def used(self) -> tuple[float, int]:
            """CPU seconds of all of them so far, the ended ones included, and the memory they hold now, in KiB."""

        def in_child(self) -> None:
            """What the agent's process does before it becomes the agent."""


TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
KILL = 9


class Namespace:
    """A PID namespace whose first process is the shim: nothing leaves it, and it dies with the shim."""

    containment = "pid namespace"

    def __init__(self) -> None:
        if os.getpid() != 1:
            # Anywhere else, kill(-1) would hit every process of the user.
            raise SystemExit("the shim is not the first process of a PID namespace")

    def others(self) -> list[int]:
        """Every living process here but the shim."""
        return [pid for pid, _, alive, _ in processes() if alive and pid != 1]

    def kill(self, agent: int) -> None:
        """One call of the kernel: a process that is just being forked does not escape it."""
        try:
            os.kill(-1, KILL)
        except ProcessLookupError:
            pass

    def used(self) -> tuple[float, int]:
        """CPU: the living, with what they reaped, and what was reaped here; memory: the living."""
        found = [(pid, seconds) for pid, _, _, seconds in processes() if pid != 1]
        return reaped_seconds() + sum(seconds for _, seconds in found), sum(resident_kb(pid) for pid, _ in found)

    def in_child(self) -> None:
        """Nothing: the kernel does it all."""


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
