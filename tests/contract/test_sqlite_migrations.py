"""Creation, upgrade and refusal of the SQLite file."""

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest

from builders import a_task
from fleet.core.errors import SchemaMismatch, StoreFault
from fleet.core.filter import Filter
from fleet.store import named_sql
from fleet.store.sqlite.connection import SCHEMA_VERSION, SqliteConnection
from fleet.store.sqlite.store import SqliteStore
from needs import require
from workers.migrate import FIRST, TABLES

WORKERS = Path(__file__).parent.parent / "workers"
LAST = FIRST + 4

MAKE = "import sys; from fleet.store.sqlite.store import SqliteStore; SqliteStore(sys.argv[1], make=True).config.all()"
READ_AS_NOBODY = """
import os, sys
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.store.sqlite.store import SqliteStore
os.setgid(65534); os.setuid(65534)
try:
    store = SqliteStore(sys.argv[1])
    print(store.tasks.count(Filter()))
    store.config.set("a", "b")
except FleetError as error:
    print(type(error).__name__, error, error.hint)
"""


def version_of(path: Path) -> int:
    """Return the schema version of a file."""
    connection = apsw.Connection(str(path))
    version = connection.pragma("user_version")
    assert connection.pragma("integrity_check") == "ok"
    connection.close()
    return int(version)


def steps_in(path: Path) -> dict[int, int]:
    """Return the number of tables of each migration in a file."""
    connection = apsw.Connection(str(path))
    names = [name for (name,) in connection.execute("select name from sqlite_schema where name glob 'step_*'")]
    connection.close()
    return {number: sum(name.startswith(f"step_{number}_") for name in names) for number in range(FIRST, LAST + 1)}


