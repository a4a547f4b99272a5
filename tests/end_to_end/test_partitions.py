"""Three hosts, one database, and a network that fails them: never two agents on one task, and nothing is lost.

Every schedule of faults is random; its seed is printed. FLEET_SEED repeats one.
"""

import json
import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from campaign.auditor import Note, Sampler, notes_in, overlaps
from campaign.database import Database
from campaign.hosts import Host
from campaign.network import Network, can_be_had
from needs import require
from postgres import _program
from repositories import make_repository, run_git
from supervised import wait_for

log = logging.getLogger(__name__)

LEASE = 3
NAMES = ("a", "b", "c")
#: Tasks of a repository, which travel with their commits; and tasks of nothing, which any host may begin at once.
TRAVELLING, ROAMING = 3, 4
#: Of 20 ms at least.
SHORT, LONG = (40, 100), (250, 400)
#: How long a fault lasts, in leases: too short to matter, or long enough that others may take over.
FAULT_LEASES = (0.5, 1.3, 1.6)


class Campaign:
    """Hosts at work, and what befalls them."""

    def __init__(self, network: Network, database: Database, base: Path, seed: int) -> None:
        self.seed, self.chance, self._network, self._database = seed, random.Random(seed), network, database
        self._base = base
        self._url = database.make_database()
        skews = ["+1h", "-1h", ""] if shutil.which("faketime") else ["", "", ""]
        self.chance.shuffle(skews)
        url = database.over_the_network(self._url)
        self.hosts = [Host(network, name, base, url, skew) for name, skew in zip(NAMES, skews, strict=True)]
        self.told = [f"seed {seed}", f"clocks {dict(zip(NAMES, skews, strict=True))}"]
        self.keys: list[str] = []
        self.sampler = Sampler(base / "here" / "home")

    def set_up(self) -> None:
        """Homes, a repository that only the first host has, and tasks of it."""
        self.hosts[0].set_up(LEASE)
        with ThreadPoolExecutor(len(NAMES)) as pool:
            list(pool.map(lambda host: host.set_up(LEASE), self.hosts[1:]))
        first = self.hosts[0]
        made = make_repository(first.disk / "repo")
        run_git(self._base, "clone", "--quiet", "--bare", str(made), str(self.remote))
        run_git(made, "remote", "add", "origin", str(self.remote))
        run_git(made, "fetch", "--quiet", "origin")
        orders = [self._order(SHORT) for _ in range(TRAVELLING)]
        plan = "".join(f"## work {n}\n\n### Description\n{order}\n\n" for n, order in enumerate(orders))
        (first.disk / "plan.md").write_text(plan)
        words = ("bd", "create", "--file", str(first.here / "plan.md"), "--workspace", "worktree", "--silent")
        first.fleet(*words, cwd=str(first.here / "repo"))
        rows = [{"id": f"fleet-r{n}", "title": f"roam {n}", "description": self._order(LONG)} for n in range(ROAMING)]
        (first.disk / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        first.fleet("bd", "import", str(first.here / "tasks.jsonl"))
        self.keys = [row["id"] for row in self.rows("select id from tasks")]
        assert len(self.keys) == TRAVELLING + ROAMING

    def _order(self, steps: tuple[int, int]) -> str:
        return f"do: steps={self.chance.randint(*steps)}"

    @property
    def remote(self) -> Path:
        return self._base / "remote.git"

    def begin(self) -> None:
        for host in self.hosts:
            host.start()
        self.sampler.start()
        wait_for(lambda: len(self.notes("start")) >= len(NAMES), "agents to start", self.describe)

    def befall(self, kinds: list[str]) -> None:
        """One fault after the other, each for less or more than a lease."""
        for kind in kinds:
            time.sleep(self.chance.uniform(0.1, 0.8))
            seconds = self.chance.choice(FAULT_LEASES) * LEASE
            victims = self.chance.sample(self.hosts, 2 if kind == "two cut off" else 1)
            self.told.append(f"{kind} {[host.name for host in victims]} for {seconds:.1f} s")
            back = FAULTS[kind](self, victims)
            time.sleep(seconds)
            back()

    def cut(self, victims: list[Host]) -> Callable[[], None]:
        return self._cut([host.name for host in victims])

    def cut_database(self, _: list[Host]) -> Callable[[], None]:
        return self._cut(["db"])

    def kill_host(self, victims: list[Host]) -> Callable[[], None]:
        victims[0].kill_all()
        return victims[0].start

    def kill_supervisor(self, victims: list[Host]) -> Callable[[], None]:
        victims[0].kill_supervisor()
        return victims[0].start

    def stop_database(self, _: list[Host]) -> Callable[[], None]:
        self._database.stop()
        return self._database.start

    def _cut(self, names: list[str]) -> Callable[[], None]:
        silently = self.chance.random() < 0.5
        for name in names:
            self._network.cut(name, silently=silently)

        def mend() -> None:
            for name in names:
                self._network.mend(name)

        return mend

    def wait(self) -> None:
        """Until every task is closed."""
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
        """What must hold, whatever happened."""
        self.sampler.end()
        assert overlaps(self.notes()) == [], self.describe()
        assert self.sampler.found == [], self.describe()
        assert self.sampler.samples > 50 and self.sampler.seen > 50
        for key in self.keys:
            endings = [row["ending"] for row in self.rows("select ending from runs where task = %s", key)]
            assert endings.count("finished") == 1, (key, endings, self.describe())
        self._look_for_commits()

    def _look_for_commits(self) -> None:
        """Every commit that an agent made is in a branch or another ref, at the remote or where it was made."""
        branches = {row["id"]: row["branch"] for row in self.rows("select id, branch from tasks")}
        finished = {row["id"] for row in self.rows("select id from runs where ending = 'finished'")}
        for note in self.notes("commit"):
            refs = run_git(self.remote, "for-each-ref", "--contains", note.more, check=False)
            if note.run in finished:
                assert f"refs/heads/{branches[note.task]}" in refs, (note, refs, self.describe())
            elif not refs:
                assert any(_holds(host, note.more) for host in self.hosts), (note, self.describe())

    def describe(self) -> str:
        tasks = self.rows("select id, status, reason, failures, restarts, claim_owner, epoch from tasks")
        runs = self.rows("select id, owner, ending, reason from runs order by id")
        said = "\n".join(f"-- {host.name}\n{host.said()}" for host in self.hosts)
        return "\n".join([f"FLEET_SEED={self.seed}", *self.told, *map(str, tasks), *map(str, runs), said])

    def end(self) -> None:
        if self.sampler.is_alive():
            self.sampler.end()
        for host in self.hosts:
            host.kill_all()


FAULTS: dict[str, Callable[[Campaign, list[Host]], Callable[[], None]]] = {
    "one cut off": Campaign.cut,
    "two cut off": Campaign.cut,
    "database cut off": Campaign.cut_database,
    "database stopped": Campaign.stop_database,
    "host killed": Campaign.kill_host,
    "supervisor killed": Campaign.kill_supervisor,
}


def _holds(host: Host, commit: str) -> bool:
    """Whether a commit is in a ref of a repository on a host's disk."""
    places = [host.disk / "repo", *(host.home / "mirrors").glob("*.git")]
    return any(run_git(place, "for-each-ref", "--contains", commit, check=False) for place in places if place.exists())


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    require(can_be_had(), "network namespaces (need root and the program ip)")
    made = Network("db", *NAMES)
    yield made
    made.close()


@pytest.fixture(scope="module")
def database(network: Network) -> Iterator[Database]:
    require(_program("postgres"), "PostgreSQL")
    made = Database(network, "db")
    yield made
    made.remove()


def schedules() -> tuple[int, list[list[str]]]:
    """A seed, and the faults of two schedules that have each kind between them."""
    seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    kinds = sorted(FAULTS)
    random.Random(seed).shuffle(kinds)
    return seed, [kinds[: len(kinds) // 2], kinds[len(kinds) // 2 :]]


SEED, HALVES = schedules()


@pytest.mark.parametrize("half", [0, 1])
def test_faults_of_every_kind_start_nothing_twice_and_lose_nothing(
    network: Network, database: Database, tmp_path: Path, half: int
) -> None:
    run(Campaign(network, database, tmp_path, SEED + half), HALVES[half])


@pytest.mark.soak
@pytest.mark.parametrize("number", range(20))
def test_random_schedules(network: Network, database: Database, tmp_path: Path, number: int) -> None:
    campaign = Campaign(network, database, tmp_path, SEED + 100 + number)
    run(campaign, campaign.chance.choices(sorted(FAULTS), k=5))


def run(campaign: Campaign, kinds: list[str]) -> None:
    began = time.monotonic()
    try:
        for step in (campaign.set_up, campaign.begin, partial(campaign.befall, kinds), campaign.wait, campaign.audit):
            step()
            campaign.told.append(f"{time.monotonic() - began:.1f} s")
        log.info("%s; %s samples, %s frozen", campaign.told, campaign.sampler.samples, campaign.sampler.frozen)
    finally:
        campaign.end()
