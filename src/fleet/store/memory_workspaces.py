"""Workspaces and trust beside the queue in memory: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.store import workspace_rules as rules

if TYPE_CHECKING:
    from fleet.core.relocation import Relocation
    from fleet.core.workspace import Workspace
    from fleet.store.memory import MemoryQueue
    from fleet.store.workspace_rules import Ports


class MemoryWorkspaces:
    """Workspaces in the order they were leased; each list is replaced, never changed."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def lease(self, workspace: Workspace, *, ports: Ports | None = None) -> Workspace:
        rules.check_names(workspace)
        with self._queue.atomic():
            if kept := rules.reused(self.workspace(workspace.task_id)):
                return kept
            standing = self.workspaces()
            rules.refuse_taken(workspace, standing)
            leased = rules.with_ports(workspace, ports, (each.ports for each in standing))
            self._queue.state.workspaces = [*self._queue.state.workspaces, leased]
            return leased

    def workspace(self, task_id: str) -> Workspace | None:
        found = [each for each in self._queue.state.workspaces if each.task_id == task_id]
        return found[-1] if found else None

    def workspaces(self, *, common: str | None = None, gone: bool = False) -> list[Workspace]:
        kept = self._queue.state.workspaces
        return [each for each in kept if common in (None, each.common) and (gone or not each.is_gone)]

    def workspaces_of(self, task_id: str) -> list[Workspace]:
        return [each for each in self._queue.state.workspaces if each.task_id == task_id]

    def keep_workspace(self, workspace: Workspace) -> None:
        with self._queue.atomic():
            self._put_workspace(rules.changed(self.workspace(workspace.task_id), workspace))

    def begin_removal(self, task_id: str) -> Workspace:
        with self._queue.atomic():
            kept = self.workspace(task_id)
            return self._put_workspace(
                rules.going(kept, task_id, self._queue.now(), worked_on=self._is_worked_on(task_id))
            )

    def stop_removal(self, task_id: str) -> Workspace:
        with self._queue.atomic():
            return self._put_workspace(rules.staying(self.workspace(task_id), task_id))

    def end_removal(self, task_id: str, saved: str) -> Workspace:
        with self._queue.atomic():
            return self._put_workspace(rules.gone(self.workspace(task_id), task_id, saved, self._queue.now()))

    def leave_workspace(self, task_id: str) -> Workspace:
        with self._queue.atomic():
            return self._put_workspace(rules.left(self.workspace(task_id), task_id, self._queue.now()))

    def relocate(self, moved: Relocation) -> None:
        with self._queue.atomic():
            state = self._queue.state
            state.workspaces = [moved.workspace(each) for each in state.workspaces]
            own = {key: run for key, run in state.runs.items() if run.owner == moved.owner_before}
            state.runs = {**state.runs, **{key: moved.run(run) for key, run in own.items()}}

    def trust(self, kind: str, key: str, value: str, by: str) -> None:
        rules.check_trust(kind, key, value)
        with self._queue.atomic():
            self._queue.state.trusted = {**self._queue.state.trusted, (kind, key): value}

    def trusted(self, kind: str, key: str) -> str | None:
        return self._queue.state.trusted.get((kind, key))

    def _is_worked_on(self, task_id: str) -> bool:
        task = self._queue.state.tasks.get(task_id)
        runs = self._queue.state.runs.values()
        return (task is not None and task.is_supervised) or any(run.is_live for run in runs if run.task_id == task_id)

    def _put_workspace(self, workspace: Workspace) -> Workspace:
        """Put it in the place of the newest of its task."""
        kept = self._queue.state.workspaces
        newest = max(at for at, each in enumerate(kept) if each.task_id == workspace.task_id)
        self._queue.state.workspaces = [*kept[:newest], workspace, *kept[newest + 1 :]]
        return workspace
