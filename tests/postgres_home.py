"""A home whose tasks are in PostgreSQL, watched from outside like any other."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from postgres import server
from program import Program
from supervised import Supervised

#: The test server needs no password, but tests can check that it is never printed.
PASSWORD = "hunter22-hunter22"


class SharedHome(Supervised):
    """A home whose queue is named by FLEET_QUEUE."""

    def __init__(self, fleet: Program, url: str) -> None:
        self.url = url
        fleet.env["FLEET_QUEUE"] = with_password(url)
        super().__init__(fleet)

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, options="-c search_path=fleet", row_factory=dict_row) as link:
            return link.execute(sql.replace("?", "%s").encode(), values).fetchall()


def with_password(url: str) -> str:
    return url.replace("fleet@", f"fleet:{PASSWORD}@")


@pytest.fixture
def shared(fleet: Program) -> Iterator[SharedHome]:
    made = SharedHome(fleet, server().make_database())
    yield made
    made.stop()
