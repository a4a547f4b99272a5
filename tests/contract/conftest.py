"""Every queue there is, for the tests of their common promises."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import FakeClock
from fleet.store.base import Queue
from fleet.store.memory import MemoryQueue
from fleet.store.sqlite import SqliteQueue

QUEUES: dict[str, Callable[[Path, FakeClock], Queue]] = {
    "memory": lambda folder, clock: MemoryQueue(now=clock),
    "sqlite": lambda folder, clock: SqliteQueue(str(folder / "fleet.db"), make=True, now=clock),
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Queue]:
    opened = QUEUES[request.param](tmp_path, clock)
    yield opened
    opened.close()
