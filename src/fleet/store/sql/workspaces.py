"""Workspaces: which task has which worktree, branch and ports. Also the declarations of trust."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.errors import BranchTaken, IllegalMove, WorkspaceNotFound
from fleet.core.workspace import Workspace
from fleet.store.named_sql import SqlPort
from fleet.store.sql.records import check_text, is_text, record_from, storable, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.relocation import Relocation
    from fleet.store.sql_connection import SqlConnection

    #: Chooses the first port of a free block, given all leased ports. 0 means none.
    Ports = Callable[[frozenset[int]], int]
    from collections.abc import Callable


#: Fields of a leased workspace that can change.
_CHANGING = ("base", "base_commit", "made_branch", "ready_at", "saved", "notes")


class SqlWorkspaces(SqlPort):
    """One row for each lease. The indexes on workspaces that are not gone enforce the same rules again."""

    file = "workspaces"

    def __init__(self, connection: SqlConnection, now: Clock) -> None:
        super().__init__(connection)
        self._now = now

    def lease(self, workspace: Workspace, *, ports: Ports | None = None) -> Workspace:
        """Lease a workspace for a task, or return the one it has. Path and branch stay the same until it is gone.

        `ports` gets all leased ports and returns the first of a free block of `port_count`, or 0 for none. Without
        `ports`, the workspace's own `first_port` is used.

        Raises BranchTaken if another task has the branch or the path. Raises BadInput for a name that is not UTF-8.
        Raises IllegalMove while the task's workspace is being removed, or if a port is not free.
        """
        for name in ("repo", "common", "path", "branch", "base"):
            check_text(f"the {name} of the worktree", getattr(workspace, name))
        with self._db.writing(durable=False):
            if kept := _choose_reusable(self.get(workspace.task_id)):
                return kept
            _refuse_taken(workspace, self._find_conflicting(workspace))
            blocks = self._sql.rows("leased_ports")
            leased = _with_ports(workspace, ports, (range(first, first + count) for first, count in blocks))
            self._sql.rows("insert_workspace", **values_of(leased))
            return leased

    def get(self, task_id: str) -> Workspace | None:
        return next(iter(self._workspaces("newest_of_task", task=task_id)), None)

    def find(self, *, common: str | None = None, gone: bool = False) -> list[Workspace]:
        """Return the workspaces that are not gone, or all if `gone`, oldest lease first.

        If `common` is given, only those of this git directory.
        """
        block = "all" if gone else "standing"
        if common is None:
            return self._workspaces(block)
        return self._workspaces(f"{block}_in", common=common) if is_text(common) else []

    def of_task(self, task_id: str) -> list[Workspace]:
        """Return all workspaces that a task ever had, oldest lease first. The cost does not depend on other tasks."""
        return self._workspaces("of_task", task=task_id)

    def save(self, workspace: Workspace) -> None:
        """Store a leased workspace's base, notes, saved work and readiness. Its place and removal do not change.

        Raises WorkspaceNotFound if it is gone, even if its task has another by now.
        """
        with self._db.writing(durable=False):
            kept = self.get(workspace.task_id)
            # A workspace that was removed and leased again is another one. Late updates for the first must not reach
            # it.
            if kept is None or kept.is_gone or kept.made_at != workspace.made_at:
                raise WorkspaceNotFound(workspace.task_id)
            changed = {name: getattr(workspace, name) for name in _CHANGING}
            self._update_row(kept.replace(**changed))

    def begin_removal(self, task_id: str) -> Workspace:
        """Mark a workspace as being removed, so that no run begins in it. A second call resumes the removal.

        Raises WorkspaceNotFound. Raises IllegalMove if a run of its task is live or a supervisor holds the task.
        """
        with self._db.writing(durable=False):
            kept = self._newest(task_id)
            if kept.is_gone:
                raise WorkspaceNotFound(task_id)
            if self._sql.rows("is_worked_on", task=task_id):
                raise IllegalMove(
                    f"an agent is working on {task_id}", hint=f"run `fleet kill {task_id}` to stop its agent first"
                )
            return self._update_row(kept.replace(removing_at=kept.removing_at or self._now()))

    def stop_removal(self, task_id: str) -> Workspace:
        """Cancel a removal that failed, unless the workspace is gone. Raises WorkspaceNotFound."""
        with self._db.writing(durable=False):
            kept = self._newest(task_id)
            return kept if kept.is_gone else self._update_row(kept.replace(removing_at=None))

    def end_removal(self, task_id: str, saved: str) -> Workspace:
        """Mark a workspace as removed, with the refs (a JSON list) that keep its work. A second call changes nothing.

        Branch, path and ports are free again. Raises WorkspaceNotFound, and IllegalMove for a removal that never began.
        """
        with self._db.writing(durable=False):
            kept = self._newest(task_id)
            if kept.is_gone:
                return kept
            if kept.removing_at is None:
                raise IllegalMove(f"the removal of the worktree of {task_id} never began")
            return self._update_row(kept.replace(removed_at=self._now(), saved=saved))

    def leave(self, task_id: str) -> Workspace:
        """Mark a workspace as left behind by a host that does not continue its task, regardless of the current owner.

        Branch, path and ports are free again. A workspace that is gone does not change. Raises WorkspaceNotFound.
        """
        with self._db.writing(durable=False):
            kept, now = self._newest(task_id), self._now()
            return (
                kept
                if kept.is_gone
                else self._update_row(kept.replace(removing_at=kept.removing_at or now, removed_at=now))
            )

    def relocate(self, moved: Relocation) -> None:
        """Update the paths and owners of runs and workspaces of a home that was moved, in one transaction."""
        with self._db.writing():
            for space in self.find(gone=True):
                found = moved.workspace(space)
                if found != space:
                    self._sql.rows("move_workspace", **values_of(found))
            for before in moved.before:
                values = {"before": before, "after": moved.after, "owner_before": moved.owner_before}
                self._sql.rows("move_homes_of_runs", **values)
            self._sql.rows("move_owners_of_runs", owner_before=moved.owner_before, owner=moved.owner)

    def _find_conflicting(self, workspace: Workspace) -> list[Workspace]:
        wanted = {name: getattr(workspace, name) for name in ("common", "branch", "path")}
        return self._workspaces("in_the_way", task=workspace.task_id, **wanted)

    def _newest(self, task_id: str) -> Workspace:
        kept = self.get(task_id)
        if kept is None:
            raise WorkspaceNotFound(task_id)
        return kept

    def _update_row(self, workspace: Workspace) -> Workspace:
        self._sql.rows("update_workspace", **values_of(workspace))
        return workspace

    def _workspaces(self, condition: str, **values: Any) -> list[Workspace]:
        found = [record_from(Workspace, row) for row in self._sql.joined("workspaces", condition, **values)]
        return [each.replace(made_branch=bool(each.made_branch)) for each in found]  # flags are numbers in SQLite


def _choose_reusable(kept: Workspace | None) -> Workspace | None:
    """Return the workspace that a task can reuse, or None. Raises IllegalMove if it is being removed."""
    if kept is None or kept.is_gone:
        return None
    if kept.removing_at is not None:
        hint = f"run `fleet kill {kept.task_id}` to finish that, then `fleet retry {kept.task_id}`"
        raise IllegalMove(f"the worktree of {kept.task_id} is being removed", hint=hint)
    return kept


def _refuse_taken(workspace: Workspace, others: Iterable[Workspace]) -> None:
    """Raise BranchTaken if another task's workspace has the branch or the path."""
    for other in others:
        if (other.common, other.branch) == (workspace.common, workspace.branch):
            raise BranchTaken(workspace.branch, other.task_id)
        if other.path == workspace.path:
            raise BranchTaken(workspace.branch, other.task_id, path=workspace.path)


