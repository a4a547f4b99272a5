"""Three hosts, one database and a faulty network: a task never has two agents, and nothing is lost.

Every schedule of faults is random; its seed is printed. FLEET_SEED repeats one.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.rows import dict_row

from campaign.auditor import Note, Sampler, notes_in, overlaps
from campaign.database import Database
from campaign.faults import OF_HOSTS, OF_THE_NETWORK, Faults
from campaign.hosts import Host
from campaign.network import Network, can_be_had
from needs import require
from postgres import _program, faketime
from repositories import make_repository, run_git
from supervised import wait_for

#: Shown at the end of the session by conftest.py.
Record = Callable[[str, object], None]
LEASE = 3
NAMES = ("a", "b", "c")
#: Steps of at least 20 ms.
STEPS = {"short": (40, 100), "long": (400, 500)}


class Size(NamedTuple):
    """The amount of work, which must last as long as the faults."""

    travelling: int = 3  # tasks of a repository, which travel with their commits
    roaming: int = 7  # tasks without a repository, which any host may start at once
    slots: int = 4  # of each host: if two hosts are full, tasks remain for the third


class Campaign:
    """Hosts at work, and the faults that hit them."""

    def __init__(self, network: Network, database: Database, base: Path, seed: int, size: Size) -> None:
        self.seed, self._size, self._base = seed, size, base
        self._chance = random.Random(seed)
        self._url = database.make_database()
        url = database.over_the_network(self._url)
        skews = ["+1h", "-1h", ""]
        self._chance.shuffle(skews)
        weak = self._chance.choice(NAMES)
        self.hosts = [
            Host(network, name, base, url, skew=skew, is_weak=name == weak)
            for name, skew in zip(NAMES, skews, strict=True)
        ]
        self.faults = Faults(network, database, self.hosts, LEASE)
        self.told = [f"clocks {dict(zip(NAMES, skews, strict=True))}", f"{weak} is weak"]
        self.keys: list[str] = []
        self.sampler = Sampler(base / "here" / "home")

    def set_up(self) -> None:
        """Create homes, a repository that only the first host has, and its tasks."""
        first, *others = self.hosts
        first.set_up(LEASE, self._size.slots)
        with ThreadPoolExecutor(len(NAMES)) as pool:
            rest = [pool.submit(host.set_up, LEASE, self._size.slots) for host in others]
            self._make_tasks(first)
            for each in rest:
                each.result()
        self.keys = [row["id"] for row in self.rows("select id from tasks")]
        assert len(self.keys) == self._size.travelling + self._size.roaming

    def _make_tasks(self, first: Host) -> None:
        made = make_repository(first.disk / "repo")
        run_git(self._base, "clone", "--quiet", "--bare", str(made), str(self.remote))
        run_git(made, "remote", "add", "origin", str(self.remote))
        run_git(made, "fetch", "--quiet", "origin")
        orders = [self._order("short") for _ in range(self._size.travelling)]
        plan = "".join(f"## work {n}\n\n### Description\n{order}\n\n" for n, order in enumerate(orders))
        (first.disk / "plan.md").write_text(plan)
        words = ("bd", "create", "--file", str(first.here / "plan.md"), "--workspace", "worktree", "--silent")
        first.fleet(*words, cwd=str(first.here / "repo"))
        rows = [
            {"id": f"fleet-r{n}", "title": f"roam {n}", "description": self._order("long")}
            for n in range(self._size.roaming)
        ]
        (first.disk / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        first.fleet("bd", "import", str(first.here / "tasks.jsonl"))

    def _order(self, length: str) -> str:
        return f"do: steps={self._chance.randint(*STEPS[length])}"

    @property
    def remote(self) -> Path:
        return self._base / "remote.git"

    def begin(self) -> None:
        for host in self.hosts:
            host.start()
        self.sampler.start()
        wait_for(lambda: all(notes_in([host.audit]) for host in self.hosts), "agents to start", self.describe)

    def befall(self, *lanes: list[str]) -> None:
        """Cause the faults of each lane one after the other, and all lanes at the same time."""
        with ThreadPoolExecutor(len(lanes)) as pool:
            befallen = [
                pool.submit(self.faults.befall, kinds, f"{self.seed} {number}", lambda: self.sampler.at_work)
                for number, kinds in enumerate(lanes)
            ]
            for each in befallen:
                each.result()

    def wait(self) -> None:
        """Wait until every task is closed."""
        sql = "select count(*) as n from tasks where status = 'closed'"
        wait_for(
            lambda: self.rows(sql)[0]["n"] == len(self.keys), "every task to be closed", self.describe, patience=120
        )

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self._url, row_factory=dict_row) as link:
            link.execute("set search_path to fleet")
            return link.execute(sql.encode(), values).fetchall()

    def notes(self, what: str = "") -> list[Note]:
        return [note for note in notes_in([host.audit for host in self.hosts]) if not what or note.what == what]

    def audit(self) -> None:
        """Check the invariants that every campaign must keep."""
        self.sampler.end()
        assert overlaps(self.notes()) == [], self.describe()
        assert self.sampler.found == [], self.describe()
        assert self.sampler.samples > 50 and self.sampler.seen > 50
        for key in self.keys:
            endings = [row["ending"] for row in self.rows("select ending from runs where task = %s", key)]
            assert endings.count("finished") == 1, (key, endings, self.describe())
        self._look_for_commits()

    def _look_for_commits(self) -> None:
        """Check that every commit of an agent is in a ref, at the remote or on the host that made it."""
        branches = {row["id"]: row["branch"] for row in self.rows("select id, branch from tasks")}
        finished = {row["id"] for row in self.rows("select id from runs where ending = 'finished'")}
        for note in self.notes("commit"):
            refs = run_git(self.remote, "for-each-ref", "--contains", note.more, check=False)
            if note.run in finished:
                assert f"refs/heads/{branches[note.task]}" in refs, (note, refs, self.describe())
            elif not refs:
                assert any(_holds(host, note.more) for host in self.hosts), (note, self.describe())

    def describe(self) -> str:
        tasks = self.rows("select id, status, reason, failures, losses, claim_owner, epoch from tasks")
        runs = self.rows("select id, owner, ending, reason from runs order by id")
        said = "\n".join(f"-- {host.name}\n{host.said()}" for host in self.hosts)
        return "\n".join([self.summary(), *map(str, tasks), *map(str, runs), said])

    def summary(self) -> str:
        """Return a description of the campaign and its result."""
        seen = self.sampler
        told = (f"FLEET_SEED={self.seed}", *self.told, *self.faults.told)
        return f"{'; '.join(told)}; {seen.samples} samples, {seen.frozen} frozen, {seen.orphans} orphans"

    def end(self) -> None:
        if self.sampler.is_alive():
            self.sampler.end()
        for host in self.hosts:
            host.kill_all()


def _holds(host: Host, commit: str) -> bool:
    """Return True if a ref of a repository on a host's disk contains a commit."""
    places = [host.disk / "repo", *(host.home / "mirrors").glob("*.git")]
    return any(run_git(place, "for-each-ref", "--contains", commit, check=False) for place in places if place.exists())


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    require(can_be_had(), "network namespaces (need root and the program ip)")
    faketime()  # skips the tests if it is missing: hosts' clocks differ by an hour
    made = Network("db", *NAMES)
    yield made
    made.close()


