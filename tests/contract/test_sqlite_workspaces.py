"""Workspaces in SQLite: constraints of the file, competing processes, and lookups by index."""

import subprocess
import sys
from pathlib import Path

import pytest

from builders import a_task
from contract.store_builders import a_workspace, removed
from fleet.core.errors import StoreFault
from fleet.core.filter import Filter
from fleet.store import named_sql
from fleet.store.sql.records import values_of
from fleet.store.sqlite.store import SqliteStore

LEASE = """
import sys, time
from fleet.core.errors import BranchTaken
from fleet.core.workspace import Workspace
from fleet.store.sqlite.store import SqliteStore

path, task, branch = sys.argv[1:]
store = SqliteStore(path)

def choose(leased):
    time.sleep(0.02)  # long enough for others to look meanwhile, if they could
    return next(first for first in range(20_000, 60_000, 10) if first not in leased)

wanted = Workspace(
    task_id=task, repo="/r", common="/r/.git", path="/w/" + task, branch=branch, made_at=store.now(), port_count=10
)
sys.stdin.readline()
try:
    print(store.workspaces.lease(wanted, ports=choose).first_port)
except BranchTaken as error:
    print("taken by", error.task_id)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    SqliteStore(str(tmp_path / "fleet.db"), make=True).close()
    return str(tmp_path / "fleet.db")


def leased_at_once(path: str, wanted: list[tuple[str, str]]) -> list[str]:
    """Lease these tasks and branches in processes at the same time. Return what each process prints."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LEASE, path, task, branch], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for task, branch in wanted
    ]
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    return [each.communicate(timeout=60)[0].strip() for each in started]


def test_branch_is_leased_once_when_processes_compete_for_it(path: str) -> None:
    told = leased_at_once(path, [(f"t-{number}", "x") for number in range(6)])
    (winner,) = [number for number, each in enumerate(told) if each == "20000"]
    assert sorted(told) == sorted(["20000", *[f"taken by t-{winner}"] * 5])


def test_processes_that_lease_at_once_get_different_ports(path: str) -> None:
    told = leased_at_once(path, [(f"t-{number}", f"b-{number}") for number in range(8)])
    assert sorted(told) == [str(first) for first in range(20_000, 20_080, 10)]


def test_processes_of_one_task_get_one_workspace(path: str) -> None:
    assert leased_at_once(path, [("t", "x"), ("t", "y"), ("t", "x")]) == ["20000"] * 3


@pytest.mark.parametrize(
    "same", [{"task_id": "t"}, {"common": "/r/.git", "branch": "b/t"}, {"path": "/w/t"}, {"first_port": 20_000}]
)
def test_database_refuses_duplicates_of_unique_values(path: str, same: dict[str, str]) -> None:
    store = SqliteStore(path)
    store, insert = store, named_sql.load("sqlite", "workspaces")["insert_workspace"]
    store.workspaces.lease(a_workspace("t", first_port=20_000))
    second = a_workspace("u", common="/other", first_port=1).replace(**same)
    with pytest.raises(StoreFault, match="UNIQUE"):
        store.connection.rows(insert, values_of(second))
    removed(store, "t")
    store.connection.rows(insert, values_of(second))
    assert [each.task_id for each in store.workspaces.find()] == [second.task_id]
    store.close()


def test_trust_decisions_stay_on_record_with_actor_and_time(path: str) -> None:
    store = SqliteStore(path)
    for value, by in (("one", "ada"), ("two", "bob\ud83d")):
        store.trust.set("project", "/r", value, by)
    rows = store.connection.rows("select kind, key, value, by, at > 0 from trusted order by id")
    assert rows == [("project", "/r", "one", "ada", 1), ("project", "/r", "two", "bob?", 1)]
    store.close()


@pytest.mark.parametrize(
    "where",
    [
        Filter(repo="/r", branch="x"),
        Filter(repo="/r", branches=("x", "y")),
        Filter(repo="/r", branch="x", unfinished=True),
    ],
)
def test_branch_lookup_uses_an_index(path: str, where: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path)
    store.tasks.add(a_task(id="t", repo="/r", branch="x"))
    store.tasks.add(a_task(id="u", repo="/other", branch="x"))
    asked = []
    ask = store.connection.rows

    def noted(sql: str, values: dict[str, object] | None = None) -> list[tuple[object, ...]]:
        asked.append((sql, values))
        return ask(sql, values)

    monkeypatch.setattr(store.connection, "rows", noted)
    assert [task.id for task in store.tasks.find(where)] == ["t"]
    (sql, values), *_ = asked
    plan = " ".join(str(row[3]) for row in ask("explain query plan " + sql, values))
    assert "SEARCH t USING INDEX tasks_by_branch (repo=? AND branch=?)" in plan, plan
    store.close()
