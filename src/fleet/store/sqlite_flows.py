"""Workflows, their stages and the results of tasks in the queue's SQLite file: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.errors import WorkflowNotFound
from fleet.core.jsontext import encode
from fleet.store import named_sql
from fleet.store.sqlite_history_rows import result_from, stage_from, storable, values_of, workflow_from
from fleet.store.sqlite_receipts import SqliteReceipts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from fleet.core.flow import Result, StageOf, Workflow

_SQL = named_sql.load("sqlite", "flows")


class SqliteFlows(SqliteReceipts):
    """A row for each workflow, for each of its stages, and for each task's last result."""

    def add_workflow(self, workflow: Workflow, stages: Sequence[StageOf]) -> None:
        with self._db.writing():
            self._db.rows(_SQL["insert_workflow"], values_of(workflow))
            for stage in stages:
                self._db.rows(_SQL["insert_stage"], values_of(stage))

    def workflow(self, workflow_id: str) -> Workflow:
        for row in self._db.rows(f"{_SQL['workflows']} {_SQL['with_id']}", {"id": workflow_id}):
            return workflow_from(row)
        raise WorkflowNotFound(workflow_id)

    def task_prompt(self, workflow_id: str) -> str:
        for row in self._db.rows(_SQL["task_prompt"], {"id": workflow_id}):
            return str(row[0])
        raise WorkflowNotFound(workflow_id)

    def workflows(self, *, limit: int) -> list[Workflow]:
        return [workflow_from(row) for row in self._db.rows(f"{_SQL['workflows']} {_SQL['newest']}", {"limit": limit})]

    def stop_workflow(self, workflow_id: str, reason: str, at: datetime) -> bool:
        with self._db.writing():
            self.workflow(workflow_id)
            values = {"id": workflow_id, "reason": storable(reason), "at": to_micros(at)}
            self._db.rows(_SQL["stop_workflow"], values)
            return bool(self._db.changes())

    def clean_workflow(self, workflow_id: str, at: datetime) -> bool:
        with self._db.writing():
            self.workflow(workflow_id)
            self._db.rows(_SQL["clean_workflow"], {"id": workflow_id, "at": to_micros(at)})
            return bool(self._db.changes())

    def stages(self, workflow_id: str) -> list[StageOf]:
        rows = self._db.rows(f"{_SQL['stages']} {_SQL['of_workflow']}", {"workflow": workflow_id})
        return [stage_from(row) for row in rows]

    def stage_of(self, task_id: str) -> StageOf | None:
        rows = self._db.rows(f"{_SQL['stages']} {_SQL['of_task']}", {"task": task_id})
        return next((stage_from(row) for row in rows), None)

    def keep_result(self, result: Result) -> None:
        with self._db.writing():
            self._db.rows(_SQL["keep_result"], values_of(result))

    def results(self, task_ids: Iterable[str]) -> dict[str, Result]:
        rows = self._db.rows(_SQL["results"], {"tasks": encode(list(task_ids))})
        return {found.task_id: found for found in map(result_from, rows)}
