"""Every store, for the tests of their common promises: a file for each port.

`make test` tests each promise with the stores in SQLite and PostgreSQL. Each call of a real bd takes a quarter
of a second of CPU, so `make test` includes beads only if bd does part of the work: adding, changing, linking, claiming,
settling or deleting tasks. The other tests are marked `bd_in_soak`: finding, blocked and ready tasks, lanes, tokens and
all about runs are answered by fleet's own SQLite file, in a home with beads too. `make soak` runs these tests with
beads, and all tests with a bd of the older family.

`beads.DIFFERENT` lists the promises that bd cannot keep. Their tests must fail: one that passes is reported.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import beads
from builders import FakeClock
from fleet.store.base import Store
from fleet.store.postgres import PostgresStore
from fleet.store.sqlite import SqliteStore
from postgres import emptied, shared_database


def in_postgres(clock: FakeClock) -> PostgresStore:
    """A queue without tasks in this process's server, which has not been there for long enough to let others reap."""
    return PostgresStore(emptied(shared_database()), grace=timedelta(0), now=clock)


STORES: dict[str, Callable[[Path, FakeClock], Store]] = {
    "sqlite": lambda folder, clock: SqliteStore(str(folder / "fleet.db"), make=True, now=clock),
    "postgres": lambda folder, clock: in_postgres(clock),
    "beads": lambda folder, clock: beads.store_in(folder, beads.NEW, clock),
    "beads-old": lambda folder, clock: beads.store_in(folder, beads.OLD, clock),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with beads before pytest deselects those of `make soak`."""
    beads.sort_out(items)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    opened = STORES[request.param](tmp_path, clock)
    yield opened
    opened.close()
