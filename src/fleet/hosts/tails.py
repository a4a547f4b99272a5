"""The end of each run's events, stored in the queue. Other hosts show it while this host is unreachable."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.engine.context import Context
    from fleet.engine.store_calls import StoreCalls
    from fleet.hosts.cluster import LiveRun

log = logging.getLogger(__name__)

#: How many bytes of a run's events are stored, and how often.
LONGEST = 64 * 1024
EVERY_SECONDS = 10.0


async def store_tail(store: StoreCalls, live: LiveRun) -> None:
    """Store the end of a run's events. The events hold no secrets."""
    with contextlib.suppress(OSError):
        data, _ = live.folder.events_part(-LONGEST, LONGEST)
        text = data.decode("utf-8", "replace").replace("\0", "")
        try:
            await store.call(store.tails.keep, live.run.id, text, store.now())
        except FleetError as error:  # the next store tries again; only the view from other hosts is affected
            log.warning("the end of %s is not kept: %s", live.run.id, error)


class EventTails:
    """The stored tails of live runs, updated for runs with new events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: dict[str, int] = {}  # the number of events stored, by run id

    async def store(self, lives: Iterable[LiveRun]) -> None:
        lives = list(lives)
        for live in lives:
            if self._kept.get(live.run.id) != live.run.events:
                self._kept[live.run.id] = live.run.events
                await store_tail(self._context.store, live)
        self._kept = {live.run.id: self._kept[live.run.id] for live in lives if live.run.id in self._kept}
