"""Upgrades of an older database: only on request, and without loss."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from builders import a_comment, a_task, an_edge
from contract.store_builders import a_claim, a_receipt, a_run, a_workspace
from fleet.assembly import open_fleet
from fleet.core.errors import SchemaMismatch, StoreFault
from fleet.core.filter import Filter
from fleet.core.rules import Rules
from fleet.core.run import Run
from fleet.home import Home
from fleet.store import named_sql
from fleet.store.sql.accounts import MOST_TOKENS
from fleet.store.sql.rows import task_values
from fleet.store.sqlite.connection import SCHEMA_VERSION
from fleet.store.sqlite.store import SqliteStore
from program import Program
from supervised import Supervised, wait_for

NEW = SCHEMA_VERSION + 2
#: The counters of a task until schema 7, three digits each, and their values.
PACKED = 7_006_020_005_004
UNPACKED = {"fresh_starts": 4, "losses": 5, "waits": 20, "disproofs": 6, "fakes": 7}
ADD_A_COLUMN = "alter table runs add column mood text not null default 'calm';"
# SQLite cannot change the constraint of a column. A migration drops the table, which others refer to, and creates it
# again.
BUILD_ANEW = """
create table tasks_new as select * from tasks;
drop table tasks;
create table tasks (id text primary key not null, title text not null) strict;
insert into tasks select id, title from tasks_new;
drop table tasks_new;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a database of the current fleet with rows in all tables."""
    path = tmp_path / "fleet.db"
    store = SqliteStore(str(path), make=True)
    claim = a_claim(store, id="t-1", labels=("x",))
    store.runs.begin(claim, a_run())
    store.tasks.add(a_task(id="t-2"))
    store.edges.add(an_edge("t-2", "t-1"))
    store.comments.add(a_comment("t-1"))
    store.close()
    return path


@pytest.fixture
def newer_fleet(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a fleet that knows two more migrations than the creator of the database."""
    folder = tmp_path / "sql"
    shutil.copytree(named_sql.FOLDER, folder)
    (folder / "sqlite" / f"{NEW - 1:04}_mood.sql").write_text(ADD_A_COLUMN, "utf-8")
    (folder / "sqlite" / f"{NEW:04}_anew.sql").write_text(BUILD_ANEW, "utf-8")
    monkeypatch.setattr(named_sql, "FOLDER", str(folder))
    monkeypatch.setattr("fleet.store.sqlite.connection.SCHEMA_VERSION", NEW)


