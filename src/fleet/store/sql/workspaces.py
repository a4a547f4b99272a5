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
        """Keep a task's workspace, or give back the one it has: same path and branch until that is gone.

        `ports` is given every leased port and answers with the first of a free block of `port_count`, or 0 for none;
        without it the workspace's own `first_port` is taken.
        Raises BranchTaken when another task has the branch or the path, BadInput for a name that is not UTF-8, and
        IllegalMove while the task's workspace is being removed, or when a port is not free.
        """
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
        """The newest workspace of a task, gone or not."""
        return next(iter(self._workspaces("newest_of_task", task=task_id)), None)

    def find(self, *, common: str | None = None, gone: bool = False) -> list[Workspace]:
        """The workspaces that are not gone, or all, of one repository's git directory or any; earliest lease first."""
        block = "all" if gone else "standing"
        if common is None:
            return self._workspaces(block)
        return self._workspaces(f"{block}_in", common=common) if rules.is_text(common) else []

    def of_task(self, task_id: str) -> list[Workspace]:
        """Every workspace that a task ever had, earliest lease first: the work does not grow with those of others."""
        return self._workspaces("of_task", task=task_id)

    def save(self, workspace: Workspace) -> None:
        """Keep what became of a leased workspace: its base, whether it is ready, what was saved of it, its notes.

        Where it lies and how far its removal is stay as they are. Raises WorkspaceNotFound when it is gone, even if
        the task has another by now.
        """
        with self._db.writing(durable=False):
            self._put(rules.changed(self.get(workspace.task_id), workspace))

    def begin_removal(self, task_id: str) -> Workspace:
        """Say that a workspace is being removed, so that no run begins in it; saying it again goes on with it.

        Raises WorkspaceNotFound, and IllegalMove while a run of its task lives or a supervisor holds the task.
        """
        with self._db.writing(durable=False):
            worked_on = bool(self._sql.rows("is_worked_on", task=task_id))
            return self._put(rules.going(self.get(task_id), task_id, self._now(), worked_on=worked_on))

    def stop_removal(self, task_id: str) -> Workspace:
        """Say that it is not removed after all: it could not be, and stays as it was. Raises WorkspaceNotFound."""
        with self._db.writing(durable=False):
            return self._put(rules.staying(self.get(task_id), task_id))

    def end_removal(self, task_id: str, saved: str) -> Workspace:
        """Say that it is removed, with the refs (a JSON list) that keep what was in it; a second end changes nothing.

        Branch, path and ports are free again. Raises WorkspaceNotFound, and IllegalMove for a removal that never began.
        """
        with self._db.writing(durable=False):
            return self._put(rules.gone(self.get(task_id), task_id, saved, self._now()))

    def leave(self, task_id: str) -> Workspace:
        """Say that a workspace stays behind on a host that does not go on with its task, whoever holds that by now.

        Branch, path and ports are free again; one that is gone stays as it is. Raises WorkspaceNotFound.
        """
        with self._db.writing(durable=False):
            return self._put(rules.left(self.get(task_id), task_id, self._now()))

    def relocate(self, moved: Relocation) -> None:
        """Have the runs and workspaces of a home that was moved say where they are now, and whose, all at once."""
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
