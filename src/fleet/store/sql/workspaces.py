"""Workspaces: which task has which worktree, branch and ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.store import workspace_rules as rules
from fleet.store.named_sql import Statements
from fleet.store.sql.records import values_of, workspace_from

if TYPE_CHECKING:
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.relocation import Relocation
    from fleet.core.workspace import Workspace
    from fleet.store.sql_connection import SqlConnection
    from fleet.store.workspace_rules import Ports


class SqlWorkspaces:
    """A row for each lease; the indexes of those that are not gone guard what the rules say a second time."""

    def __init__(self, connection: SqlConnection, now: Clock) -> None:
        self._db = connection
        self._sql = Statements(connection, "workspaces")
        self._now = now

    def lease(self, workspace: Workspace, *, ports: Ports | None = None) -> Workspace:
        rules.check_names(workspace)
        with self._db.writing(durable=False):
            if kept := rules.reused(self.get(workspace.task_id)):
                return kept
            rules.refuse_taken(workspace, self._in_the_way(workspace))
            blocks = self._sql.rows("leased_ports")
            leased = rules.with_ports(workspace, ports, (range(first, first + count) for first, count in blocks))
            self._sql.rows("insert_workspace", **values_of(leased))
            return leased

    def get(self, task_id: str) -> Workspace | None:
        return next(iter(self._workspaces("newest_of_task", task=task_id)), None)

    def find(self, *, common: str | None = None, gone: bool = False) -> list[Workspace]:
        block = "all" if gone else "standing"
        if common is None:
            return self._workspaces(block)
        return self._workspaces(f"{block}_in", common=common) if rules.is_text(common) else []

    def of_task(self, task_id: str) -> list[Workspace]:
        return self._workspaces("of_task", task=task_id)

    def save(self, workspace: Workspace) -> None:
        with self._db.writing(durable=False):
            self._put(rules.changed(self.get(workspace.task_id), workspace))

    def begin_removal(self, task_id: str) -> Workspace:
        with self._db.writing(durable=False):
            worked_on = bool(self._sql.rows("is_worked_on", task=task_id))
            return self._put(rules.going(self.get(task_id), task_id, self._now(), worked_on=worked_on))

    def stop_removal(self, task_id: str) -> Workspace:
        with self._db.writing(durable=False):
            return self._put(rules.staying(self.get(task_id), task_id))

    def end_removal(self, task_id: str, saved: str) -> Workspace:
        with self._db.writing(durable=False):
            return self._put(rules.gone(self.get(task_id), task_id, saved, self._now()))

    def leave(self, task_id: str) -> Workspace:
        with self._db.writing(durable=False):
            return self._put(rules.left(self.get(task_id), task_id, self._now()))

    def relocate(self, moved: Relocation) -> None:
        with self._db.writing():
            for space in self.find(gone=True):
                found = moved.workspace(space)
                if found != space:
                    self._sql.rows("move_workspace", **values_of(found))
            for before in moved.before:
                values = {"before": before, "after": moved.after, "owner_before": moved.owner_before}
                self._sql.rows("move_homes_of_runs", **values)
            self._sql.rows("move_owners_of_runs", owner_before=moved.owner_before, owner=moved.owner)

    def _in_the_way(self, workspace: Workspace) -> list[Workspace]:
        wanted = {name: getattr(workspace, name) for name in ("common", "branch", "path")}
        return self._workspaces("in_the_way", task=workspace.task_id, **wanted)

    def _put(self, workspace: Workspace) -> Workspace:
        self._sql.rows("update_workspace", **values_of(workspace))
        return workspace

    def _workspaces(self, condition: str, **values: Any) -> list[Workspace]:
        return [workspace_from(row) for row in self._sql.joined("workspaces", condition, **values)]
