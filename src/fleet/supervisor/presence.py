"""The row in which a host shows itself to other hosts. The row is updated while its supervisor runs."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from fleet import __version__
from fleet.core.host import Host
from fleet.supervisor.host import is_seen, machine_mark, name_of, pin_here

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.supervisor.context import Context

log = logging.getLogger(__name__)


class Presence:
    """This host's row. Its methods call the store."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._told: list[datetime] = []  # when this host wrote its row: even a write without an answer may count
        self._twin = False
        self._namesakes: list[str] = []
        self._copies: list[str] = []
        self._machine = machine_mark(context.home)

    def tell(self, agents: int) -> None:
        """Write the row with the current state."""
        context, store = self._context, self._context.store.ports
        rows = store.hosts.all()
        self._look_for_twin(next((row for row in rows if row.id == context.owner), None))
        self._look_for_namesakes(rows)
        row = self._row(agents, context.settings.max_concurrent)
        self._told = [*self._told[-1:], row.seen_at]
        store.hosts.keep(row)

    def leave(self, agents: int) -> None:
        """Write a row without slots, which shows that this host takes no more tasks. Its agents may continue."""
        self._context.store.ports.hosts.keep(self._row(agents, 0))

    def look(self, own: Host | None, agents: int) -> list[str]:
        """Return why this host may take no tasks, according to its row.

        Write the row at once if its content has changed.
        """
        context = self._context
        name = name_of(context.settings)
        if self._twin:
            return [f"another supervisor also uses the name {name}"]
        if own is not None and self._told and _said(own) != _said(self._row(agents, context.settings.max_concurrent)):
            self.tell(agents)
        return [f"this host, {name}, is drained"] if own is not None and own.drained_at is not None else []

    def _row(self, agents: int, slots: int) -> Host:
        context = self._context
        return Host(
            id=context.owner,
            name=name_of(context.settings),
            labels=(*context.settings.host.labels, pin_here(context.home)),
            slots=slots,
            agents=agents,
            load=_load(),
            version=__version__,
            address=context.cluster.address,
            machine=self._machine,
            seen_at=context.now(),
        )

    def _look_for_twin(self, own: Host | None) -> None:
        """Detect another machine with the same host name and home path, and so the same id, by the times in the row."""
        self._twin = own is not None and own.slots > 0 and bool(self._told) and own.seen_at not in self._told
        if self._twin:
            owner = self._context.owner
            log.error("another supervisor also uses the name %s; give each host its own [host] name", owner)

    def _look_for_namesakes(self, rows: list[Host]) -> None:
        context, now = self._context, self._context.now()
        name, seconds = name_of(context.settings), context.settings.supervisor.claim_seconds
        pin = pin_here(context.home)
        others = [row for row in rows if row.name == name and row.id != context.owner]
        found = [row.id for row in others if is_seen(row, now, seconds)]
        if found and found != self._namesakes:
            log.warning("%s also uses the name %s: tasks that require this host may run there", ", ".join(found), name)
        self._namesakes = found
        alike = [row for row in rows if pin in row.labels and row.machine != self._machine]
        copies = [row.id for row in alike if row.id != context.owner and is_seen(row, now, seconds)]
        if copies and copies != self._copies:
            words = "%s has a copy of this home: tasks that stay on their host may run there; remove %s in one copy"
            log.warning(words, ", ".join(copies), context.home.identity)
        self._copies = copies


def _said(row: Host) -> tuple[object, ...]:
    """Return the fields by which others find a host."""
    return row.name, row.labels, row.slots, row.address


def _load() -> float:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:  # some containers do not report it
        return 0.0
