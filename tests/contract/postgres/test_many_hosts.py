"""Concurrent hosts: no two get the same task, and independent hosts do not wait for each other."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from builders import HOUR, a_task
from contract.postgres.holding import is_waited_for, until
from fleet.core.filter import Filter, Lane
from fleet.store.postgres.store import PostgresStore
from postgres import emptied

WORKER = Path(__file__).parents[2] / "workers" / "claimer.py"


def at_once(*commands: list[str]) -> list[list[str]]:
    """Start workers that begin at the same moment. Return the words of the line that each one prints."""
    workers = [
        subprocess.Popen([sys.executable, WORKER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for words in commands
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [worker.communicate(timeout=120)[0].split() for worker in workers]


def test_eight_processes_claim_every_task_exactly_once(store: PostgresStore, url: str) -> None:
    with store.atomic():
        for _ in range(400):
            store.tasks.add(a_task())
    got = [key for keys in at_once(*([url, f"host-{n}", "10"] for n in range(8))) for key in keys]
    assert len(got) == len(set(got)) == 400
    assert store.tasks.count(Filter(statuses=("in_progress",))) == {"": 400}


def test_account_limit_holds_when_four_hosts_claim_at_once(url: str) -> None:
    hosts = [PostgresStore(url) for _ in range(4)]
    lane = Lane(room=10, limit=3, seat=("claude", "work"))
    for turn in range(5):
        emptied(url)
        with hosts[0].atomic():
            for _ in range(40):
                hosts[0].tasks.add(a_task())
        go = threading.Barrier(4)

        def claim(host: PostgresStore, go: threading.Barrier = go) -> int:
            go.wait(60)
            return len(host.claims.acquire(f"host-{hosts.index(host)}", [lane], room=10, ttl=HOUR))

        with ThreadPoolExecutor() as pool:
            got = list(pool.map(claim, hosts))
        assert sum(got) == 3, (turn, got)
    for host in hosts:
        host.close()


def test_renew_sends_as_many_queries_for_thirty_claims_as_for_one(store: PostgresStore) -> None:
    with store.atomic():
        for _ in range(30):
            store.tasks.add(a_task())
    claims = store.claims.acquire("host", [Lane(room=30)], room=30, ttl=HOUR)
    stale = [claims[0].replace(epoch=0), claims[1].replace(owner="other"), *claims[2:]]
    asked, ask = [], store.connection.rows

    def counted(sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        asked.append(sql)
        return ask(sql, values)

    store.connection.rows = counted  # type: ignore[method-assign]
    renewed = store.claims.renew(stale, ttl=2 * HOUR)
    assert len(asked) == 2
    assert {claim.task.id for claim in renewed} == {claim.task.id for claim in claims[2:]}
    assert all(claim.expires_at > store.now() + HOUR for claim in renewed)


def test_each_thread_has_its_own_transaction(store: PostgresStore) -> None:
    inside, over = threading.Event(), threading.Event()

    def write() -> None:
        with store.atomic():
            store.tasks.add(a_task(id="t-1"))
            inside.set()
            assert over.wait(60)

    with ThreadPoolExecutor() as pool:
        writer = pool.submit(write)
        assert inside.wait(60)
        assert store.tasks.find(Filter()) == []
        with store.snapshot():
            assert store.tasks.find(Filter()) == []
            over.set()
            writer.result(30)
            assert store.tasks.find(Filter()) == []
    assert [task.id for task in store.tasks.find(Filter())] == ["t-1"]


def test_claims_run_beside_each_other_but_wait_for_a_writer(store: PostgresStore, url: str) -> None:
    store.tasks.add(a_task(id="t-1"))
    store.tasks.add(a_task(id="t-2"))
    with ThreadPoolExecutor() as pool:
        with store.connection.writing(durable=False, alone=False):
            assert len(store.claims.acquire("a", [Lane(room=1)], room=1, ttl=HOUR)) == 1
            beside = pool.submit(lambda: store.claims.acquire("b", [Lane(room=1)], room=1, ttl=HOUR))
            assert [claim.task.id for claim in beside.result(10)] == ["t-2"]
        with store.atomic():
            behind = pool.submit(lambda: store.claims.acquire("b", [Lane(room=1)], room=1, ttl=HOUR))
            until(lambda: is_waited_for(url))
            store.tasks.add(a_task(id="t-3"))
        assert [claim.task.id for claim in behind.result(10)] == ["t-3"]
