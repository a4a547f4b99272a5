"""All stores, for the tests of their common contract: one file per port.

`make test` runs each test with the stores in SQLite and PostgreSQL. Each call of a real bd takes a quarter of a second
of CPU. `make test` therefore includes beads only for work that bd does: adding, changing, linking, claiming, settling
and deleting tasks. The other tests have the mark `bd_in_soak`: finding, blocked and ready tasks, lanes, tokens and all
about runs. fleet answers these from its own SQLite file, also in a home with beads. `make soak` runs the marked tests
with beads, and all tests with a bd of the older family.

`beads.DIFFERENT` lists the tests that fail with bd. Such a test must fail: pytest reports it if it passes.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import beads
from builders import FakeClock
from fleet.store.base import Store
from fleet.store.postgres.store import PostgresStore
from fleet.store.sqlite.store import SqliteStore
from postgres import emptied, shared_database


def in_postgres(clock: FakeClock) -> PostgresStore:
    """Return an empty store in the PostgreSQL server of this process. It may reap expired claims at once."""
    return PostgresStore(emptied(shared_database()), grace=timedelta(0), now=clock)


STORES: dict[str, Callable[[Path, FakeClock], Store]] = {
    "sqlite": lambda folder, clock: SqliteStore(str(folder / "fleet.db"), make=True, now=clock),
    "postgres": lambda folder, clock: in_postgres(clock),
    "beads": lambda folder, clock: beads.store_in(folder, beads.NEW, clock),
    "beads-old": lambda folder, clock: beads.store_in(folder, beads.OLD, clock),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with beads before pytest deselects the soak tests."""
    beads.sort_out(items)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    opened = STORES[request.param](tmp_path, clock)
    yield opened
    opened.close()
