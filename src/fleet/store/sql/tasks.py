"""Tasks with their labels, dependencies and comments. Nearly every call of `bd` reads them."""

from __future__ import annotations

from fleet.core import clock, dependency
from fleet.core.dependency import HARD, SCHEDULING, Tally
from fleet.core.errors import ClaimLost, CycleRefused, DependencyRefused, TaskExists, TaskNotFound
from fleet.core.task import RESOLVED
from fleet.store.named_sql import SqlPort
from fleet.store.sql.rows import comment_from, edge_from, edge_values, task_from, task_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fleet.core.dependency import Edge
    from fleet.core.filter import Filter
    from fleet.core.task import Claim, Comment, Task
    from fleet.store.sql_connection import Search, SqlConnection


class SqlTasks(SqlPort):
    """One row for each task, and one for each of its labels."""

    file = "queries"

    def __init__(self, connection: SqlConnection, search: Search) -> None:
        super().__init__(connection)
        self._search = search

    def add(self, task: Task) -> None:
        """Add a new task. Raises TaskExists."""
        with self._db.writing():
            if self._sql.rows("status_of", id=task.id):
                raise TaskExists(f"task {task.id} exists already")
            self._sql.rows("insert_task", **task_values(task.replace(is_blocked=False)))
            self._put_labels(task)
            parent, _, number = task.id.rpartition(".")
            if parent and number.isdigit():
                self._sql.rows("keep_child_number", parent=parent, number=int(number))

    def get(self, task_id: str) -> Task:
        """Return the task with exactly this id. Raises TaskNotFound."""
        for row in self._db.rows(self._sql["tasks"] + " and t.id = :id", {"id": task_id}):
            return task_from(row)
        raise TaskNotFound(task_id)

    def save(self, task: Task) -> None:
        """Store a changed task. Call it inside `atomic`, with a task that was read there. Raises TaskNotFound."""
        with self._db.writing():
            before = self.status_of(task.id)
            self._sql.rows("update_task", **task_values(task))
            self._sql.rows("clear_labels", task=task.id)
            self._put_labels(task)
            if (before in RESOLVED) != (task.status in RESOLVED):
                self.refresh_blocked(self._sql.first("watchers_of", id=task.id))

    def remove(self, task_id: str) -> None:
        """Delete a task with its comments and all edges from or to it. Raises TaskNotFound."""
        with self._db.writing():
            self.status_of(task_id)
            affected = self._sql.first("watchers_of", id=task_id)
            affected += self._sql.first("children_of", ids=self._db.listed([task_id]))
            affected += self._sql.first("waiters_on", id=task_id)
            for block in ("delete_edges_to", "delete_comments", "delete_callers", "delete_task"):
                self._sql.rows(block, id=task_id)
            self.refresh_blocked(affected)

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        """Return the matching tasks, in order; a limit of 0 means no limit."""
        return self._search.find(where, sort=sort, reverse=reverse, limit=limit)

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        """Return the number of matching tasks, under "" or per status, priority, type, assignee or label."""
        return self._search.count(where, by=by)

    def size(self, prefix: str) -> int:
        """Return how many tasks with this prefix are not numbered children."""
        return int(self._sql.rows("size", prefix=prefix)[0][0])

    def next_child(self, parent: str) -> int:
        """Return a number that no child of this task has had before."""
        with self._db.writing():
            highest = self._sql.rows("highest_child", parent=parent)[0][0] or 0
            return int(self._sql.rows("next_child", parent=parent, least=highest + 1)[0][0])

    def tallies(self, task_ids: Sequence[str]) -> dict[str, Tally]:
        """Return the numbers of dependencies, dependents and comments of each task."""
        return {
            key: Tally(dependencies=down, dependents=up, blockers=hard_down, blocked=hard_up, comments=said)
            for key, down, up, hard_down, hard_up, said in self._sql.rows("tallies", ids=self._db.listed(task_ids))
        }

    def labels(self) -> dict[str, int]:
        """Return all labels in use, each with its number of tasks."""
        return dict(self._sql.rows("all_labels"))

    # For other ports of the same database

    def status_of(self, task_id: str) -> str:
        """Return the status of a task. Raises TaskNotFound."""
        for (status,) in self._sql.rows("status_of", id=task_id):
            return str(status)
        raise TaskNotFound(task_id)

    def held(self, claim: Claim) -> Task:
        """Return the current task of a claim. Raises ClaimLost."""
        try:
            task = self.get(claim.task.id)
        except TaskNotFound:  # a deleted task has no holder
            raise ClaimLost(claim.task.id, claim.epoch) from None
        if (task.claim_owner, task.epoch) != (claim.owner, claim.epoch):
            raise ClaimLost(task.id, claim.epoch)
        return task

    def refresh_blocked(self, ids: list[str]) -> None:
        """Recompute whether these tasks and their descendants are blocked."""
        while ids:
            changed = self._sql.first("refresh_blocked", ids=self._db.listed(ids))
            ids = self._sql.first("children_of", ids=self._db.listed(changed)) if changed else []

    def _put_labels(self, task: Task) -> None:
        for label in set(task.labels):
            self._sql.rows("insert_label", task=task.id, label=label)