def _with_ports(workspace: Workspace, choose: Ports | None, blocks: Iterable[range]) -> Workspace:
    """Return the workspace with its block of ports. Raises IllegalMove if another workspace has leased one of them.

    `blocks` are the ports of the workspaces that are not gone.
    """
    leased = frozenset(chain.from_iterable(blocks))
    chosen = workspace if choose is None else workspace.replace(first_port=choose(leased))
    for port in chosen.ports:
        if port in leased:
            raise IllegalMove(f"port {port} is leased to another agent", hint="set the first port in `[ports]`")
    return chosen


class SqlTrust(SqlPort):
    """One row for each declaration of trust.

    `mark` distinguishes this home from those of other hosts, because trust in a path applies to one disk.
    """

    file = "workspaces"

    def __init__(self, connection: SqlConnection, now: Clock, mark: Callable[[], str] | None = None) -> None:
        super().__init__(connection)
        self._now = now
        self._mark = mark

    def set(self, kind: str, key: str, value: str, by: str) -> None:
        """Store a declaration of trust. Raises BadInput for text that is not UTF-8."""
        check_text(f"the {kind} to trust", key)
        check_text(f"what is trusted of the {kind}", value)
        with self._db.writing():
            at = to_micros(self._now())
            self._sql.rows("trust", kind=kind, key=self._key(key), value=value, at=at, by=storable(by))

    def get(self, kind: str, key: str) -> str | None:
        """Return the last value declared as trusted under this key, or None."""
        if not is_text(key):
            return None
        for (value,) in self._sql.rows("trusted", kind=kind, key=self._key(key)):
            return str(value)
        return None

    def _key(self, key: str) -> str:
        return f"{self._mark()}:{key}" if self._mark and key.startswith("/") else key
