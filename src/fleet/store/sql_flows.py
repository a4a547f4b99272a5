"""Workflows, their stages and the results of tasks in the queue's database: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.errors import WorkflowNotFound
from fleet.store.sql_history_rows import result_from, stage_from, storable, values_of, workflow_from
from fleet.store.sql_receipts import SqlReceipts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from fleet.core.flow import Result, StageOf, Workflow


class SqlFlows(SqlReceipts):
    """A row for each workflow, for each of its stages, and for each task's last result."""

    def add_workflow(self, workflow: Workflow, stages: Sequence[StageOf]) -> None:
        with self._db.writing():
            self._db.rows(self._flow_sql["insert_workflow"], values_of(workflow))
            for stage in stages:
                self._db.rows(self._flow_sql["insert_stage"], values_of(stage))

    def workflow(self, workflow_id: str) -> Workflow:
        for row in self._db.rows(f"{self._flow_sql['workflows']} {self._flow_sql['with_id']}", {"id": workflow_id}):
            return workflow_from(row)
        raise WorkflowNotFound(workflow_id)

    def task_prompt(self, workflow_id: str) -> str:
        for row in self._db.rows(self._flow_sql["task_prompt"], {"id": workflow_id}):
            return str(row[0])
        raise WorkflowNotFound(workflow_id)

    def workflows(self, *, limit: int) -> list[Workflow]:
        return [
            workflow_from(row)
            for row in self._db.rows(f"{self._flow_sql['workflows']} {self._flow_sql['newest']}", {"limit": limit})
        ]

    def stop_workflow(self, workflow_id: str, reason: str, at: datetime) -> bool:
        with self._db.writing():
            self.workflow(workflow_id)
            values = {"id": workflow_id, "reason": storable(reason), "at": to_micros(at)}
            self._db.rows(self._flow_sql["stop_workflow"], values)
            return bool(self._db.changes())

    def clean_workflow(self, workflow_id: str, at: datetime) -> bool:
        with self._db.writing():
            self.workflow(workflow_id)
            self._db.rows(self._flow_sql["clean_workflow"], {"id": workflow_id, "at": to_micros(at)})
            return bool(self._db.changes())

    def stages(self, workflow_id: str) -> list[StageOf]:
        rows = self._db.rows(f"{self._flow_sql['stages']} {self._flow_sql['of_workflow']}", {"workflow": workflow_id})
        return [stage_from(row) for row in rows]

    def stage_of(self, task_id: str) -> StageOf | None:
        rows = self._db.rows(f"{self._flow_sql['stages']} {self._flow_sql['of_task']}", {"task": task_id})
        return next((stage_from(row) for row in rows), None)

    def keep_result(self, result: Result) -> None:
        with self._db.writing():
            self._db.rows(self._flow_sql["keep_result"], values_of(result))

    def results(self, task_ids: Iterable[str]) -> dict[str, Result]:
        rows = self._db.rows(self._flow_sql["results"], {"tasks": self._db.listed(task_ids)})
        return {found.task_id: found for found in map(result_from, rows)}

    @property
    def _flow_sql(self) -> dict[str, str]:
        return self._db.blocks("flows")
