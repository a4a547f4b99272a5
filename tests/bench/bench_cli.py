"""The time and memory of the command line, as ratios to the same interpreter doing nothing: `make bench`."""

import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from fleet.core.dependency import Edge
from fleet.core.task import Task
from fleet.store.sqlite.store import SqliteStore

FLEET = str(Path(sys.executable).with_name("fleet"))
ROUNDS = 30
FEW, SMALL, LARGE = 200, 1_000, 200_000
START = datetime(2026, 1, 1, tzinfo=UTC)


# The peak memory of a new process includes that of its parent. Measured from this process, every program would need as
# much as it does. `posix` is part of the interpreter, so the parent below is smaller than every measured program.
WEIGH = """
import posix, sys
pid = posix.posix_spawn(sys.argv[1], sys.argv[1:], posix.environ)
status, usage = posix.wait4(pid, 0)[1:]
posix.write(3, str(usage.ru_maxrss).encode())
sys.exit(posix.waitstatus_to_exitcode(status))
"""


class Command(NamedTuple):
    """A program to run, with a home."""

    argv: tuple[str, ...]
    home: Path

    def milliseconds(self) -> float:
        """Return the milliseconds of one call, from before its start to its end."""
        begin = time.perf_counter()
        self._run(self.argv, [])
        return (time.perf_counter() - begin) * 1_000

    def mebibytes(self) -> float:
        """Return the peak memory of one call in MiB."""
        result, end = os.pipe()
        with os.fdopen(result) as answer:
            self._run((sys.executable, "-I", "-S", "-c", WEIGH, *self.argv), [(os.POSIX_SPAWN_DUP2, end, 3)])
            os.close(end)
            # Linux counts in KiB, macOS in bytes.
            return int(answer.read()) / (1024 if sys.platform != "darwin" else 1024**2)

    def _run(self, argv: tuple[str, ...], actions: list[tuple[int, int, int]]) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "FLEET_HOME": str(self.home), "LANG": "C.UTF-8"}
        quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
        _, status = os.waitpid(os.posix_spawn(argv[0], argv, env, file_actions=[*quiet, *actions]), 0)
        if status != 0:
            sys.exit(f"error: exit code {os.waitstatus_to_exitcode(status)} from: {' '.join(self.argv)}")


class Measured(NamedTuple):
    """One line of the table."""

    what: str
    value: float
    unit: str
    bar: float
    detail: str

    @property
    def passes(self) -> bool:
        """Return True if the bar is met."""
        return self.value <= self.bar

    def __str__(self) -> str:
        value, bar = f"{self.value:.2f}{self.unit}", f"≤ {self.bar:g}{self.unit}"
        return f"{self.what:<58} {value:>10} {bar:>9}  {'pass' if self.passes else 'SHORT'}   {self.detail}"


def ratio(what: str, command: Command, against: Command, bar: float) -> Measured:
    """Time both commands in turns, so that other load affects both. Return the ratio of their medians."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(command.milliseconds())
        theirs.append(against.milliseconds())
    value = statistics.median(ours) / statistics.median(theirs)
    return Measured(what, value, "×", bar, f"{spread(ours)} against {spread(theirs)}")


def memory(what: str, command: Command, bar: float) -> Measured:
    """Return the peak memory of a command in several calls."""
    peaks = [command.mebibytes() for _ in range(5)]
    return Measured(what, max(peaks), " MiB", bar, f"{min(peaks):.1f} to {max(peaks):.1f} MiB in {len(peaks)} calls")


def spread(times: list[float]) -> str:
    """Return the median and the range in words."""
    return f"{statistics.median(times):.1f} ms ({min(times):.1f}–{max(times):.1f})"


def fill(home: Path, count: int) -> None:
    """Create a home with this many tasks. The previous task blocks every third one."""
    Command((FLEET, "init", "--permissions", "user"), home).milliseconds()
    with closing(SqliteStore(str(home / "fleet.db"))) as store, store.atomic():
        for number in range(count):
            made = START + timedelta(seconds=number)
            store.tasks.add(
                Task(
                    id=f"fleet-{number:05x}",
                    title=f"Task {number}",
                    description="Do what the title says, then run the tests. " * 4,
                    priority=number % 5,
                    labels=(f"area-{number % 7}",),
                    created_at=made,
                    updated_at=made,
                    cwd="/srv/project",
                )
            )
            if number % 3 == 2:
                edge = Edge(task=f"fleet-{number:05x}", needs=f"fleet-{number - 1:05x}", created_at=made)
                store.edges.add(edge, check_cycles=False)


def measure(folder: Path) -> list[Measured]:
    """Return all measurements in the order of the table."""
    small, large, scratch, few = (folder / name for name in ("small", "large", "scratch", "few"))
    for home, count in ((small, SMALL), (large, LARGE), (scratch, SMALL), (few, FEW)):
        begin = time.perf_counter()
        fill(home, count)
        print(f"filled a queue with {count:,} tasks in {time.perf_counter() - begin:.1f} s", flush=True)
    nothing = Command((sys.executable, "-c", "pass"), small)
    ready, list_ = ((FLEET, "bd", verb, "--json") for verb in ("ready", "list"))
    usage, tasks, agents = (FLEET, "--help"), (FLEET, "tasks"), (FLEET, "list")
    show = (FLEET, "show", "fleet-00000")
    create = (FLEET, "bd", "create", "one more", "--json")
    many = f"{LARGE:,} tasks against {SMALL:,}"
    return [
        ratio(f"fleet bd ready --json, {SMALL:,} tasks, against bare python", Command(ready, small), nothing, 4),
        ratio("fleet --help against bare python", Command(usage, small), nothing, 8),
        ratio("fleet list against bare python", Command(agents, small), nothing, 8),
        ratio(f"fleet tasks, {SMALL:,} tasks, against bare python", Command(tasks, small), nothing, 8),
        ratio("fleet show ID against bare python", Command(show, small), nothing, 8),
        ratio(f"fleet tasks, {LARGE:,} tasks against {FEW}", Command(tasks, large), Command(tasks, few), 2),
        ratio(f"fleet bd ready --json, {many}", Command(ready, large), Command(ready, small), 2),
        ratio(f"fleet bd list --json, {many}", Command(list_, large), Command(list_, small), 2),
        memory("memory of bare python", nothing, 25),
        memory("memory of fleet bd ready --json", Command(ready, small), 25),
        memory(f"memory of fleet bd ready --json, {LARGE:,} tasks", Command(ready, large), 25),
        memory("memory of fleet bd create", Command(create, scratch), 25),
        memory("memory of fleet --help", Command(usage, small), 25),
    ]


def main() -> None:
    """Measure and print. Exit with 1 if a bar is missed."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        results = measure(Path(folder))
    print(f"\n{'the command line':<58} {'measured':>10} {'bar':>9}")
    for result in results:
        print(result)
    sys.exit(0 if all(result.passes for result in results) else 1)


if __name__ == "__main__":
    main()
