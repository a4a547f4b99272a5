"""Runs: all attempts at tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.errors import ClaimLost
from fleet.core.run import Ending, Run, Spent
from fleet.store.named_sql import SqlPort
from fleet.store.sql.records import record_from, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.task import Claim
    from fleet.store.sql.accounts import SqlAccounts
    from fleet.store.sql_connection import SqlConnection

_BEFORE_ALL = -(2**63)


class SqlRuns(SqlPort):
    """One row for each run. What a run consumed is added to its account."""

    file = "history"

    def __init__(self, connection: SqlConnection, now: Clock, accounts: SqlAccounts) -> None:
        super().__init__(connection)
        self._now = now
        self._accounts = accounts

    def begin(self, claim: Claim, run: Run) -> Run:
        """Store the next run of a claimed task and name the run in the task. Raises ClaimLost.

        The run gets the next number here, unless it already has a higher one because it was begun before. Earlier runs
        of the task that never ended are ended as lost, so that at most one is live. The run's account counts as used
        from now on.
        """
        with self._db.writing():
            earlier = self.of_task(claim.task.id)
            run = _number_run(run, claim, earlier)
            self._sql.rows("name_in_task", run=run.id, task=run.task_id, owner=run.owner, epoch=run.epoch)
            if not self._db.changes():
                raise ClaimLost(run.task_id, run.epoch)
            for each in earlier:
                if each.is_live:
                    lost = "its claim was lost and the task started again"
                    self.end(each.replace(ended_at=self._now(), ending=Ending.LOST, reason=lost))
            self._sql.rows("insert_run", **values_of(run))
            if run.coder:
                self._accounts.note_use(run)
            return run

    def fold(self, claim: Claim, run: Run) -> None:
        """Store the folded output of a live run, with the offsets read so far. Raises ClaimLost."""
        if self.fold_all([(claim, run)]):
            raise ClaimLost(claim.task.id, claim.epoch)

    def fold_all(self, pairs: Sequence[tuple[Claim, Run]]) -> list[str]:
        """Fold many runs at once.

        Return the ids of runs that were not stored because they ended or lost their claim.
        """
        lost = []
        # Not durable: after a power cut no agent is left to read from, and a kill loses nothing.
        with self._db.writing(durable=False, alone=False):
            for claim, run in pairs:
                fence = {"task": claim.task.id, "owner": claim.owner, "epoch": claim.epoch}
                self._sql.rows("fold_run", **(values_of(run) | fence))
                if not self._db.changes():
                    lost.append(run.id)
        return lost

    def end(self, run: Run) -> None:
        """Store how a run ended, by default now, and add its consumption to its account's totals.

        A run ends once: a second end changes nothing. The run's own epoch counts, because its claim is given back in
        the same transaction or was already taken away. Raises ClaimLost if the run was adopted since or never begun.
        """
        ended = run if run.ended_at else run.replace(ended_at=self._now())
        with self._db.writing():
            self._sql.rows("end_run", **values_of(ended))
            if self._db.changes():
                self._accounts.add_run(ended)
                return
            kept = self.get(run.id)
            if kept is None or kept.is_live:
                raise ClaimLost(run.task_id, run.epoch)

    def get(self, run_id: str) -> Run | None:
        return next(iter(self._runs("with_id", id=run_id)), None)

    def of_task(self, task_id: str) -> list[Run]:
        """Return all attempts at a task, oldest first."""
        return self._runs("of_task", task=task_id)

    def last(self, task_ids: Sequence[str]) -> dict[str, Run]:
        """Return the newest run of each of these tasks, in one query. Tasks without a run are left out."""
        return {run.task_id: run for run in self._runs("last_of_tasks", ids=self._db.listed(task_ids))}

    def spent(self, task_ids: Sequence[str]) -> dict[str, Spent]:
        """Return the totals over all runs of each of these tasks, in one query. Tasks without a run are left out."""
        rows = self._sql.rows("spent_on_tasks", ids=self._db.listed(task_ids), now=to_micros(self._now()))
        return {row[0]: record_from(Spent, row) for row in rows}

    def live(self, owner: str | None = None) -> list[Run]:
        """Return the runs that have not ended, of one owner or of all, oldest first."""
        return self._runs("live") if owner is None else self._runs("live_of_owner", owner=owner)

    def ended(self, *, before: datetime, after: tuple[datetime, str] | None = None, limit: int) -> list[Run]:
        """Return a page of the runs that ended before a moment, ordered by end and id.

        `after` is the end and the id of the last run of the previous page. The cost grows with the page, not with the
        history.
        """
        at, run_id = (to_micros(after[0]), after[1]) if after else (_BEFORE_ALL, "")
        return self._runs("ended", before=to_micros(before), after=at, after_id=run_id, limit=limit)

    def ended_last(self, *, after: datetime, limit: int) -> list[Run]:
        """Return the newest runs that ended after a moment, latest end first."""
        return self._runs("ended_last", after=to_micros(after), limit=limit)

    def _runs(self, condition: str, **values: Any) -> list[Run]:
        return [record_from(Run, row) for row in self._sql.joined("runs", condition, **values)]


def _number_run(run: Run, claim: Claim, earlier: list[Run]) -> Run:
    """Return the run as the next of its task, under its claim. A run that was begun before keeps its number."""
    task_id = claim.task.id
    number = max(run.number, max((each.number for each in earlier), default=0) + 1)
    return run.replace(id=f"{task_id}/{number}", task_id=task_id, number=number, epoch=claim.epoch, owner=claim.owner)
