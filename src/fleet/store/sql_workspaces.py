"""Workspaces and trust in the queue's database: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.store import workspace_rules as rules
from fleet.store.sql_history_rows import storable, values_of, workspace_from

if TYPE_CHECKING:
    from typing import Any

    from fleet.core.relocation import Relocation
    from fleet.core.workspace import Workspace
    from fleet.store.sql_queue import SqlQueue
    from fleet.store.workspace_rules import Ports


class SqlWorkspaces:
    """A row for each lease; the indexes of those that are not gone guard what the rules say a second time."""

    def __init__(self, queue: SqlQueue) -> None:
        self._db = queue.connection
        self._now = queue.now

    def lease(self, workspace: Workspace, *, ports: Ports | None = None) -> Workspace:
        rules.check_names(workspace)
        with self._db.writing(durable=False):
            if kept := rules.reused(self.workspace(workspace.task_id)):
                return kept
            rules.refuse_taken(workspace, self._in_the_way(workspace))
            blocks = self._db.rows(self._space_sql["leased_ports"])
            leased = rules.with_ports(workspace, ports, (range(first, first + count) for first, count in blocks))
            self._db.rows(self._space_sql["insert_workspace"], values_of(leased))
            return leased

    def workspace(self, task_id: str) -> Workspace | None:
        return next(iter(self._workspaces("newest_of_task", task=task_id)), None)

    def workspaces(self, *, common: str | None = None, gone: bool = False) -> list[Workspace]:
        block = "all" if gone else "standing"
        if common is None:
            return self._workspaces(block)
        return self._workspaces(f"{block}_in", common=common) if rules.is_text(common) else []

    def workspaces_of(self, task_id: str) -> list[Workspace]:
        return self._workspaces("of_task", task=task_id)

    def keep_workspace(self, workspace: Workspace) -> None:
        with self._db.writing(durable=False):
            self._put_workspace(rules.changed(self.workspace(workspace.task_id), workspace))

    def begin_removal(self, task_id: str) -> Workspace:
        with self._db.writing(durable=False):
            worked_on = bool(self._db.rows(self._space_sql["is_worked_on"], {"task": task_id}))
            kept = self.workspace(task_id)
            return self._put_workspace(rules.going(kept, task_id, self._now(), worked_on=worked_on))

    def stop_removal(self, task_id: str) -> Workspace:
        with self._db.writing(durable=False):
            return self._put_workspace(rules.staying(self.workspace(task_id), task_id))

    def end_removal(self, task_id: str, saved: str) -> Workspace:
        with self._db.writing(durable=False):
            return self._put_workspace(rules.gone(self.workspace(task_id), task_id, saved, self._now()))

    def leave_workspace(self, task_id: str) -> Workspace:
        with self._db.writing(durable=False):
            return self._put_workspace(rules.left(self.workspace(task_id), task_id, self._now()))

    def relocate(self, moved: Relocation) -> None:
        with self._db.writing():
            for space in self.workspaces(gone=True):
                found = moved.workspace(space)
                if found != space:
                    self._db.rows(self._space_sql["move_workspace"], values_of(found))
            owners = {"owner_before": moved.owner_before, "owner": moved.owner}
            for before in moved.before:
                values = {"before": before, "after": moved.after, "owner_before": moved.owner_before}
                self._db.rows(self._space_sql["move_homes_of_runs"], values)
            self._db.rows(self._space_sql["move_owners_of_runs"], owners)

    def trust(self, kind: str, key: str, value: str, by: str) -> None:
        rules.check_trust(kind, key, value)
        with self._db.writing():
            key = self._key(key)
            values = {"kind": kind, "key": key, "value": value, "at": to_micros(self._now()), "by": storable(by)}
            self._db.rows(self._space_sql["trust"], values)

    def trusted(self, kind: str, key: str) -> str | None:
        if not rules.is_text(key):
            return None
        for (value,) in self._db.rows(self._space_sql["trusted"], {"kind": kind, "key": self._key(key)}):
            return str(value)
        return None

    def _key(self, key: str) -> str:
        """What stands for a key of what is trusted."""
        return key

    def _in_the_way(self, workspace: Workspace) -> list[Workspace]:
        wanted = {name: getattr(workspace, name) for name in ("common", "branch", "path")}
        return self._workspaces("in_the_way", task=workspace.task_id, **wanted)

    def _put_workspace(self, workspace: Workspace) -> Workspace:
        self._db.rows(self._space_sql["update_workspace"], values_of(workspace))
        return workspace

    def _workspaces(self, condition: str, **values: Any) -> list[Workspace]:
        return [
            workspace_from(row)
            for row in self._db.rows(f"{self._space_sql['workspaces']} {self._space_sql[condition]}", values)
        ]

    @property
    def _space_sql(self) -> dict[str, str]:
        return self._db.blocks("workspaces")
