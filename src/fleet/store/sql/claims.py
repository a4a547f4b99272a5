"""Claims: which supervisor or person works on a task, and until when."""

from __future__ import annotations

from fleet.core import clock
from fleet.core.errors import ClaimLost
from fleet.core.filter import Filter, claimable_in
from fleet.core.task import Claim
from fleet.store.named_sql import SqlPort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import timedelta

    from fleet.core.clock import Clock
    from fleet.core.filter import Lane
    from fleet.core.task import Task, Verdict
    from fleet.store.sql.tasks import SqlTasks
    from fleet.store.sql_connection import Search, SqlConnection


class SqlClaims(SqlPort):
    """The claim columns of tasks.

    `may_take` returns True if expired claims of other owners may be taken. It is called after the time was read.
    """

    file = "queries"

    def __init__(
        self,
        connection: SqlConnection,
        now: Clock,
        tasks: SqlTasks,
        search: Search,
        may_take: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(connection)
        self._now = now
        self._tasks = tasks
        self._search = search
        self._may_take = may_take

    def acquire(self, owner: str, lanes: Sequence[Lane], *, room: int, ttl: timedelta) -> list[Claim]:
        """Claim ready tasks that fit these lanes, at most `room` in total, each with a new epoch."""
        # Not durable: if a power cut loses a claim, its task was never started.
        with self._db.writing(durable=False, alone=False):
            found: dict[tuple[int, int, str], tuple[str, str]] = {}
            for lane, limit in self._with_room(lanes, room):
                # A task may fit several lanes, so look past tasks that an earlier lane has taken.
                fitting = self._search.urgent(claimable_in(lane), limit + len(found))
                found |= dict.fromkeys([row for row in fitting if row not in found][:limit], lane.seat)
            seats = {row[2]: found[row] for row in sorted(found)[:room]}
            if not seats:
                return []
            now = self._now()
            instants = {"now": clock.to_micros(now), "expires": clock.to_micros(now + ttl)}
            self._sql.rows("claim", owner=owner, ids=self._db.listed(seats), **instants)
            taken = {task.id: task for task in self._tasks.find(Filter(ids=tuple(seats)), sort="id")}
            return [claim_of(taken[key]).replace(seat=seat) for key, seat in seats.items()]

    def waiting_coders(self) -> list[str]:
        """Return the coders that claimable tasks name; "" stands for tasks that name none."""
        return self._sql.first("waiting_coders")

    def take(self, task_id: str, actor: str) -> Task:
        """Claim one task manually, without expiry. Raises AlreadyClaimed, NotClaimable."""
        with self._db.writing():
            task = self._tasks.get(task_id).taken(actor, self._now())
            self._tasks.save(task)
            return task

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        """Extend the claims that are still held. Return them in the same order, with their current tasks."""
        with self._db.writing(durable=False, alone=False):
            expires = clock.to_micros(self._now() + ttl)
            held = []
            for claim in claims:
                self._sql.rows("renew", id=claim.task.id, owner=claim.owner, epoch=claim.epoch, expires=expires)
                if self._db.changes():
                    held.append(claim_of(self._tasks.get(claim.task.id)))
            return held

    def settle(self, claim: Claim, verdict: Verdict) -> Task:
        """Apply the verdict to a task. Raises ClaimLost if the epoch is no longer ours or the task was deleted."""
        with self._db.writing():
            task = verdict.on(self._tasks.held(claim), self._now())
            self._tasks.save(task)
            return task

    def release(self, claim: Claim) -> Task:
        """Give a task back as if it had not been claimed. Raises ClaimLost."""
        with self._db.writing():
            task = self._tasks.held(claim).freed(self._now())
            self._tasks.save(task)
            return task

    def adopt(self, task_id: str, owner: str, *, epoch: int, ttl: timedelta) -> Claim:
        """Claim a task again: our own after a restart, or one whose claim expired. Raises ClaimLost.

        The run continues under the next epoch, and its token stays valid.
        """
        with self._db.writing(durable=False):
            now = self._now()
            task = self._tasks.get(task_id)
            if task.claim_owner != owner and not self._may_take():
                raise ClaimLost(task_id, epoch)
            self._tasks.save(task.adopted(owner, epoch, now, now + ttl))
            self._sql.rows("move_callers", id=task_id, before=epoch, after=epoch + 1)
            self._sql.rows("move_runs", id=task_id, before=epoch, after=epoch + 1, owner=owner)
            return claim_of(self._tasks.get(task_id))

    def expired(self) -> list[str]:
        """Return the tasks that `reap` would give back. Usually there are none, and the query is cheap."""
        return self._sql.first("expired", now=clock.to_micros(self._now()))

    def reap(self, *, spare: Iterable[str] = ()) -> list[Task]:
        """Give back all tasks whose claim has expired, except those in `spare`, whose agents are known to live."""
        with self._db.writing():
            now = self._now()
            if not self._may_take():
                return []
            spared = set(spare)
            expired = [key for key in self._sql.first("expired", now=clock.to_micros(now)) if key not in spared]
            reaped = [self._tasks.get(key).freed(now) for key in expired]
            for task in reaped:
                self._tasks.save(task)
            return reaped

    def request_cancel(self, task_id: str, reason: str) -> Task:
        """Ask the holder of the task to stop."""
        with self._db.writing():
            task = self._tasks.get(task_id).replace(cancel_requested_at=self._now(), cancel_reason=reason)
            self._tasks.save(task)
            return task

    def _with_room(self, lanes: Sequence[Lane], room: int) -> Iterator[tuple[Lane, int]]:
        """Yield the lanes that may take tasks, each with its limit."""
        self._lock_seats(sorted({lane.seat for lane in lanes if lane.limit is not None}))
        for lane in lanes:
            limit = min(lane.room, room)
            if lane.limit is not None:
                limit = min(limit, lane.limit - self._at_work(*lane.seat))
            if limit > 0:
                yield lane, limit

    def _lock_seats(self, seats: list[tuple[str, str]]) -> None:
        """Keep other claims from counting the agents of these accounts until this transaction ends."""
        if "lock_seat" in self._sql:  # SQLite has one writer at a time and needs no lock
            for coder, account in seats:
                self._sql.rows("lock_seat", coder=coder, account=account)

    def _at_work(self, coder: str, account: str) -> int:
        return int(self._sql.rows("at_work", coder=coder, account=account)[0][0])


def claim_of(task: Task) -> Claim:
    assert task.claim_expires_at is not None
    return Claim(task=task, owner=task.claim_owner, epoch=task.epoch, expires_at=task.claim_expires_at)
