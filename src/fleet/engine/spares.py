"""Keeping spare checkouts: a few for each repository in which agents are started, made when nothing else is."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.workspaces.deleting import sweep
from fleet.workspaces.spare import ASIDE, make

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fleet.config import Settings
    from fleet.workspaces.repository import Repository
    from fleet.workspaces.spare import Spare

log = logging.getLogger(__name__)

#: How many are kept for a repository, as many as were last asked for at once; how much of the disk they may take, and
#: of what is free there.
LEAST, MOST = 5, 25
MOST_BYTES = 256 * 1024 * 1024
MOST_OF_FREE = 0.05
#: They are made when no worktree was asked for in so many seconds, and go when none was for so long.
QUIET_SECONDS, UNUSED_SECONDS = 1.0, 3600.0


class Wanted(NamedTuple):
    """Where spare checkouts are wanted, and of what."""

    repository: Repository
    place: str  # the folder of the repository's worktrees
    commit: str
    is_trusted: Callable[[], Awaitable[bool]]  # whether git may still obey the repository's settings


class Spares:
    """The spare checkouts of one supervisor. Used from its loop alone, but for the making."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Spare]] = {}
        self._later: dict[str, asyncio.Task[None]] = {}
        self._asked: dict[str, int] = {}  # how often since the last pause
        self._aims: dict[str, int] = {}

    def take(self, repository: Repository) -> Spare | None:
        """A spare checkout for a worktree of a repository, if there is one. Whoever takes it lets go of it."""
        kept = self._kept.get(repository.common)
        return kept.pop() if kept else None

    def next_of(self, repository: Repository) -> Spare | None:
        """The one that would be taken next; it stays."""
        kept = self._kept.get(repository.common)
        return kept[-1] if kept else None

    def want(self, wanted: Wanted, settings: Settings) -> None:
        """A worktree was made: others like it may be wanted soon."""
        if not settings.supervisor.warm_commands:
            return
        key = wanted.repository.common
        self._asked[key] = self._asked.get(key, 0) + 1
        earlier = self._later.get(key)
        self._later[key] = asyncio.create_task(self._keep(wanted), name=f"spares of {key}")
        if earlier is not None:
            earlier.cancel()

    async def _keep(self, wanted: Wanted) -> None:
        key = wanted.repository.common
        try:
            await asyncio.sleep(QUIET_SECONDS)
            self._aims[key] = max(self._aims.get(key, LEAST), min(MOST, self._asked.pop(key, 0)))
            await self.fill(wanted)
            await asyncio.sleep(UNUSED_SECONDS)
        finally:
            if self._later.get(key) is asyncio.current_task():  # nobody follows us: too old, or the end of all
                del self._later[key]
                self._aims.pop(key, None)
                for spare in self._kept.pop(key, []):
                    spare.let_go()
                sweep(wanted.place, ASIDE)

    async def fill(self, wanted: Wanted) -> None:
        """Make as many as are to be kept, while the repository is as it was trusted, and there is room."""
        kept = self._kept.setdefault(wanted.repository.common, [])
        try:
            while len(kept) < self._aims.get(wanted.repository.common, LEAST) and await wanted.is_trusted():
                spare = await _made(wanted)
                if spare is None:
                    return
                kept.append(spare)
                if sum(each.bytes for each in kept) + spare.bytes > await asyncio.to_thread(_room, wanted.place):
                    return
        except FleetError as error:
            log.warning("%s", error)


async def _made(wanted: Wanted) -> Spare | None:
    """Made to its end, even if nobody waits any more: then it goes at once."""
    # No task: at the end of the loop those are cancelled, and nobody would let go of what comes out of it.
    loop = asyncio.get_running_loop()
    making = loop.run_in_executor(None, make, wanted.repository, wanted.place, wanted.commit)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(partial(_came_late, wanted.place))
        raise


def _came_late(place: str, making: asyncio.Future[Spare | None]) -> None:
    if not making.cancelled() and making.exception() is None and (spare := making.result()):
        spare.let_go()
        sweep(place, ASIDE)


def _room(place: str) -> float:
    """How much all spares of a repository may take."""
    free = shutil.disk_usage(place).free if os.path.isdir(place) else 0  # noqa: PTH112
    return min(MOST_BYTES, free * MOST_OF_FREE)


#: There is one supervisor in a process.
SPARES = Spares()