@pytest.fixture(scope="module")
def database(network: Network) -> Iterator[Database]:
    require(_program("postgres"), "PostgreSQL")
    made = Database(network, "db")
    yield made
    made.remove()


SEED = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))


def test_faults_of_every_kind_start_nothing_twice_and_lose_nothing(
    network: Network, database: Database, tmp_path: Path, record_property: Record
) -> None:
    chance = random.Random(SEED)
    # The first faults come while every agent has long to go: without a fence, other hosts would take over live tasks.
    lanes = [
        [first, *chance.sample(sorted(kinds.keys() - {first}), len(kinds) - 1)]
        for first, kinds in (("one cut off", OF_THE_NETWORK), ("supervisor killed", OF_HOSTS))
    ]
    run(Campaign(network, database, tmp_path, SEED, Size()), lanes, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(20))
def test_random_fault_schedules_start_nothing_twice_and_lose_nothing(
    network: Network, database: Database, tmp_path: Path, record_property: Record, number: int
) -> None:
    chance = random.Random(seed := SEED + number)
    lanes = [chance.choices(sorted(kinds), k=chance.randint(2, 5)) for kinds in (OF_THE_NETWORK, OF_HOSTS)]
    travelling, roaming = chance.randint(3, 6), chance.randint(6, 12)
    size = Size(travelling, roaming, slots=chance.randint(2, (travelling + roaming - 1) // 2))
    run(Campaign(network, database, tmp_path, seed, size), lanes, record_property)


def run(campaign: Campaign, lanes: list[list[str]], record: Record) -> None:
    began = time.monotonic()
    try:
        for step in (campaign.set_up, campaign.begin, partial(campaign.befall, *lanes), campaign.wait, campaign.audit):
            step()
            name = getattr(step, "__name__", "befall")
            campaign.told.append(f"{name} {time.monotonic() - began:.1f} s")
        record(f"table: campaign {campaign.seed}", campaign.summary())
    finally:
        campaign.end()
