"""The end of what an agent did, kept where other hosts find it when this one is gone."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.engine.live import Live
    from fleet.engine.office import Office

log = logging.getLogger(__name__)

LONGEST = 64 * 1024
EVERY_SECONDS = 10.0


class Tails:
    """Which runs have news that are not kept yet."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._kept: dict[str, int] = {}  # by run: how many events it had

    async def keep(self, lives: Iterable[Live]) -> None:
        """Keep the tails of the runs that have news."""
        lives = list(lives)
        for live in lives:
            if self._kept.get(live.run.id) != live.run.events:
                self._kept[live.run.id] = live.run.events
                await keep_tail(self._office, live)
        self._kept = {live.run.id: self._kept[live.run.id] for live in lives if live.run.id in self._kept}


async def keep_tail(office: Office, live: Live) -> None:
    """Keep the end of a run's events, which are without secrets; where no other host could read it nothing is kept."""
    if not office.store.is_shared:
        return
    with contextlib.suppress(OSError):
        data, _ = live.folder.events_part(-LONGEST, LONGEST)
        text = data.decode("utf-8", "replace").replace("\0", "")
        try:
            await office.ask(office.store.tails.keep, live.run.id, text, office.now())
        except FleetError as error:  # the next one tries again; nothing but a view of it is lost
            log.warning("the end of %s is not kept: %s", live.run.id, error)
