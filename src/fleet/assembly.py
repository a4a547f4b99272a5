"""Puts fleet together: opens the home's queue and hands it to the actions. The only module that names products."""

from __future__ import annotations

from fleet.store.sqlite import SqliteQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from fleet.home import Home
    from fleet.store.base import Queue


class Fleet:
    """A home with its queue open: what every action works on."""

    def __init__(self, home: Home, queue: Queue) -> None:
        self.home = home
        self.queue = queue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.queue.close()


def open_fleet(home: Home, *, make: bool = False) -> Fleet:
    """Open the queue of a home; with `make` its folders and database are made where missing. Raises HomeMissing."""
    if make:
        home.make()
    else:
        home.require()
    return Fleet(home, SqliteQueue(home.database, make=make))
