"""The database is unreachable while agents work: they are frozen, nothing is lost or counted, and they resume."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from needs import require
from postgres import Server, _ids, _program, _unprivileged, stopped
from program import Program
from repositories import make_repository
from supervised import Supervised, small_disk, wait_for

LEASE = 3


class Shared(Supervised):
    """A home whose queue is in a PostgreSQL server that the test can stop."""

    def __init__(self, fleet: Program, server: Server) -> None:
        self.server, self.url = server, server.make_database()
        fleet.env["FLEET_QUEUE"] = self.url
        super().__init__(fleet)
        self.set(f"supervisor.claim_seconds={LEASE}", "supervisor.poll_seconds=0.2")

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, row_factory=dict_row) as link:
            link.execute("set search_path to fleet")
            return link.execute(sql.replace("?", "%s").encode(), values).fetchall()

    def states(self) -> list[str]:
        """Return the kernel's process state of each agent."""
        found = []
        for pid in self.agents():
            try:
                found.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
            except OSError:
                continue
        return found

    def wait_frozen(self, count: int = 1) -> None:
        wait_for(lambda: self.states() == ["T"] * count, "its agents to stand still")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    require(_program("postgres"), "PostgreSQL")
    made = Server()
    yield made
    made.remove()


@pytest.fixture
def home(fleet: Program, server: Server) -> Iterator[Shared]:
    made = Shared(fleet, server)
    yield made
    made.stop()


def ended(home: Shared, key: str) -> list[tuple[Any, ...]]:
    return [(run["number"], run["epoch"], run["ending"]) for run in home.runs(key)]


@contextmanager
def database_on_small_disk(url: str, place: Path) -> Iterator[Callable[[], Callable[[], None]]]:
    """Keep a database on its own disk.

    Yield a function that fills the disk and returns another that makes room again.
    """
    name = conninfo_to_dict(url)["dbname"]
    with small_disk(place, "64m") as fill, ExitStack() as held:
        (place / "space").mkdir()
        for folder in (place, place / "space"):
            os.chown(folder, *_ids(_unprivileged()))

        def fill_up() -> Callable[[], None]:
            # A page keeps the versions of its rows that an old snapshot may read, so that updates need new pages.
            reader = held.enter_context(psycopg.connect(url))
            reader.execute("set transaction isolation level repeatable read")
            reader.execute("select 1")
            filler = fill()
            with psycopg.connect(url, autocommit=True) as link:
                for table in ("tasks", "runs"):
                    with pytest.raises(psycopg.errors.DiskFull):
                        while True:
                            link.execute(f"update fleet.{table} set id = id".encode())

            def make_room() -> None:
                held.close()
                filler.unlink()

            return make_room

        with psycopg.connect(url, dbname="postgres", autocommit=True) as link:
            link.execute(f"create tablespace small location '{place / 'space'}'".encode())
            link.execute(f"alter database {name} set tablespace small".encode())
            yield fill_up
            link.execute(f"alter database {name} set tablespace pg_default".encode())
            link.execute("drop tablespace small")


def test_outage_longer_than_a_lease_freezes_agents_and_loses_nothing(home: Shared) -> None:
    home.set("watchdog.silence_seconds=6")
    keys = home.create_many([f"until file={home.go}"] * 2)
    home.start()
    home.wait_started(2)
    with stopped(home.server):
        home.wait_frozen(2)
        time.sleep(2 * LEASE + 0.5)  # until every claim has expired and every watchdog would fire
        assert home.states() == ["T", "T"]
        home.go.touch()
    home.wait_all(keys, "closed")
    for key in keys:
        assert ended(home, key) == [(1, 1, "finished")]
        task = home.task(key)
        assert (task["failures"], task["continues"], task["losses"]) == (0, 0, 0)
    assert len(home.notes("start")) == 2


def test_run_that_ends_during_an_outage_is_settled_after_it(home: Shared) -> None:
    home.set("supervisor.claim_seconds=5")
    key = home.create(f"until file={home.go}")
    home.start()
    home.wait_started(1)
    with stopped(home.server):
        home.go.touch()
        wait_for(lambda: not home.agents(), "its end")
        time.sleep(5)  # until its claim has expired
    home.wait_status(key, "closed")
    assert ended(home, key) == [(1, 1, "finished")]


