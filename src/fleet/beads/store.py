"""The store for tasks in beads: bd holds the tasks, and the home's SQLite file holds a copy.

The copy also holds the data that bd cannot store. Reads check whether bd changed, without starting a process, and
update the copy if it did. Writes go to the copy first. fleet passes them to bd before the commit and rolls back if bd
refuses them. Claims, tokens and history exist only in the file: bd has been seen to give one task to two claimants, so
a row in the file decides.
"""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

from fleet.beads import folder as beads_folder
from fleet.beads.connection import BeadsConnection
from fleet.beads.mirror import OWNER, PROGRAM, SEEN, SETTINGS, Mirror
from fleet.beads.program import Bd, find_program
from fleet.beads.push import claim_in_bd
from fleet.core import clock
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.store.base import SqlConfig, Store
from fleet.store.sql.claims import SqlClaims, claim_of
from fleet.store.sqlite.checks import health
from fleet.store.sqlite.store import SqliteStore, search_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from fleet.core.clock import Clock
    from fleet.core.filter import Lane
    from fleet.core.health import HealthCheck
    from fleet.core.task import Claim, Task
    from fleet.store.sql.tasks import SqlTasks
    from fleet.store.sql_connection import Search, SqlConnection

log = logging.getLogger(__name__)


class BeadsStore(Store):
    """The tasks of a `.beads` folder, with the claims and settings of one home."""

    is_shared = False
    connection: BeadsConnection

    def __init__(
        self,
        path: str,
        folder: str,
        *,
        make: bool = False,
        migrate: bool = False,
        check_new: Callable[[], None] = lambda: None,
        now: Clock = clock.now,
    ) -> None:
        file = BeadsConnection(path, make=make, migrate=migrate, check_new=check_new)
        super().__init__(file, now, search_in(file, now))
        self._committed = SqliteStore(path, now=now)
        self.mirror = Mirror(self, self._committed, file, folder)
        self.claims = BeadsClaims(file, now, self.tasks, self._search, self._committed, self.mirror)
        self.config = BeadsConfig(file)
        if make and not os.path.isdir(folder):  # noqa: PTH112
            beads_folder.make_folder(Bd(find_program(os.environ), folder))
        file.watch(self.mirror)

    def close(self) -> None:
        self._committed.close()
        super().close()

    def confirm(self) -> None:
        self.connection.confirm()

    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        return beads_folder.listen_for_writes(self.mirror.folder, call)

    def was_moved(self) -> bool:
        with self.connection.unwatched():
            return super().was_moved()

    def health(self) -> list[HealthCheck]:
        with self.connection.unwatched():
            return [self.mirror.vital(), *health(self.connection)]


class BeadsConfig(SqlConfig):
    """The bd settings, without the internal settings of the copy."""

    def all(self) -> dict[str, str]:
        hidden = (SEEN, PROGRAM, OWNER, SETTINGS)
        return {key: value for key, value in super().all().items() if key not in hidden}


class BeadsClaims(SqlClaims):
    """Claims in the file that bd must confirm.

    All other writes reach bd at the end of their transaction.
    """

    def __init__(
        self, connection: SqlConnection, now: Clock, tasks: SqlTasks, search: Search, committed: Store, mirror: Mirror
    ) -> None:
        super().__init__(connection, now, tasks, search)
        self._committed = committed
        self._mirror = mirror

    def acquire(self, owner: str, lanes: Sequence[Lane], *, room: int, ttl: timedelta) -> list[Claim]:
        mirror = self._mirror
        with self._db.writing(durable=False):
            mirror.note_owner(owner)
            claims = super().acquire(owner, lanes, room=room, ttl=ttl)
            ids = tuple(each.task.id for each in claims)
            known = {task.id: task for task in self._committed.tasks.find(Filter(ids=ids))}
            pairs = [(known[each.task.id], each.task) for each in claims if each.task.id in known]
            with mirror.turn() if pairs else nullcontext():
                lost = claim_in_bd(mirror.bd, pairs)
            for before, after in pairs:
                if before.id in lost:
                    mirror.leave_alone(before, lost[before.id])
                else:
                    mirror.note_given(before, after)
            for claim in claims:
                if claim.task.id not in known:  # bd gets this task only at the end of this transaction
                    self._tasks.save(claim.task.freed(self._now()))
        return [claim for claim in claims if claim.task.id in known and claim.task.id not in lost]

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        held = [self._find_retaken(claim) for claim in super().renew(claims, ttl=ttl)]
        if held and self._mirror.fenced:
            self._mirror.beat({claim.task.id: claim.owner for claim in held})
        return held

    def expired(self) -> list[str]:
        return [*super().expired(), *(task.id for task in self._mirror.strays())]

    def reap(self, *, spare: Iterable[str] = ()) -> list[Task]:
        with self._db.writing():
            strays = [task.freed(self._now()) for task in self._mirror.strays()]
            for task in strays:
                self._tasks.save(task)
            return [*super().reap(spare=spare), *strays]

    def _find_retaken(self, claim: Claim) -> Claim:
        """Return the renewed claim, with its task claimed again if bd reopened it meanwhile (`bd reclaim`)."""
        if not _is_dropped(claim.task):
            return claim
        tasks = self._tasks
        try:
            with self._db.writing(durable=False):
                task = tasks.held(claim)
                if _is_dropped(task):
                    tasks.save(task.moved(Status.IN_PROGRESS, self._now()).replace(assignee=claim.owner))
                return claim_of(tasks.get(task.id))
        except FleetError as error:  # the next read finds the new holder in bd, and the claim is lost then
            log.info("cannot return %s to its owner in bd: %s", claim.task.id, error)
            return claim


def _is_dropped(task: Task) -> bool:
    """Return True if bd lists a task that we hold as open and unassigned."""
    return task.status == Status.OPEN and not task.assignee
