"""Many processes on one SQLite queue: nothing lost or claimed twice, whatever process is killed or disk is full."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import apsw
import pytest

from builders import a_task
from fleet.core.errors import StoreFault
from fleet.core.filter import Filter
from fleet.core.task import Task
from fleet.store.sqlite.store import SqliteStore
from needs import require

WORKERS = Path(__file__).parent.parent / "workers"


def started(script: str, *args: object, stdin: int | None = None, stdout: int | None = None) -> subprocess.Popen[str]:
    """Start a worker as a new process."""
    return subprocess.Popen(
        [sys.executable, str(WORKERS / script), *map(str, args)], text=True, stdin=stdin, stdout=stdout
    )


def lines(acks: Path) -> list[list[str]]:
    """Return everything acknowledged in a folder. The last line of a killed worker counts only if it is complete."""
    texts = [path.read_text() for path in acks.iterdir()]
    return [line.split() for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]


def check_nothing_was_lost(database: Path, acks: Path) -> dict[str, Task]:
    """Check the invariants. Return the tasks for further checks."""
    store = SqliteStore(str(database))
    tasks = {task.id: task for task in store.tasks.find(Filter())}
    store.close()
    said = lines(acks)
    assert {line[1] for line in said if line[0] == "made"} <= set(tasks)
    claims = Counter((line[1], int(line[2])) for line in said if line[0] == "claimed")
    assert [claim for claim, times in claims.items() if times > 1] == []
    assert all(tasks[key].epoch >= epoch for key, epoch in claims)
    assert all(tasks[line[1]].status == "closed" for line in said if line[0] == "closed")
    connection = apsw.Connection(str(database))
    assert connection.pragma("integrity_check") == "ok"
    assert connection.pragma("foreign_key_check") is None
    connection.close()
    return tasks


def share_out(folder: Path, processes: int, total: int) -> None:
    """Let processes create and claim tasks together, all from the first moment."""
    database, acks = folder / "fleet.db", folder / "acks"
    acks.mkdir()
    shares = [total // processes + (number < total % processes) for number in range(processes)]
    workers = [
        started("load.py", "share", database, acks / f"w{number}", f"w{number}", share)
        for number, share in enumerate(shares)
    ]
    assert [worker.wait(timeout=280) for worker in workers] == [0] * processes
    tasks = check_nothing_was_lost(database, acks)
    claims = [line[1] for line in lines(acks) if line[0] == "claimed"]
    assert len(tasks) == len(claims) == len(set(claims)) == total
    assert all((task.status, task.epoch) == ("in_progress", 1) for task in tasks.values())
    for path in acks.iterdir():
        mine = [line.split()[1] for line in path.read_text().splitlines() if line.startswith("claimed")]
        assert {tasks[key].claim_owner for key in mine} <= {path.name}


def kill_at_random(folder: Path, kills: int, at_once: int, seed: int) -> None:
    """Kill endless workers one after another in the middle of their work."""
    chance = random.Random(seed)
    database, acks = folder / "fleet.db", folder / "acks"
    acks.mkdir()
    workers: dict[Path, subprocess.Popen[str]] = {}
    names = iter(range(kills + at_once))
    try:
        while kills:
            while len(workers) < at_once:
                name = next(names)
                path = acks / f"k{name}"
                workers[path] = started("load.py", "endless", database, path, f"k{name}", chance.randrange(10**9))
            victim = chance.choice(list(workers))
            wait_for_lines(victim, chance.randint(0, 25), workers[victim])
            workers[victim].kill()
            assert workers.pop(victim).wait(timeout=30) == -signal.SIGKILL
            kills -= 1
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    tasks = check_nothing_was_lost(database, acks)
    store = SqliteStore(str(database))
    store.tasks.add(a_task())
    store.close()
    assert len(tasks) > 0


def wait_for_lines(path: Path, wanted: int, worker: subprocess.Popen[str]) -> None:
    """Wait until a worker has acknowledged so many lines."""
    deadline = monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < wanted:
        assert worker.poll() is None, "a worker ended by itself"
        assert monotonic() < deadline, "a worker made no progress for a minute"
        sleep(0.002)


def test_64_processes_share_2000_tasks(tmp_path: Path) -> None:
    share_out(tmp_path, 64, 2_000)


@pytest.mark.soak("load")
@pytest.mark.timeout(1_800)
def test_64_processes_share_50000_tasks(tmp_path: Path) -> None:
    share_out(tmp_path, 64, 50_000)


def test_50_kills_lose_no_acknowledged_change(tmp_path: Path) -> None:
    seed = int(os.environ.get("FLEET_SEED", "20260301"))
    sys.stdout.write(f"seed {seed}\n")
    kill_at_random(tmp_path, 50, 6, seed)


@pytest.mark.soak("kills")
@pytest.mark.timeout(1_800)
def test_1000_kills_lose_no_acknowledged_change(tmp_path: Path) -> None:
    seed = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(10**9)))
    sys.stdout.write(f"seed {seed}\n")
    kill_at_random(tmp_path, 1_000, 12, seed)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Yield a file system with almost no room."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", folder], capture_output=True
    )
    require(mounted.returncode == 0, "a full disk: mounting a small tmpfs is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(store: SqliteStore, size: int) -> list[str]:
    """Return the ids of the tasks that were stored before the disk was full."""
    kept: list[str] = []
    while len(kept) < 10_000:
        task = a_task(description="x" * size)
        try:
            store.tasks.add(task)
        except StoreFault as fault:
            assert "no room left on the disk" in str(fault)
            assert "free some space" in fault.hint
            return kept
        kept.append(task.id)
    raise AssertionError("the disk never filled up")


def test_full_disk_is_reported_and_survived(tmp_path: Path) -> None:
    with small_disk(tmp_path, "3m") as folder:
        database = folder / "fleet.db"
        ballast = folder / "ballast"
        store = SqliteStore(str(database), make=True)
        ballast.write_bytes(b"x" * 1_000_000)
        kept = fill(store, 20_000) + fill(store, 10)
        with pytest.raises(StoreFault, match="no room left"), store.atomic():
            store.tasks.add(a_task(id="fleet-half", description="x" * 500_000))
            store.tasks.add(a_task(id="fleet-other-half", description="x" * 500_000))
        assert [task.id for task in store.tasks.find(Filter(), sort="id")] == sorted(kept)
        other = SqliteStore(str(database))
        assert len(other.tasks.find(Filter())) == len(kept)
        other.close()
        ballast.unlink()
        more = a_task(description="x" * 20_000)
        store.tasks.add(more)
        assert store.tasks.get(more.id) == more
        store.close()
        connection = apsw.Connection(str(database))
        assert connection.pragma("integrity_check") == "ok"
        connection.close()
        assert len(kept) > 20


def test_queue_can_be_created_once_a_full_disk_has_room(tmp_path: Path) -> None:
    with small_disk(tmp_path, "1m") as folder:
        ballast = folder / "ballast"
        with suppress(OSError):
            ballast.write_bytes(b"x" * 2_000_000)
        with pytest.raises(StoreFault, match="no room left"):
            SqliteStore(str(folder / "fleet.db"), make=True)
        ballast.unlink()
        store = SqliteStore(str(folder / "fleet.db"), make=True)
        store.tasks.add(a_task())
        store.close()


def test_writers_wait_while_another_process_holds_the_database(tmp_path: Path) -> None:
    database = tmp_path / "fleet.db"
    reader = SqliteStore(str(database), make=True)
    holder = started("lock.py", database, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    writers = [started("writer.py", database, f"fleet-{number}", stdout=subprocess.PIPE) for number in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "trying\n"
    with pytest.raises(subprocess.TimeoutExpired):
        writers[0].wait(timeout=3)
    assert reader.tasks.count(Filter()) == {"": 0}
    holder.stdin.close()
    assert [process.wait(timeout=120) for process in (holder, *writers)] == [0] * 4
    assert reader.tasks.count(Filter()) == {"": 3}
    reader.close()
    for process in (holder, *writers):
        assert process.stdout is not None
        process.stdout.close()
