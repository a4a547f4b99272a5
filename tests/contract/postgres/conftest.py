"""A queue in PostgreSQL, and a server of their own for tests that stop it."""

from collections.abc import Iterator

import pytest

from fleet.store.postgres import PostgresStore
from postgres import Server, emptied, server, shared_database


@pytest.fixture
def url() -> str:
    """A database without tasks."""
    return emptied(shared_database())


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(url)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server to be stopped, over TCP."""
    server()  # or the test is left out
    made = Server(tcp=True)
    yield made
    made.remove()
