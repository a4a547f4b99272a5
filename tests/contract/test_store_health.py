"""The health report of all stores, and the faults that the SQLite store detects."""

from pathlib import Path

import apsw
import pytest

from builders import a_task
from fleet.core.health import HealthCheck, HealthState
from fleet.store.base import Store
from fleet.store.sqlite import checks
from fleet.store.sqlite.checks import library
from fleet.store.sqlite.store import SqliteStore


def worst(store: Store, name: str) -> HealthCheck:
    """Return the worst report with this name."""
    order = (HealthState.WRONG, HealthState.WARNING, HealthState.OK)
    return min((each for each in store.health() if each.name == name), key=lambda each: order.index(each.state))


def test_health_of_a_sound_queue_is_ok_and_changes_nothing(store: Store) -> None:
    task = a_task()
    store.tasks.add(task)
    found = store.health()
    assert found and all(each.state == HealthState.OK and each.fact and not each.remedy for each in found)
    assert store.tasks.get(task.id) == task
    assert not store.was_moved()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.db"


def filled(path: Path) -> SqliteStore:
    store = SqliteStore(str(path), make=True)
    with store.atomic():
        for _ in range(200):
            store.tasks.add(a_task(description="words " * 50))
    return store


def test_health_names_file_library_and_log_of_sqlite(path: Path) -> None:
    store = filled(path)
    assert [each.name for each in store.health()] == ["sqlite", "integrity", "journal"]
    assert worst(store, "integrity").fact == str(path)
    store.close()


@pytest.mark.parametrize("page", [3, 9])
def test_damaged_page_is_reported_with_a_remedy(path: Path, page: int) -> None:
    filled(path).close()
    data = bytearray(path.read_bytes())
    data[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    store = SqliteStore(str(path))
    found = worst(store, "integrity")
    assert found.state == HealthState.WRONG and "fleet restore" in found.remedy
    assert sum(each.name == "integrity" for each in store.health()) <= checks.SHOWN
    store.close()


def test_dangling_reference_is_reported(path: Path) -> None:
    store = filled(path)
    connection = apsw.Connection(str(path))
    connection.execute("insert into comments values ('c', 'nope', 'ada', 'well', 0)")
    connection.close()
    assert worst(store, "integrity").fact == "comments has a dangling reference"
    store.close()


def test_unexpected_journal_mode_is_reported(path: Path) -> None:
    filled(path).close()
    connection = apsw.Connection(str(path))
    assert connection.pragma("journal_mode", "delete") == "delete"
    connection.close()
    store = SqliteStore(str(path))
    found = worst(store, "journal")
    assert (found.state, "delete" in found.fact, "journal_mode = wal" in found.remedy) == (
        HealthState.WRONG,
        True,
        True,
    )
    store.close()


def test_log_that_cannot_be_checkpointed_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(path)
    monkeypatch.setattr(checks, "LARGEST_LOG_MB", 0)
    found = worst(store, "journal")
    assert found.state == HealthState.WARNING and "MB" in found.fact and found.remedy
    store.close()


@pytest.mark.parametrize(
    ("version", "state"),
    [("3.51.2", "wrong"), ("3.9.99", "wrong"), ("3.51.3", "ok"), ("3.100.0", "ok"), ("4.0.0", "ok")],
)
def test_library_version_that_can_lose_writes_is_reported(version: str, state: str) -> None:
    found = library(version)
    assert (found.state, bool(found.remedy)) == (state, state == "wrong")