class SqlEdges(SqlPort):
    """One row for each edge. Each change of an edge recomputes in its transaction which tasks are blocked."""

    file = "queries"

    def __init__(self, connection: SqlConnection, tasks: SqlTasks) -> None:
        super().__init__(connection)
        self._tasks = tasks

    def add(self, edge: Edge, *, check_cycles: bool = True) -> None:
        """Add an edge. Raises TaskNotFound, DependencyRefused, CycleRefused."""
        with self._db.writing():
            self._tasks.status_of(edge.task)
            if not edge.needs.startswith(dependency.EXTERNAL):
                self._tasks.status_of(edge.needs)
            existing = [edge_from(row) for row in self._sql.rows("edge", task=edge.task, needs=edge.needs)]
            check_edge(edge, existing, reaches=self._reaches if check_cycles else None, ancestors=self.ancestors)
            if not existing:
                self._sql.rows("insert_edge", **edge_values(edge))
                self._refresh(edge)

    def remove(self, task_id: str, needs: str) -> bool:
        """Remove the edge between two tasks. Return False if none exists."""
        with self._db.writing():
            for edge in [edge_from(row) for row in self._sql.rows("edge", task=task_id, needs=needs)]:
                self._sql.rows("delete_edge", task=task_id, needs=needs)
                self._refresh(edge)
                return True
        return False

    def find(self, task_ids: Iterable[str] | None = None, *, up: bool = False) -> list[Edge]:
        """Return the edges from these tasks, or to them if `up`. If `task_ids` is None, return all edges."""
        if task_ids is None:
            return [edge_from(row) for row in self._sql.rows("edges_all")]
        rows = self._sql.rows("edges_to" if up else "edges_from", ids=self._db.listed(task_ids))
        return [edge_from(row) for row in rows]

    def ancestors(self, task_id: str) -> list[str]:
        """Return the ancestors of a task, nearest first."""
        return list(dict.fromkeys(self._sql.first("ancestors", id=task_id)))

    def _refresh(self, edge: Edge) -> None:
        waiting = self._sql.first("waiters_on", id=edge.needs) if edge.type == dependency.PARENT_CHILD else []
        self._tasks.refresh_blocked([edge.task, *waiting])

    def _reaches(self, start: str, goal: str) -> bool:
        return bool(self._sql.rows("reaches", start=start, goal=goal))


class SqlComments(SqlPort):
    """One row for each comment."""

    file = "queries"

    def __init__(self, connection: SqlConnection, tasks: SqlTasks) -> None:
        super().__init__(connection)
        self._tasks = tasks

    def add(self, comment: Comment) -> None:
        """Add a comment. Raises TaskNotFound."""
        with self._db.writing():
            self._tasks.status_of(comment.task_id)
            values = {**comment.as_dict(), "created_at": clock.to_micros(comment.created_at)}
            self._sql.rows("insert_comment", **values)

    def find(self, task_ids: Sequence[str]) -> list[Comment]:
        """Return the comments on these tasks, oldest first for each."""
        return [comment_from(row) for row in self._sql.rows("comments", ids=self._db.listed(task_ids))]


def check_edge(
    edge: Edge,
    existing: list[Edge],
    *,
    reaches: Callable[[str, str], bool] | None,
    ancestors: Callable[[str], list[str]],
) -> None:
    """Raise DependencyRefused for a self-dependency, an edge of another type between the same tasks, or a deadlock.

    Raises CycleRefused for a cycle.
    """
    task, needs = edge.task, edge.needs
    if task == needs:
        raise DependencyRefused(f"cannot add self-dependency: {task} cannot depend on itself")
    if edge.type in HARD and needs in ancestors(task):
        raise DependencyRefused(
            f"cannot add dependency: {task} is already a child of {needs}. Children inherit dependency on parent "
            "completion via hierarchy. Adding an explicit dependency would create a deadlock"
        )
    for other in existing:
        if other.type != edge.type:
            raise DependencyRefused(
                f'dependency {task} -> {needs} already exists with type "{other.type}" (requested "{edge.type}"); '
                "remove it first with 'bd dep remove' then re-add"
            )
    if edge.type in SCHEDULING and reaches is not None and reaches(edge.needs, edge.task):
        raise CycleRefused(
            "adding dependency would create a cycle", hint="run `bd dep tree` to show what waits for what"
        )