def test_run_record_is_complete_when_the_run_ended_during_an_outage(home: Shared, tmp_path: Path) -> None:
    home.set("supervisor.claim_seconds=10")  # the agent must not be frozen before it ends
    repository = make_repository(tmp_path / "repository")
    made = home.fleet.ok(
        "bd", "create", "w", "-d", "do: write seconds=1", "--workspace=worktree", "--json", cwd=repository
    )
    key = json.loads(made)["id"]
    home.start()
    home.wait_started(1)
    with stopped(home.server):
        wait_for(lambda: not home.agents(), "its end")
        time.sleep(1)
    home.wait_status(key, "closed")
    (run,) = home.runs(key)
    assert (run["ending"], run["finding"]) == ("finished", "unverified")
    assert run["leftover"] and "not concluded" not in run["flags"]


def test_agent_without_a_supervisor_is_frozen_and_resumes_with_the_next(home: Shared) -> None:
    key = home.create(f"until file={home.go}")
    home.start()
    home.wait_started(1)
    home.kill()
    home.wait_frozen()
    home.go.touch()
    home.start()
    home.wait_status(key, "closed")
    assert ended(home, key) == [(1, 2, "finished")]
    assert len(home.notes("start")) == 1


def test_supervisor_that_starts_during_an_outage_waits_for_the_database(home: Shared) -> None:
    key = home.create(f"until file={home.go}")
    home.start()
    home.wait_started(1)
    home.kill()
    with stopped(home.server):
        home.start()
        home.wait_frozen()
        time.sleep(LEASE)
        assert home.process is not None and home.process.poll() is None
    home.go.touch()
    home.wait_status(key, "closed")
    assert ended(home, key) == [(1, 2, "finished")]
    assert len(home.notes("start")) == 1


def test_runs_are_settled_and_uncounted_when_the_disk_of_the_database_has_room_again(
    home: Shared, server: Server
) -> None:
    home.set("supervisor.claim_seconds=60", "limits.retry_limit=1")
    with database_on_small_disk(home.url, server.folder / "disk") as fill:
        first = home.create(f"until file={home.go}")
        home.start()
        home.wait_started(1)
        make_room = fill()
        home.go.touch()
        wait_for(lambda: not home.agents(), "its end")
        time.sleep(2)  # longer than it takes to settle a run
        assert home.process is not None and home.process.poll() is None
        assert home.task(first)["status"] == "in_progress"
        refused = home.fleet("bd", "create", "no room", "-d", "x" * 30_000)
        assert refused.code == 1 and "no room left on the disk of the database" in refused.err
        make_room()
        second = home.create("write")
        home.wait_all([first, second], "closed")
        assert [home.task(key)["failures"] for key in (first, second)] == [0, 0]
        assert [ended(home, key) for key in (first, second)] == [[(1, 1, "finished")], [(1, 1, "finished")]]
        home.stop()


def test_supervisor_can_be_stopped_during_an_outage(home: Shared) -> None:
    key = home.create(f"until file={home.go}")
    home.start()
    home.wait_started(1)
    assert home.process is not None
    with stopped(home.server):
        home.wait_frozen()
        home.process.send_signal(signal.SIGTERM)
        assert home.process.wait(60) == 0
    home.go.touch()
    home.start()
    home.wait_status(key, "closed")
    assert len(home.notes("start")) == 1


def test_agent_of_a_local_queue_is_never_frozen(fleet: Program) -> None:
    home = Supervised(fleet)
    home.set("supervisor.claim_seconds=3")
    key = home.create(f"until file={home.go}")
    home.start()
    home.wait_started(1)
    home.kill()
    stat = Path(f"/proc/{max(home.agents())}/stat")
    time.sleep(3.5)  # longer than its claim
    assert stat.read_text().rpartition(")")[2].split()[0] != "T"
    home.go.touch()
    home.start()
    home.wait_status(key, "closed")
    assert [run["ending"] for run in home.runs(key)] == ["finished"]
    home.stop()
