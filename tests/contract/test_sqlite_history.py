"""The history in SQLite: when it reaches the disk, what others see of it, and who pays for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from contract.history_builders import a_claim, a_question, a_run
from fleet.core.task import Verdict
from fleet.store.sqlite import SqliteQueue
from fleet.store.sqlite_history import SqliteHistory

NORMAL, FULL = 1, 2


def synchronous(queue: SqliteQueue) -> int:
    """How the last transaction was written."""
    return int(queue.connection.rows("pragma synchronous")[0][0])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "fleet.db")


def test_what_is_folded_every_second_does_not_wait_for_the_disk_and_an_end_does(path: str) -> None:
    queue = SqliteQueue(path, make=True)
    history = SqliteHistory(queue)
    claim = a_claim(queue)
    assert synchronous(queue) == NORMAL
    run = history.begin(claim, a_run())  # its number names a folder: a power cut must not give it out again
    assert synchronous(queue) == FULL
    history.fold_all([(claim, run)])
    assert synchronous(queue) == NORMAL
    history.ask(a_question(run.task_id))
    assert synchronous(queue) == FULL
    history.fold(claim, run)
    assert synchronous(queue) == NORMAL
    history.end(run)
    assert synchronous(queue) == FULL
    queue.close()


def test_others_see_a_settled_task_and_its_ended_run_at_the_same_moment(path: str) -> None:
    ours, theirs = SqliteQueue(path, make=True), SqliteQueue(path)
    history, seen = SqliteHistory(ours), SqliteHistory(theirs)
    claim = a_claim(ours)
    run = history.begin(claim, a_run())
    with ours.atomic():
        ours.settle(claim, Verdict(status="closed"))
        history.end(run)
        assert (theirs.get(run.task_id).status, seen.live()) == ("in_progress", [run])
    assert (theirs.get(run.task_id).status, seen.live()) == ("closed", [])
    ours.close()
    theirs.close()


def test_whoever_does_not_ask_for_the_history_does_not_pay_for_it(path: str) -> None:
    queue = SqliteQueue(path, make=True)
    run = SqliteHistory(queue).begin(a_claim(queue, id="t-1"), a_run())
    queue.close()
    script = "\n".join(
        (
            "import sys",
            "from fleet.assembly import open_fleet",
            "from fleet.home import Home",
            "fleet = open_fleet(Home(sys.argv[1]))",
            "def known(): return sorted(name for name in sys.modules if 'fleet' in name and 'history' in name)",
            "assert fleet.queue.get('t-1').id == 't-1' and known() == [], known()",
            f"assert fleet.history.run({run.id!r}) is not None and known() != []",
        )
    )
    subprocess.run([sys.executable, "-c", script, Path(path).parent], check=True, timeout=60)
