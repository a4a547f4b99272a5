"""Counts of `fleet tasks` in SQLite come from indexes, without reading tasks."""

from pathlib import Path
from typing import Any

from builders import HOUR, a_task
from fleet.actions.control.outlook import Outlook, outlook
from fleet.assembly import Fleet
from fleet.core import clock
from fleet.core.dependency import Edge
from fleet.home import Home
from fleet.store.sqlite.store import SqliteStore


class Watched:
    """A store in a file, and the statements that its outlook sends to SQLite."""

    def __init__(self, path: Path) -> None:
        self._store = SqliteStore(str(path / "fleet.db"), make=True)
        self._fleet = Fleet(Home(str(path)), self._store)
        self._database = self._store.connection._db
        self.statements: list[tuple[str, Any]] = []

    def add(self) -> None:
        """Add a task of each kind that the outlook counts."""
        later, now = clock.now() + HOUR, clock.now()
        for task in (
            a_task(id="t-ready"),
            a_task(id="t-gpu", requires='["gpu"]'),
            a_task(id="t-later", defer_until=later, reason="no room"),
            a_task(id="t-waiting"),
            a_task(id="t-blocked", status="blocked"),
            a_task(id="t-stopped", status="blocked", reason="stopped by hand"),
        ):
            self._store.tasks.add(task)
        self._store.edges.add(Edge(task="t-waiting", needs="t-ready", created_at=now))

    def outlook(self) -> Outlook:
        """Return the outlook and record the statements that select tasks."""
        self._database.exec_trace = self._note  # all statements, of any origin
        try:
            return outlook(self._fleet)
        finally:
            self._database.exec_trace = None

    def close(self) -> None:
        self._store.close()

    def plan(self, sql: str, values: Any) -> list[str]:
        """Return the query plan of a statement."""
        return [row[3] for row in self._database.execute(f"explain query plan {sql}", values)]

    def reads_tasks(self, sql: str, values: Any) -> bool:
        """Return True if a statement reads the tasks and not only their indexes."""
        root = self._database.execute("select rootpage from sqlite_schema where name = 'tasks'").get
        program = [row[1:4] for row in self._database.execute(f"explain {sql}", values)]
        cursors = {cursor for opcode, cursor, page in program if (opcode, page) == ("OpenRead", root)}
        return any(opcode == "Column" and cursor in cursors for opcode, cursor, _ in program)

    def _note(self, _: Any, sql: str, values: Any) -> bool:
        if "from tasks t " in sql:
            self.statements.append((sql, values))
        return True


def test_outlook_counts_tasks_from_indexes_alone(tmp_path: Path) -> None:
    queue = Watched(tmp_path)
    queue.add()
    found = queue.outlook()
    assert (found.ready, found.later, found.waiting, found.blocked) == (2, 1, 1, 1)
    counts = [each for each in queue.statements if "count(*)" in each[0]]
    used = [queue.plan(*each)[0].partition("INDEX ")[2].split()[0] for each in counts]
    assert used == ["tasks_ready", "tasks_put_off", "tasks_blocked", "tasks_by_status", "tasks_stopped"]
    assert [queue.plan(*each) for each in counts if queue.reads_tasks(*each)] == []
    queue.close()


def test_outlook_finds_reasons_for_waiting_without_sorting(tmp_path: Path) -> None:
    queue = Watched(tmp_path)
    queue.add()
    assert "no host offers gpu (1 task waits for it)" in queue.outlook().reasons
    plans = [queue.plan(*each) for each in queue.statements if "limit :limit" in each[0]]
    assert [plan[0].partition("INDEX ")[2].split()[0] for plan in plans] == [
        *("tasks_ready", "tasks_requiring", "tasks_put_off", "tasks_by_status")
    ]
    assert not [plan for plan in plans if "USE TEMP B-TREE FOR ORDER BY" in plan]
    queue.close()