def migrate(path: Path, stop: str) -> subprocess.Popen[str]:
    """Start an upgrade in a separate process that stops at a given point."""
    process = subprocess.Popen(
        [sys.executable, WORKERS / "migrate.py", path, str(LAST), stop],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def finish(path: Path) -> None:
    """Run an upgrade without interruption."""
    command = [sys.executable, str(WORKERS / "migrate.py"), str(path), str(LAST), "nowhere"]
    subprocess.run(command, check=True, timeout=60, stdin=subprocess.DEVNULL)


def killed(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for its end."""
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_new_file_gets_the_whole_schema_and_private_modes(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    store = SqliteStore(str(path), make=True)
    store.tasks.add(a_task())
    files = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert files == {"fleet.db": 0o600, "fleet.db-wal": 0o600, "fleet.db-shm": 0o600}
    store.close()
    assert version_of(path) == SCHEMA_VERSION
    assert apsw.Connection(str(path)).pragma("journal_mode") == "wal"


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(str(tmp_path / "fleet.db"), make=True)
        store.tasks.add(a_task())
        assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
        store.close()
    finally:
        os.umask(before)


def test_migrations_are_numbered_without_gaps_up_to_the_known_schema() -> None:
    assert [number for number, _ in named_sql.migrations("sqlite")] == list(range(1, SCHEMA_VERSION + 1))


def test_opening_again_keeps_the_content(tmp_path: Path) -> None:
    path = str(tmp_path / "fleet.db")
    task = a_task()
    for _ in range(2):
        store = SqliteStore(path, make=True)
        store.close()
    store = SqliteStore(path)
    store.tasks.add(task)
    store.close()
    store = SqliteStore(path, make=True)
    assert store.tasks.find(Filter()) == [task]
    store.close()


def test_file_is_created_only_when_requested(tmp_path: Path) -> None:
    with pytest.raises(StoreFault, match="no database at") as refused:
        SqliteStore(str(tmp_path / "fleet.db"))
    assert refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_processes_that_create_the_same_file_at_once_all_succeed(tmp_path: Path) -> None:
    for attempt in range(4):
        path = tmp_path / f"fleet-{attempt}.db"
        makers = [subprocess.Popen([sys.executable, "-c", MAKE, path], stderr=subprocess.PIPE) for _ in range(8)]
        ends = [(maker.communicate(timeout=60)[1].decode(), maker.returncode) for maker in makers]
        assert ends == [("", 0)] * 8
        assert version_of(path) == SCHEMA_VERSION


@pytest.mark.parametrize(
    "stop", [*(f"{where}-{FIRST + step}" for step in (0, 2, 4) for where in ("before", "in")), "after"]
)
def test_killed_upgrade_leaves_a_whole_version_and_can_continue(tmp_path: Path, stop: str) -> None:
    path = tmp_path / "fleet.db"
    store = SqliteStore(str(path), make=True)
    task = a_task()
    store.tasks.add(task)
    store.close()
    killed(migrate(path, stop))
    version = version_of(path)
    assert version == (LAST if stop == "after" else int(stop.split("-")[1]) - 1)
    assert steps_in(path) == {number: TABLES if number <= version else 0 for number in range(FIRST, LAST + 1)}
    finish(path)
    assert (version_of(path), set(steps_in(path).values())) == (LAST, {TABLES})
    connection = apsw.Connection(str(path))
    assert connection.execute(f"select x from step_{FIRST + 1}_0").get == FIRST + 101
    assert connection.execute("select id from tasks").get == task.id


def test_upgrade_completes_when_it_is_killed_repeatedly(tmp_path: Path) -> None:
    path, seed = tmp_path / "fleet.db", 20260301
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    SqliteStore(str(path), make=True).close()
    for _ in range(8):
        version = version_of(path)
        stops = [f"{where}-{number}" for number in range(version + 1, LAST + 1) for where in ("before", "in")]
        killed(migrate(path, chance.choice(stops[:4]) if stops else "after"))
        assert version <= version_of(path)
    finish(path)
    assert set(steps_in(path).values()) == {TABLES}


def test_two_upgrades_at_once_run_each_step_once(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    SqliteStore(str(path), make=True).close()
    first = migrate(path, f"before-{FIRST + 1}")
    finish(path)
    first.communicate()
    assert first.returncode == 0
    assert set(steps_in(path).values()) == {TABLES}
    step = FIRST + 3
    assert apsw.Connection(str(path)).execute(f"select count(*), max(x) from step_{step}_0").get == (1, step + 100)


def test_failed_step_leaves_the_version_before_it(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    connection = SqliteConnection(str(path), make=True)
    with pytest.raises(StoreFault, match="the database refused"):
        good = (FIRST, f"create table step_{FIRST}_0 (x)")
        connection.migrate([good, (FIRST + 1, f"create table step_{FIRST + 1}_0 (x); create nonsense")])
    connection.close()
    assert (version_of(path), steps_in(path)[FIRST], steps_in(path)[FIRST + 1]) == (FIRST, 1, 0)


def test_file_is_created_again_when_its_creation_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    path.touch(0o600)
    with pytest.raises(SchemaMismatch):
        SqliteStore(str(path))
    SqliteStore(str(path), make=True).close()
    assert version_of(path) == SCHEMA_VERSION


def test_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    connection = SqliteConnection(str(path), make=True)
    connection.migrate([(SCHEMA_VERSION + 1, "create table later (x)")])
    connection.close()
    for make in (False, True):
        with pytest.raises(SchemaMismatch, match=f"schema {SCHEMA_VERSION + 1}") as refused:
            SqliteStore(str(path), make=make)
        assert "upgrade" in refused.value.hint
    assert version_of(path) == SCHEMA_VERSION + 1


@pytest.mark.parametrize("make", [False, True])
def test_older_schema_is_refused_with_a_hint_to_upgrade(
    tmp_path: Path, make: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fleet.db"
    SqliteStore(str(path), make=True).close()
    monkeypatch.setattr("fleet.store.sqlite.connection.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    with pytest.raises(SchemaMismatch, match=f"needs {SCHEMA_VERSION + 1}") as refused:
        SqliteStore(str(path), make=make)
    assert "fleet run" in refused.value.hint
    assert version_of(path) == SCHEMA_VERSION


@pytest.mark.parametrize(
    "content", [b"this is no database\n" * 100, b"\x00" * 5_000, b"SQLite format 3\x00" + b"x" * 5_000]
)
@pytest.mark.parametrize("make", [False, True])
def test_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes, make: bool) -> None:
    path = tmp_path / "fleet.db"
    path.write_bytes(content)
    with pytest.raises(StoreFault, match=r"not a fleet database|damaged") as refused:
        SqliteStore(str(path), make=make)
    assert refused.value.hint
    assert path.read_bytes() == content


def test_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fleet.db").mkdir()
    with pytest.raises(StoreFault, match="cannot be opened"):
        SqliteStore(str(tmp_path / "fleet.db"))


def test_unwritable_file_is_refused_with_an_explanation(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "a read-only database: it takes root to become somebody who may only read")
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        path = folder / "fleet.db"
        store = SqliteStore(str(path), make=True)
        store.tasks.add(a_task())
        for each in folder.iterdir():
            each.chmod(0o644)
        answer = subprocess.run(
            [sys.executable, "-c", READ_AS_NOBODY, path], capture_output=True, text=True, check=True
        )
        store.close()
    finally:
        shutil.rmtree(folder)
    last = answer.stdout.splitlines()[-1]
    assert last.startswith("StoreHindered the database cannot be") and "mode of" in last
