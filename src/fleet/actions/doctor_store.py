"""What could be wrong with the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.assembly import open_fleet
from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.home import Home


def database(home: Home) -> Iterator[tuple[str, str, str, str]]:
    """Whether it can be opened, its schema, and what it says of its own health."""
    try:
        fleet = open_fleet(home)
    except FleetError as error:
        yield "schema", "wrong", str(error), error.hint
        return
    with fleet:
        yield "schema", "ok", "the one this fleet knows", ""
        for vital in fleet.store.health():
            yield vital.name, vital.state, vital.fact, vital.remedy
