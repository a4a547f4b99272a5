"""Requirements on a PostgreSQL database, its health report, and the encoding of texts."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders import HOUR, a_comment, a_task
from contract.postgres.holding import SECOND
from fleet.core.errors import BadInput, SchemaMismatch, StoreAway, StoreFault
from fleet.core.filter import Filter, Lane, by_lane
from fleet.core.health import HealthState
from fleet.store import named_sql
from fleet.store.postgres.store import PostgresStore
from fleet.store.sql.rows import task_values
from fleet.store.sqlite.connection import SCHEMA_VERSION
from postgres import Server, server, stopped

FILES = ("queries", "filters", "orders", "history", "flows", "receipts", "workspaces", "hosts")


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ufdd0", "\ufdd00 \ufdd01 \0\ufdd0\0", "%s %(x)s :id"])
def test_text_is_unchanged_when_postgresql_cannot_store_it_directly(store: PostgresStore, text: str) -> None:
    task = a_task(title=f"a {text}", labels=(f"l{text}",), metadata={"k": text})
    store.tasks.add(task)
    comment = a_comment(task, text=text)
    store.comments.add(comment)
    assert store.tasks.get(task.id) == task
    assert store.comments.find([task.id]) == [comment]
    for where in (Filter(title_has=text), Filter(labels=(f"l{text}",)), Filter(metadata={"k": text})):
        assert store.tasks.find(where) == [task]


def test_claim_uses_the_lane_index_without_scan_or_sort(store: PostgresStore) -> None:
    with store.atomic():
        for number in range(1500):
            store.tasks.add(a_task(coder=("claude", "codex", "")[number % 3], priority=number % 5))
    for table in ("tasks", "edges"):
        store.connection.rows(f"analyze {table}")
    plans = []
    ask = store.connection.rows

    def explained(sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if "skip locked" in sql:
            plans.append("\n".join(row[0] for row in ask(f"explain {sql}", values)))
        return ask(sql, values)

    store.connection.rows = explained  # type: ignore[method-assign]
    where = Filter(coders=("", "claude"), accounts=("", "work"), modes=("", "headless"))
    assert len(store.claims.acquire("host", [Lane(room=3, where=where)], room=3, ttl=HOUR)) == 3
    assert len(plans) == len(by_lane(where))
    for plan in plans:
        assert "Scan using tasks_claimable_by_lane on tasks t" in plan and "Seq Scan on tasks" not in plan
        assert "Sort" not in plan


def test_database_is_refused_with_a_hint_when_its_schema_is_missing_or_newer() -> None:
    url = server().make_database()
    with pytest.raises(SchemaMismatch, match="has schema 0") as missing:
        PostgresStore(url)
    assert "fleet init" in missing.value.hint
    with ThreadPoolExecutor() as pool:
        made = [pool.submit(PostgresStore, url, make=True) for _ in range(4)]
    for each in made:
        each.result().close()
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("comment on schema fleet is '99'")
    with pytest.raises(SchemaMismatch, match=f"has schema 99, this fleet knows {SCHEMA_VERSION}"):
        PostgresStore(url, make=True, migrate=True)


def test_counts_of_a_task_are_kept_when_its_database_packed_them() -> None:
    url = server().make_database()
    values = task_values(a_task(id="t-1", failures=1)) | {"restarts": 7_006_020_005_004}
    with psycopg.connect(url, autocommit=True) as link:
        for number, script in named_sql.migrations("postgres"):
            if number < 8:
                link.execute(script.encode())
        link.execute("comment on schema fleet is '7'")
        told = link.execute("select * from fleet.tasks limit 0").description
        known = [column.name for column in told or () if column.name in values]
        slots = ", ".join(f"%({name})s" for name in known)
        link.execute(f"insert into fleet.tasks ({', '.join(known)}) values ({slots})".encode(), values)
    with pytest.raises(SchemaMismatch, match="has schema 7"):
        PostgresStore(url)
    store = PostgresStore(url, migrate=True)
    task = store.tasks.get("t-1")
    assert (task.failures, task.fresh_starts, task.losses, task.waits, task.disproofs, task.fakes) == (
        1,
        4,
        5,
        20,
        6,
        7,
    )
    store.tasks.save(task.replace(waits=1_500))
    assert store.tasks.get("t-1").waits == 1_500
    store.close()


def test_errors_never_contain_the_connection_string() -> None:
    for string in (
        "postgresql://ada:hunter22@h/x?sslmod=on",
        "postgresql://ada:hunter22@[::1",
        "postgresql://a:hunter22%@h",
    ):
        with pytest.raises(BadInput) as refused:
            PostgresStore(string)
        assert "hunter22" not in f"{refused.value} {refused.value.hint} {refused.value.__cause__}"
    with pytest.raises(StoreAway) as away:
        PostgresStore("postgresql://ada:hunter22@127.0.0.1:1/x")
    assert not [piece for piece in ("hunter22", "ada", "127.0.0.1") if piece in f"{away.value} {away.value.__cause__}"]


def test_refused_query_raises_a_store_fault(store: PostgresStore) -> None:
    with pytest.raises(StoreFault, match="the database refused") as refused:
        store.connection.rows("select nothing from nowhere")
    assert not isinstance(refused.value, StoreAway)
    assert store.tasks.find(Filter()) == []


def test_health_reports_a_running_and_an_unreachable_server(own: Server) -> None:
    store = PostgresStore(own.make_database(), make=True, lease=6 * SECOND)
    signs = {sign.name: sign for sign in store.health()}
    assert list(signs) == ["postgresql", "encryption", "latency", "clock"]
    assert {sign.state for sign in signs.values()} == {HealthState.OK}
    with stopped(own):
        (away,) = store.health()
        assert away.state == HealthState.WRONG and "cannot be reached" in away.fact and away.remedy
    store.close()


@pytest.mark.parametrize("name", FILES)
def test_postgres_sql_files_contain_only_statements_that_differ(name: str) -> None:
    ours = named_sql.load("sqlite", name)
    theirs = named_sql.load("postgres", name) if named_sql.has("postgres", name) else {}
    assert set(theirs) - set(ours) <= {"lock_seat"}
    assert not [block for block, sql in theirs.items() if ours.get(block) == sql]


def test_both_databases_have_the_same_columns(store: PostgresStore, tmp_path: Path) -> None:
    from fleet.store.sqlite.store import SqliteStore

    embedded = SqliteStore(str(tmp_path / "fleet.db"), make=True)
    ours = embedded.connection.rows(
        "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table'"
    )
    theirs = store.connection.rows(
        "select table_name::text, column_name::text from information_schema.columns where table_schema = 'fleet'"
    )
    assert set(ours) == set(theirs)
    embedded.close()
