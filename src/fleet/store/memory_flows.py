"""Workflows, their stages and the results of tasks beside the queue in memory: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import WorkflowNotFound
from fleet.store.memory_receipts import MemoryReceipts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Any

    from fleet.core.flow import Result, StageOf, Workflow


class MemoryFlows(MemoryReceipts):
    """Each dictionary is replaced, never changed."""

    def add_workflow(self, workflow: Workflow, stages: Sequence[StageOf]) -> None:
        with self._queue.atomic():
            state = self._queue.state
            state.workflows = {**state.workflows, workflow.id: workflow}
            state.stages = {**state.stages, **{stage.task_id: stage for stage in stages}}

    def workflow(self, workflow_id: str) -> Workflow:
        try:
            return self._queue.state.workflows[workflow_id]
        except KeyError:
            raise WorkflowNotFound(workflow_id) from None

    def task_prompt(self, workflow_id: str) -> str:
        return self.workflow(workflow_id).task_prompt

    def workflows(self, *, limit: int) -> list[Workflow]:
        by_id = sorted(self._queue.state.workflows.values(), key=lambda each: each.id)
        return sorted(by_id, key=lambda each: each.made_at, reverse=True)[:limit]

    def stop_workflow(self, workflow_id: str, reason: str, at: datetime) -> bool:
        with self._queue.atomic():
            if self.workflow(workflow_id).stopped_at is not None:
                return False
            self._change(workflow_id, stopped_at=at, reason=reason)
            return True

    def clean_workflow(self, workflow_id: str, at: datetime) -> bool:
        with self._queue.atomic():
            if self.workflow(workflow_id).cleaned_at is not None:
                return False
            self._change(workflow_id, cleaned_at=at)
            return True

    def stages(self, workflow_id: str) -> list[StageOf]:
        found = [stage for stage in self._queue.state.stages.values() if stage.workflow_id == workflow_id]
        return sorted(found, key=lambda stage: stage.index)

    def stage_of(self, task_id: str) -> StageOf | None:
        return self._queue.state.stages.get(task_id)

    def keep_result(self, result: Result) -> None:
        with self._queue.atomic():
            self._queue.state.results = {**self._queue.state.results, result.task_id: result}

    def results(self, task_ids: Iterable[str]) -> dict[str, Result]:
        known = self._queue.state.results
        return {task_id: known[task_id] for task_id in task_ids if task_id in known}

    def _change(self, workflow_id: str, **facts: Any) -> None:
        changed = self.workflow(workflow_id).replace(**facts)
        self._queue.state.workflows = {**self._queue.state.workflows, workflow_id: changed}