def made_with(path: Path, steps: int) -> apsw.Connection:
    """Return a database with the given number of migrations."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    for _, script in named_sql.migrations("sqlite")[:steps]:
        connection.execute(script)
    connection.pragma("user_version", steps)
    return connection


def add_old_work(connection: apsw.Connection) -> None:
    """Add a finished task with two runs to a database without workspaces. The second run was never ended."""
    task = a_task(id="t-1", status="closed", repo="/r", branch="x", labels=())
    values = task_values(task) | {"restarts": PACKED}
    known = [row[1] for row in connection.execute("pragma table_info(tasks)") if row[1] in values]
    slots = ", ".join(f":{name}" for name in known)
    connection.execute(f"insert into tasks ({', '.join(known)}) values ({slots})", values)
    for number, ended_at in ((1, 9), (2, None)):
        connection.execute(
            "insert into runs (id, task, number, epoch, owner, started_at, ended_at, branch, output_tokens, home)"
            " values (?, 't-1', ?, 1, 'host', 1, ?, 'x', 7, '/h')",
            (f"t-1/{number}", number, ended_at),
        )
    connection.close()


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    found = list(connection.execute(sql))
    connection.close()
    return found


def version(path: Path) -> object:
    return rows(path, "pragma user_version")[0][0]


@pytest.mark.usefixtures("newer_fleet")
def test_older_database_is_upgraded_when_requested(old: Path) -> None:
    with pytest.raises(SchemaMismatch, match=f"needs {NEW}"):
        SqliteStore(str(old))
    assert version(old) == SCHEMA_VERSION
    store = SqliteStore(str(old), migrate=True)
    assert store.config.all() == {}
    store.close()
    assert version(old) == NEW
    assert rows(old, "select id, mood from runs") == [("t-1/1", "calm")]
    SqliteStore(str(old)).close()


@pytest.mark.usefixtures("newer_fleet")
def test_upgrade_keeps_one_copy_when_it_replaces_an_earlier_one(old: Path) -> None:
    """The copy has the previous schema with all its data and is private. A killed upgrade leaves no draft."""
    copy = Path(f"{old}.schema-{SCHEMA_VERSION}")
    for name in (f"{old}.schema-3", f"{copy}.new"):
        Path(name).write_text("from an earlier upgrade")
    SqliteStore(str(old), migrate=True).close()
    assert [each.name for each in old.parent.glob("fleet.db.*")] == [copy.name]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert (version(copy), version(old)) == (SCHEMA_VERSION, NEW)
    assert rows(copy, "pragma integrity_check") == [("ok",)]
    assert rows(copy, "select id from tasks order by id") == [("t-1",), ("t-2",)]
    assert rows(copy, "select key from config") == rows(old, "select key from config") == []


@pytest.mark.usefixtures("newer_fleet")
def test_upgrade_keeps_its_first_copy_when_it_continues_after_a_kill(old: Path) -> None:
    folder = Path(named_sql.FOLDER) / "sqlite"
    whole = (folder / f"{NEW:04}_anew.sql").read_text("utf-8")
    (folder / f"{NEW:04}_anew.sql").write_text("create nonsense;", "utf-8")
    with pytest.raises(StoreFault):
        SqliteStore(str(old), migrate=True)
    assert version(old) == NEW - 1
    (folder / f"{NEW:04}_anew.sql").write_text(whole, "utf-8")
    SqliteStore(str(old), migrate=True).close()
    assert [each.name for each in old.parent.glob("fleet.db.*")] == [f"fleet.db.schema-{SCHEMA_VERSION}"]


@pytest.mark.usefixtures("newer_fleet")
def test_upgrade_changes_nothing_when_the_database_cannot_be_copied(old: Path) -> None:
    Path(f"{old}.schema-{SCHEMA_VERSION}.new").mkdir()
    with pytest.raises(StoreFault, match="cannot be copied"):
        SqliteStore(str(old), migrate=True)
    assert version(old) == SCHEMA_VERSION


def test_older_fleet_names_the_way_back_when_a_newer_one_upgraded(
    old: Path, newer_fleet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(str(old), migrate=True).close()
    monkeypatch.undo()
    with pytest.raises(SchemaMismatch, match=f"has schema {NEW}") as refused:
        SqliteStore(str(old))
    _, command, _ = refused.value.hint.split("`")
    subprocess.run(["sh", "-c", command], check=True)
    store = SqliteStore(str(old))
    assert store.tasks.count(Filter()) == {"": 2}
    store.close()


@pytest.mark.usefixtures("newer_fleet")
def test_rebuilding_a_table_keeps_rows_that_refer_to_it(old: Path) -> None:
    store = SqliteStore(str(old), migrate=True)
    assert store.connection.rows("pragma foreign_keys") == [(1,)]
    store.close()
    assert rows(old, "select id from tasks order by id") == [("t-1",), ("t-2",)]
    assert rows(old, "select task, needs from edges") == [("t-2", "t-1")]
    assert rows(old, "select task, label from labels") == [("t-1", "x")]
    assert rows(old, "select task from comments") == [("t-1",)]


@pytest.mark.usefixtures("newer_fleet")
def test_step_that_would_lose_referenced_rows_is_rolled_back(old: Path) -> None:
    folder = Path(named_sql.FOLDER) / "sqlite"
    (folder / f"{NEW:04}_anew.sql").write_text("delete from tasks;", "utf-8")
    with pytest.raises(StoreFault, match="with dangling references"):
        SqliteStore(str(old), migrate=True)
    assert version(old) == NEW - 1
    assert len(rows(old, "select id from tasks")) == 2


def test_upgrades_at_once_run_each_step_once(old: Path, newer_fleet: None) -> None:
    script = "\n".join(
        (
            "import sys",
            "from fleet.store import named_sql; from fleet.store.sqlite import connection",
            f"named_sql.FOLDER = {named_sql.FOLDER!r}; connection.SCHEMA_VERSION = {NEW}",
            "from fleet.store.sqlite.store import SqliteStore",
            "SqliteStore(sys.argv[1], migrate=True).config.all()",
        )
    )
    upgrades = [subprocess.Popen([sys.executable, "-c", script, old], stderr=subprocess.PIPE) for _ in range(6)]
    assert [(each.communicate(timeout=60)[1].decode(), each.returncode) for each in upgrades] == [("", 0)] * 6
    assert version(old) == NEW


def test_upgrade_changes_nothing_when_the_schema_is_current(old: Path) -> None:
    before = old.read_bytes()
    store = SqliteStore(str(old), migrate=True)
    assert store.tasks.count(Filter()) == {"": 2}
    store.close()
    assert old.read_bytes() == before


def test_upgrade_creates_no_database(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    with pytest.raises(StoreFault, match="no database at"):
        SqliteStore(str(path), migrate=True)
    path.touch(0o600)
    with pytest.raises(SchemaMismatch, match="is empty"):
        SqliteStore(str(path), migrate=True)


@pytest.mark.parametrize("migrate", [False, True])
def test_newer_database_is_never_changed(
    old: Path, newer_fleet: None, monkeypatch: pytest.MonkeyPatch, migrate: bool
) -> None:
    SqliteStore(str(old), migrate=True).close()
    monkeypatch.undo()
    with pytest.raises(SchemaMismatch, match=f"has schema {NEW}"):
        SqliteStore(str(old), migrate=migrate)
    assert version(old) == NEW


@pytest.mark.usefixtures("newer_fleet")
def test_home_is_upgraded_only_when_it_is_opened_for_that(old: Path, tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    with pytest.raises(SchemaMismatch, match="needs"):
        open_fleet(home)
    with open_fleet(home, migrate=True) as fleet:
        assert [run.id for run in fleet.store.runs.live()] == ["t-1/1"]
        assert fleet.store is fleet.store


def test_upgrade_from_schema_1_keeps_all_rows_and_adds_sums_of_runs(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    connection = made_with(path, 1)
    runs = [("a/1", 5, 0.5, 9), ("b/1", 2**61, 2.5, 9), ("c/1", 2**61, -1.0, 9), ("d/1", 7, 7.0, None)]
    for key, tokens, cost, ended_at in runs:
        connection.execute(
            "insert into runs (id, task, number, epoch, owner, started_at, coder, account, input_tokens, output_tokens,"
            " cost_usd, ended_at) values (?, ?, 1, 1, 'host', 1, 'claude', ?, ?, ?, ?, ?)",
            (key, key[0], "work" if key[0] == "a" else "", tokens, tokens, cost, ended_at),
        )
    connection.execute("insert into accounts (coder, name, parked_until) values ('claude', 'work', 5)")
    connection.execute("insert into messages (id, task, text, queued_at) values ('m', 'a', 'hi', 1)")
    connection.close()
    store = SqliteStore(str(path), migrate=True)
    (work,) = store.accounts.all()
    assert (work.name, work.strikes, work.used_at, work.parked_until is not None) == ("work", 0, None, True)
    assert [(each.account, each.runs, each.tokens, each.cost_usd) for each in store.accounts.totals()] == [
        ("", 2, MOST_TOKENS, 2.5),
        ("work", 1, 10, 0.5),
    ]
    assert [each.id for each in store.messages.find("a")] == ["m"]
    store.runs.end(store.runs.live()[0])
    assert store.accounts.totals()[0].runs == 3
    store.close()


def test_upgrade_from_schema_2_keeps_all_rows_and_allows_leases(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    add_old_work(made_with(path, 2))
    with pytest.raises(SchemaMismatch, match="has schema 2, this fleet needs"):
        SqliteStore(str(path))
    store = SqliteStore(str(path), migrate=True)
    first, second = store.runs.of_task("t-1")
    assert (first.branch, first.tokens, first.home, first.is_live) == ("x", 7, "/h", False)
    assert first == second.replace(id="t-1/1", number=1, ended_at=first.ended_at)
    seen = ("session_name", "screen", "cpu_pct", "rss_kb", "diff_files", "diff_added", "diff_removed", "sampled_at")
    assert all(getattr(second, name) == Run._fields[name] for name in (*seen, "leftover", "verify", "flags"))
    assert [task.id for task in store.tasks.find(Filter(repo="/r", branch="x"))] == ["t-1"]
    assert (store.workspaces.find(gone=True), store.trust.get("repository", "/r")) == ([], None)
    leased = store.workspaces.lease(a_workspace("t-1", branch="x"))
    store.runs.end(second.replace(screen="ready", rss_kb=5, flags='["hooks"]'))
    store.trust.set("repository", "/r", "{}", "ada")
    store.close()
    store = SqliteStore(str(path))
    assert (store.workspaces.get("t-1"), store.trust.get("repository", "/r")) == (leased, "{}")
    assert [(run.screen, run.rss_kb, run.flags) for run in store.runs.of_task("t-1")[1:]] == [("ready", 5, '["hooks"]')]
    store.close()


def test_upgrade_from_schema_3_keeps_all_rows_and_allows_receipts(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    add_old_work(made_with(path, 3))
    with pytest.raises(SchemaMismatch, match="has schema 3, this fleet needs"):
        SqliteStore(str(path))
    store = SqliteStore(str(path), migrate=True)
    assert store.tasks.get("t-1").rules == "" and [run.spawn for run in store.runs.of_task("t-1")] == ["", ""]
    assert (store.receipts.of_task("t-1"), store.collisions.find()) == ([], [])
    rules = Rules(allow=("src/",), no_changes=True).text()
    store.tasks.save(store.tasks.get("t-1").replace(rules=rules))
    kept = store.receipts.keep(a_receipt("t-1/2"))
    store.runs.end(
        store.runs.of_task("t-1")[1].replace(spawn='{"program": "x"}', finding=kept.finding, receipt=kept.hash)
    )
    store.close()
    store = SqliteStore(str(path))
    assert store.tasks.get("t-1").rules == rules and store.receipts.of_task("t-1") == [kept]
    (run,) = store.runs.of_task("t-1")[1:]
    assert (run.spawn, run.finding, run.receipt) == ('{"program": "x"}', "verified", kept.hash)
    store.close()


@pytest.mark.parametrize("steps", [1, 7])
def test_counts_of_a_task_are_kept_when_its_database_packed_them(tmp_path: Path, steps: int) -> None:
    path = tmp_path / "fleet.db"
    connection = made_with(path, steps)
    for key, restarts in (("t-1", PACKED), ("t-2", 0), ("t-3", 999_999_999_999_999)):
        values = task_values(a_task(id=key, failures=1, continues=2)) | {"restarts": restarts}
        known = [row[1] for row in connection.execute("pragma table_info(tasks)") if row[1] in values]
        slots = ", ".join(f":{name}" for name in known)
        connection.execute(f"insert into tasks ({', '.join(known)}) values ({slots})", values)
    connection.close()
    store = SqliteStore(str(path), migrate=True)
    first, second, third = store.tasks.find(Filter(), sort="id")
    assert {name: getattr(first, name) for name in UNPACKED} == UNPACKED
    assert (first.failures, first.continues) == (1, 2)
    assert {getattr(second, name) for name in UNPACKED} == {0}
    assert {getattr(third, name) for name in UNPACKED} == {999}
    store.tasks.save(first.replace(losses=1_500))
    assert store.tasks.get("t-1") == first.replace(losses=1_500)
    store.close()


def test_fleet_run_upgrades_a_home_and_other_commands_name_it(fleet: Program) -> None:
    supervised = Supervised(fleet)
    database = fleet.home / "fleet.db"
    for each in fleet.home.glob("fleet.db*"):
        each.unlink()
    add_old_work(made_with(database, 2))
    for words in (["tasks"], ["bd", "list"], ["bd", "create", "x"], ["runs", "t-1"], ["init"]):
        refused = fleet(*words)
        assert refused.code == 1 and "has schema 2" in refused.err and "`fleet run restart`" in refused.err, (
            words,
            refused,
        )
    assert version(database) == 2
    supervised.start()
    try:
        wait_for(lambda: version(database) == SCHEMA_VERSION, "the upgrade", supervised.describe)
        assert "t-1" in fleet.ok("bd", "list", "--all")
        assert len(json.loads(fleet.ok("runs", "t-1", "--json"))) == 2
    finally:
        supervised.stop()
