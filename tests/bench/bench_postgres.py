"""The speed of many hosts on a queue in PostgreSQL, and the cost of idle ones.

`python tests/bench/bench_postgres.py [rounds]`: a real server on this machine's disk, with the usual waits for the
disk.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.bench_queue import a_plain_task, told
from fleet.core.filter import Filter
from fleet.store.postgres.store import PostgresStore
from postgres import Server

WORKERS = Path(__file__).parent.parent / "workers"
ROUNDS, CLAIMERS, CLAIMED = 5, 8, 4_000
HOSTS, SLOTS, TASKS = 4, 25, 10_000
IDLE, PROCESSES = 100, 4
#: The time until all hosts have registered and polled, and then the time for several heartbeats of each host.
SETTLED_SECONDS, WATCHED_SECONDS = 30.0, 60.0
TICKS = 100.0  # of the kernel's clock, per second


def main() -> None:
    """Measure and print each result with its bar. Exit with 1 if a bar is missed."""
    rounds = max(3, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    server = Server(on_disk=True)
    figures = [claims_per_second(server.make_database()) for _ in range(rounds)]
    passed = told(f"PostgreSQL: claims/s, {CLAIMERS} processes, ten at a time, 0 duplicates", figures, bar=1_000)
    print(f"  that is {median(figures) / 1_000:.1f}x the bar")
    url = server.make_database()
    taken = emptied_in(url)
    print(
        f"PostgreSQL: {TASKS:,} tasks, {HOSTS} hosts x {SLOTS} instant slots: all done in {taken:.0f} s "
        f"({TASKS / taken:,.0f}/s), 0 claimed twice"
    )
    idle(server, url)
    server.remove()
    sys.exit(not passed)


def claims_per_second(url: str) -> float:
    """Empty a queue with several processes. Return the claims per second, from the signal until all found it empty."""
    fill(url, CLAIMED)
    got, taken = together("claimer.py", url, CLAIMERS, "10")
    if len(got) != CLAIMED or len(set(got)) != CLAIMED:
        raise SystemExit(f"{len(got) - len(set(got))} claimed twice, {CLAIMED - len(set(got))} lost")
    return CLAIMED / taken


def emptied_in(url: str) -> float:
    """Return the seconds in which hosts with instant agents run every task, each task once."""
    fill(url, TASKS)
    done, taken = together("finisher.py", url, HOSTS, str(SLOTS))
    store = PostgresStore(url)
    closed = store.tasks.find(Filter(statuses=("closed",)))
    store.close()
    with psycopg.connect(url) as link:
        runs = link.execute("select count(*) from fleet.runs where ending = 'finished'").fetchone()
    if len(done) != TASKS or len(set(done)) != TASKS or len(closed) != TASKS or runs != (TASKS,):
        raise SystemExit(f"{len(done)} done, {len(set(done))} different, {len(closed)} closed, {runs} runs")
    if any(task.epoch != 1 for task in closed):
        raise SystemExit("a task was claimed twice")
    return taken


def idle(server: Server, url: str) -> None:
    """Print the cost of this many idle hosts for the server, without work and then with work for other hosts."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(idle_hosts(url, folder))
        time.sleep(SETTLED_SECONDS)
        print(f"PostgreSQL: {IDLE} idle hosts: {load(server, url)}")
        writer = stack.enter_context(closing(PostgresStore(url)))
        done = threading.Event()
        busy = threading.Thread(target=add_one_a_second, args=(writer, done))
        busy.start()
        print(f"PostgreSQL: the same with a task a second: {load(server, url)}")
        done.set()
        busy.join()


@contextmanager
def idle_hosts(url: str, folder: str) -> Iterator[None]:
    """Run real supervisors, in enough processes that each has time."""
    share = IDLE // PROCESSES
    workers = [
        subprocess.Popen(
            [sys.executable, WORKERS / "idle_hosts.py", url, folder, str(number * share), str(share)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    yield
    for worker in workers:
        worker.communicate("end\n", timeout=60)
        assert worker.returncode == 0


def add_one_a_second(store: PostgresStore, done: threading.Event) -> None:
    """Add tasks that are already assigned, and of which all hosts are notified."""
    number = TASKS
    while not done.wait(1.0):
        store.tasks.add(a_plain_task(number).replace(assignee="ada"))
        number += 1


def load(server: Server, url: str) -> str:
    """Watch the server for a while. Return its transactions and processor time per second."""
    began, commits, ticks = time.monotonic(), committed(url), processor_ticks(server)
    time.sleep(WATCHED_SECONDS)
    taken = time.monotonic() - began
    rate, share = (committed(url) - commits) / taken, (processor_ticks(server) - ticks) / TICKS / taken * 100
    machine = os.getloadavg()[0]
    return f"{rate:.0f} transactions/s, {share:.1f} % of one processor (load average of the machine {machine:.1f})"


def committed(url: str) -> int:
    """Return the number of transactions of the database."""
    with psycopg.connect(url) as link:
        link.execute("select pg_stat_clear_snapshot()")
        found = link.execute("select xact_commit from pg_stat_database where datname = current_database()").fetchone()
    return int(found[0]) if found else 0


def processor_ticks(server: Server) -> float:
    """Return the processor ticks of the server's processes, including ended ones."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if entry.name == str(server.pid):
            total += sum(map(int, fields[11:15]))
        elif fields[1] == str(server.pid):
            total += sum(map(int, fields[11:13]))
    return total


def fill(url: str, count: int) -> None:
    """Add this many tasks."""
    store = PostgresStore(url, make=True)
    with store.atomic():
        for number in range(count):
            store.tasks.add(a_plain_task(number))
    store.connection.rows("analyze tasks")
    store.close()


def together(program: str, url: str, count: int, size: str) -> tuple[list[str], float]:
    """Return the output of this many workers, and their seconds from the signal."""
    workers = [
        subprocess.Popen(
            [sys.executable, WORKERS / program, url, f"host-{number}", size],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    start = time.perf_counter()
    for answer in [worker.stdin for worker in workers if worker.stdin is not None]:
        answer.write("go\n")
        answer.flush()
    got = [key for worker in workers for key in worker.communicate(timeout=600)[0].split()]
    return got, time.perf_counter() - start


if __name__ == "__main__":
    main()
