"""Run history in SQLite: when it reaches the disk, when others see it, and its cost for other queries."""

import subprocess
import sys
from pathlib import Path

import pytest

from contract.store_builders import a_claim, a_question, a_run
from fleet.core.task import Verdict
from fleet.store.sqlite.store import SqliteStore

NORMAL, FULL = 1, 2


def synchronous(store: SqliteStore) -> int:
    """Return the synchronous mode of the last transaction."""
    return int(store.connection.rows("pragma synchronous")[0][0])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "fleet.db")


def test_folding_does_not_wait_for_the_disk_and_ending_does(path: str) -> None:
    store = SqliteStore(path, make=True)
    claim = a_claim(store)
    assert synchronous(store) == NORMAL
    run = store.runs.begin(claim, a_run())  # the number names a folder, so a power cut must not free it
    assert synchronous(store) == FULL
    store.runs.fold_all([(claim, run)])
    assert synchronous(store) == NORMAL
    store.questions.ask(a_question(run.task_id))
    assert synchronous(store) == FULL
    store.runs.fold(claim, run)
    assert synchronous(store) == NORMAL
    store.runs.end(run)
    assert synchronous(store) == FULL
    store.close()


def test_settled_task_and_ended_run_become_visible_together(path: str) -> None:
    ours, theirs = SqliteStore(path, make=True), SqliteStore(path)
    store, seen = ours, theirs
    claim = a_claim(ours)
    run = store.runs.begin(claim, a_run())
    with ours.atomic():
        ours.claims.settle(claim, Verdict(status="closed"))
        store.runs.end(run)
        assert (theirs.tasks.get(run.task_id).status, seen.runs.live()) == ("in_progress", [run])
    assert (theirs.tasks.get(run.task_id).status, seen.runs.live()) == ("closed", [])
    ours.close()
    theirs.close()


def test_tasks_are_read_without_the_history(path: str) -> None:
    store = SqliteStore(path, make=True)
    run = store.runs.begin(a_claim(store, id="t-1"), a_run())
    store.close()
    script = "\n".join(
        (
            "import sys",
            "from fleet.assembly import open_fleet",
            "from fleet.home import Home",
            "fleet = open_fleet(Home(sys.argv[1]))",
            "ports = {'fleet.store.sql.runs', 'fleet.store.sql.claims'}",
            "def known(): return ports & set(sys.modules)",
            "assert fleet.store.tasks.get('t-1').id == 't-1' and not known(), known()",
            f"assert fleet.store.runs.get({run.id!r}) is not None and known() == {{'fleet.store.sql.runs'}}",
        )
    )
    subprocess.run([sys.executable, "-c", script, Path(path).parent], check=True, timeout=60)
