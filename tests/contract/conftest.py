"""Every queue and history there is, for the tests of their common promises."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import FakeClock
from fleet.store.base import History, Queue
from fleet.store.memory import MemoryQueue
from fleet.store.memory_history import MemoryHistory
from fleet.store.sqlite import SqliteQueue
from fleet.store.sqlite_history import SqliteHistory

QUEUES: dict[str, Callable[[Path, FakeClock], Queue]] = {
    "memory": lambda folder, clock: MemoryQueue(now=clock),
    "sqlite": lambda folder, clock: SqliteQueue(str(folder / "fleet.db"), make=True, now=clock),
}

# Each keeps its rows with a queue of the same name.
HISTORIES: dict[str, Callable[[Any], History]] = {
    "memory": MemoryHistory,
    "sqlite": SqliteHistory,
}


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
