"""Every queue and history there is, for the tests of their common promises.

In beads a write is a process of bd, so `make test` has a part of them there, and `make soak` all with both bds:

- with both bds: what `beads.WITH_BOTH` names, where the families differ; leases and transactions taken back
  (`test_beads_leases`, `test_beads_taken_back`)
- with one of them, by the test's name: `beads.WITH_ONE`, and histories but for their fencing and accounts
- with the newer: every condition of finding at once (`test_beads_find`), a few steps of the state machine
- in `make soak` alone: the rest, five hundred steps of the state machine, and the five minutes of a lease

What bd cannot hold is named in `beads.DIFFERENT` and is expected to fail: should it hold one day, that is told.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import FakeClock
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
    "beads": lambda folder, clock: beads.queue_in(folder, beads.NEW, clock),
    "beads-old": lambda folder, clock: beads.queue_in(folder, beads.OLD, clock),
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
    """Keep for `make soak` what takes too many processes of bd, and have what bd cannot hold fail by name."""
    beads.sort_out(items)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Queue]:
    opened = QUEUES[request.param](tmp_path, clock)
    yield opened
    opened.close()


@pytest.fixture
def history(request: pytest.FixtureRequest, queue: Queue) -> History:
    return HISTORIES[request.node.callspec.params["queue"]](queue)
