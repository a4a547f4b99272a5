"""Hearing that somebody wrote something: a connection of its own that only listens, opened again when it breaks."""

from __future__ import annotations

import logging
import os
import select
import threading
from typing import TYPE_CHECKING

import psycopg

from fleet.core.clock import growing_pauses
from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.store.postgres_connection import Connection
    from fleet.store.postgres_link import Link

log = logging.getLogger(__name__)

#: Between two tries to listen again.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
STOP_SECONDS = 1.0


class Listener(threading.Thread):
    """Calls somebody whenever the database has news; what is missed while it is away, one call makes good."""

    def __init__(self, connection: Connection, call: Callable[[], None]) -> None:
        super().__init__(name="listener", daemon=True)
        self._connection, self._call = connection, call
        self._heard, self._end = os.pipe()
        self._told = False

    def stop(self) -> None:
        """Stop listening. One that is just being connected ends a little later by itself."""
        os.close(self._end)
        self.join(STOP_SECONDS)

    def run(self) -> None:
        try:
            self._listen()
        finally:
            os.close(self._heard)

    def _listen(self) -> None:
        pauses = growing_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                with self._connection.link() as link:
                    link.execute(b"listen fleet")
                    pauses, self._told = growing_pauses(FIRST_PAUSE, LONGEST_PAUSE), False
                    self._call()  # for what was written before we listened
                    self._follow(link)
                    return
            except (FleetError, psycopg.Error, OSError) as error:
                self._tell(error)
            if self._ends_within(next(pauses)):
                return

    def _follow(self, link: Link) -> None:
        """Call until stopped. Raises when the connection breaks."""
        while True:
            ready, _, _ = select.select([link.fileno(), self._heard], [], [])
            if self._heard in ready:
                return
            if list(link.notifies(timeout=0)):
                self._call()

    def _ends_within(self, seconds: float) -> bool:
        return bool(select.select([self._heard], [], [], seconds)[0])

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("not listening to the database, only looking now and then: %s", error)
