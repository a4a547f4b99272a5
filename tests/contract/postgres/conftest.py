"""A store in PostgreSQL, and a separate server for tests that stop it."""

from collections.abc import Iterator

import pytest

from fleet.store.postgres.store import PostgresStore
from postgres import Server, emptied, server, shared_database


@pytest.fixture
def url() -> str:
    """Return the connection string of a database without tasks."""
    return emptied(shared_database())


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(url)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """Yield a separate server that listens on TCP and can be stopped."""
    server()  # skip without PostgreSQL
    made = Server(tcp=True)
    yield made
    made.remove()
