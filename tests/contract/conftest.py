"""Every queue and history there is, for the tests of their common promises.

All of them run on all queues, in `make test`: in memory, in SQLite, in PostgreSQL, and in beads with a real bd of each
family. There a write is a process of bd, so a call that bd has answered in this run, with the same folder before it, is
answered from memory (`remembered_bd`): bd itself is run once for each call that differs. Where time or others' writes
matter nothing is remembered: leases, transactions taken back, finding after an import (`test_beads_*`), and all of
`tests/real`. In `make soak` alone: five hundred random steps instead of a few, and the five minutes of a lease.

What bd cannot hold is named in `beads.DIFFERENT` and is expected to fail: should it hold one day, that is told.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import FakeClock, count_anew
from fleet.store.base import History, Queue
from fleet.store.memory import MemoryQueue
from fleet.store.memory_history import MemoryHistory
from fleet.store.postgres import PostgresQueue
from fleet.store.postgres_history import PostgresHistory
from fleet.store.sqlite import SqliteQueue
from fleet.store.sqlite_history import SqliteHistory
from postgres import emptied, shared_database


def in_postgres(clock: FakeClock) -> PostgresQueue:
    """A queue without tasks in this process's server, which has not been there for long enough to let others reap."""
    return PostgresQueue(emptied(shared_database()), grace=timedelta(0), now=clock)


QUEUES: dict[str, Callable[[Path, FakeClock], Queue]] = {
    "memory": lambda folder, clock: MemoryQueue(now=clock),
    "sqlite": lambda folder, clock: SqliteQueue(str(folder / "fleet.db"), make=True, now=clock),
    "postgres": lambda folder, clock: in_postgres(clock),
    "beads": lambda folder, clock: beads.remembered_queue_in(folder, beads.NEW, clock),
    "beads-old": lambda folder, clock: beads.remembered_queue_in(folder, beads.OLD, clock),
}

# Each keeps its rows with a queue of the same name.
HISTORIES: dict[str, Callable[[Any], History]] = {
    "memory": MemoryHistory,
    "sqlite": SqliteHistory,
    "postgres": PostgresHistory,
    "beads": SqliteHistory,
    "beads-old": SqliteHistory,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have what bd cannot hold fail by name."""
    beads.sort_out(items)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Queue]:
    count_anew()  # so that two tests that say the same say it in the same words
    opened = QUEUES[request.param](tmp_path, clock)
    yield opened
    opened.close()


@pytest.fixture
def history(request: pytest.FixtureRequest, queue: Queue) -> History:
    return HISTORIES[request.node.callspec.params["queue"]](queue)
