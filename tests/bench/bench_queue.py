"""The speed of creating and claiming tasks in the embedded queue: `python tests/bench/bench_queue.py [rounds]`."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from fleet.core import clock
from fleet.core.task import Task
from fleet.store.sqlite.store import SqliteStore

ROUNDS = 5
PROCESSES = 8
CLAIMER = Path(__file__).parent.parent / "workers" / "claimer.py"


def main() -> None:
    """Measure and print each result with its bar. Exit with 1 if a bar is missed."""
    rounds = max(3, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    single = measured(rounds, lambda folder: claims_per_second(folder, tasks=6_000, batch=1))
    batched = measured(rounds, lambda folder: claims_per_second(folder, tasks=20_000, batch=10))
    creates = measured(rounds, lambda folder: creates_per_second(folder, tasks=2_000))
    passed = [
        told(f"claims/s, {PROCESSES} processes, one at a time, 0 duplicates", single, bar=2_000),
        told("creates/s, one process, each its own durable transaction", creates, bar=1_500),
    ]
    told(f"claims/s, {PROCESSES} processes, ten at a time, 0 duplicates", batched)
    print(f"ten at a time against one at a time: {median(batched) / median(single):.1f}x")
    sys.exit(not all(passed))


def measured(rounds: int, figure: Callable[[Path], float]) -> list[float]:
    """Return the results of several rounds, each with a new database."""
    figures = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            figures.append(figure(Path(folder)))
    return figures


def told(what: str, figures: list[float], bar: float | None = None) -> bool:
    """Print one line for one measurement. Return True if it reaches its bar."""
    middle = median(figures)
    verdict = "" if bar is None else f"   bar {bar:,.0f}: {'pass' if middle >= bar else 'short'}"
    print(f"{what}: {middle:,.0f} (min {min(figures):,.0f}, max {max(figures):,.0f}, n={len(figures)}){verdict}")
    return bar is None or middle >= bar


def creates_per_second(folder: Path, *, tasks: int) -> float:
    """Add tasks one after another. Return the number per second."""
    store = SqliteStore(str(folder / "fleet.db"), make=True)
    start = perf_counter()
    for number in range(tasks):
        store.tasks.add(a_plain_task(number))
    taken = perf_counter() - start
    store.close()
    return tasks / taken


def claims_per_second(folder: Path, *, tasks: int, batch: int) -> float:
    """Empty a queue with several processes. Return the claims per second, from the signal until all found it empty."""
    database = str(folder / "fleet.db")
    store = SqliteStore(database, make=True)
    with store.atomic():
        for number in range(tasks):
            store.tasks.add(a_plain_task(number))
    store.close()
    claimers = [
        subprocess.Popen(
            [sys.executable, CLAIMER, database, f"host-{number}", str(batch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for claimer in claimers:
        assert claimer.stdout is not None and claimer.stdout.readline() == "ready\n"
    start = perf_counter()
    answers = [claimer.stdin for claimer in claimers if claimer.stdin is not None]
    for answer in answers:
        answer.write("go\n")
        answer.flush()
    got = [key for claimer in claimers for key in claimer.communicate(timeout=300)[0].split()]
    taken = perf_counter() - start
    if len(got) != tasks or len(set(got)) != tasks:
        raise SystemExit(f"{len(got) - len(set(got))} claimed twice, {tasks - len(set(got))} lost")
    return tasks / taken


def a_plain_task(number: int) -> Task:
    """Return a task as `bd create` creates it."""
    now = clock.now()
    return Task(
        id=f"fleet-{number:06}",
        title=f"Task number {number}",
        description="Make the thing work, and show that it does. " * 5,
        coder="claude",
        cwd="/home/ada/project",
        created_at=now,
        updated_at=now,
    )


if __name__ == "__main__":
    main()
