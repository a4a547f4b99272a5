"""Workflows with their stages, and the results of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.errors import WorkflowNotFound
from fleet.core.workflow import Result, StageOf, Workflow
from fleet.store.named_sql import SqlPort
from fleet.store.sql.records import record_from, storable, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


class SqlWorkflows(SqlPort):
    """One row for each workflow, and one for each of its stages."""

    file = "flows"

    def add(self, workflow: Workflow, stages: Sequence[StageOf]) -> None:
        """Store a new workflow with its stages and their tasks."""
        with self._db.writing():
            self._sql.rows("insert_workflow", **values_of(workflow))
            for stage in stages:
                self._sql.rows("insert_stage", **values_of(stage))

    def get(self, workflow_id: str) -> Workflow:
        """Return one workflow. Raises WorkflowNotFound."""
        for row in self._sql.joined("workflows", "with_id", id=workflow_id):
            return record_from(Workflow, row)
        raise WorkflowNotFound(workflow_id)

    def task_prompt(self, workflow_id: str) -> str:
        """Return the prompt of one workflow without its plan, which may be large. Raises WorkflowNotFound."""
        for row in self._sql.rows("task_prompt", id=workflow_id):
            return str(row[0])
        raise WorkflowNotFound(workflow_id)

    def newest(self, *, limit: int) -> list[Workflow]:
        return [record_from(Workflow, row) for row in self._sql.joined("workflows", "newest", limit=limit)]

    def stop(self, workflow_id: str, reason: str, at: datetime) -> bool:
        """Mark a workflow as stopped. Return False if it already was. Raises WorkflowNotFound."""
        with self._db.writing():
            self.get(workflow_id)
            self._sql.rows("stop_workflow", id=workflow_id, reason=storable(reason), at=to_micros(at))
            return bool(self._db.changes())

    def mark_cleaned(self, workflow_id: str, at: datetime) -> bool:
        """Record that the workflow's worktrees were removed.

        Return False if they already were. Raises WorkflowNotFound.
        """
        with self._db.writing():
            self.get(workflow_id)
            self._sql.rows("clean_workflow", id=workflow_id, at=to_micros(at))
            return bool(self._db.changes())

    def stages(self, workflow_id: str) -> list[StageOf]:
        """Return the stages of a workflow in the order of its plan."""
        return [record_from(StageOf, row) for row in self._sql.joined("stages", "of_workflow", workflow=workflow_id)]

    def stage_of(self, task_id: str) -> StageOf | None:
        rows = self._sql.joined("stages", "of_task", task=task_id)
        return next((record_from(StageOf, row) for row in rows), None)


class SqlResults(SqlPort):
    """One row for each task's last result."""

    file = "flows"

    def keep(self, result: Result) -> None:
        """Store the result of a task. A later result replaces it."""
        with self._db.writing():
            self._sql.rows("keep_result", **values_of(result))

    def find(self, task_ids: Iterable[str]) -> dict[str, Result]:
        """Return the results of these tasks by task id. Tasks without a result are left out."""
        rows = self._sql.rows("results", tasks=self._db.listed(task_ids))
        return {found.task_id: found for found in (record_from(Result, row) for row in rows)}
