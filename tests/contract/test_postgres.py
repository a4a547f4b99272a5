"""What the queue in PostgreSQL promises beyond the others: many hosts at once, and a server that comes and goes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders import HOUR, FakeClock, a_comment, a_task
from fleet.core import clock as clocks
from fleet.core.errors import BadInput, ClaimLost, SchemaMismatch, StoreAway, StoreFault
from fleet.core.filter import Filter, Lane, by_lane
from fleet.core.health import State
from fleet.core.task import Claim
from fleet.store import named_sql
from fleet.store.postgres import PostgresQueue
from fleet.store.sqlite_connection import SCHEMA_VERSION
from postgres import Server, emptied, server, shared_database, stopped

WORKER = Path(__file__).parent.parent / "workers" / "claimer.py"
SECOND = timedelta(seconds=1)
FILES = ("queries", "filters", "orders", "history", "flows", "receipts", "workspaces", "hosts")
HOLD = """
import sys
from datetime import timedelta
from fleet.core.errors import StoreAway
from fleet.store.postgres import PostgresQueue
from builders import a_task
queue = PostgresQueue(sys.argv[1], lease=timedelta(seconds=int(sys.argv[2])))
try:
    with queue.atomic():
        queue.add(a_task(id="t-held"))
        print("held", flush=True)
        sys.stdin.readline()
        queue.add(a_task(id="t-more"))
except StoreAway as away:
    print(f"away: {away}", flush=True)
queue.add(a_task(id="t-after"))
"""


@pytest.fixture
def url() -> str:
    """A database without tasks."""
    return emptied(shared_database())


@pytest.fixture
def queue(url: str) -> Iterator[PostgresQueue]:
    opened = PostgresQueue(url)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server to be stopped, over TCP."""
    server()  # or the test is left out
    made = Server(tcp=True)
    yield made
    made.remove()


def until(holds: Callable[[], object], seconds: float = 30.0) -> float:
    """Wait for something to hold; how long that took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, "it never came"
        time.sleep(0.01)
    return time.monotonic() - began


def a_claim(queue: PostgresQueue, owner: str = "host", ttl: timedelta = HOUR, **changes: Any) -> Claim:
    queue.add(a_task(**changes))
    (claim,) = queue.claim(owner, [Lane(room=1)], room=1, ttl=ttl)
    return claim


def at_once(*commands: list[str]) -> list[list[str]]:
    """What workers print that are told to begin at the same moment, each line as words."""
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


def test_of_eight_processes_that_claim_ten_at_a_time_no_two_get_the_same(queue: PostgresQueue, url: str) -> None:
    with queue.atomic():
        for _ in range(400):
            queue.add(a_task())
    got = [key for keys in at_once(*([url, f"host-{n}", "10"] for n in range(8))) for key in keys]
    assert len(got) == len(set(got)) == 400
    assert queue.count(Filter(statuses=("in_progress",))) == {"": 400}


def test_of_four_that_claim_at_once_an_account_gets_no_more_than_it_may_have(url: str) -> None:
    hosts = [PostgresQueue(url) for _ in range(4)]
    lane = Lane(room=10, limit=3, seat=("claude", "work"))
    for turn in range(5):
        emptied(url)
        with hosts[0].atomic():
            for _ in range(40):
                hosts[0].add(a_task())
        go = threading.Barrier(4)

        def claim(host: PostgresQueue, go: threading.Barrier = go) -> int:
            go.wait(30)
            return len(host.claim(f"host-{hosts.index(host)}", [lane], room=10, ttl=HOUR))

        with ThreadPoolExecutor() as pool:
            got = list(pool.map(claim, hosts))
        assert sum(got) == 3, (turn, got)
    for host in hosts:
        host.close()


def test_a_client_that_is_killed_in_its_transaction_takes_it_along(queue: PostgresQueue, url: str) -> None:
    holder = holding(url)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(queue.add, a_task(id="t-other"))
        until(lambda: is_waited_for(url))
        assert not waiting.done()
        holder.kill()
        waiting.result(10)
    holder.communicate(timeout=30)
    assert [task.id for task in queue.find(Filter())] == ["t-other"]


def test_a_host_that_hangs_in_its_transaction_loses_its_turn(queue: PostgresQueue, url: str) -> None:
    quick = PostgresQueue(url, lease=3 * SECOND)  # its own patience is a second
    holder = holding(url, lease=3)
    holder.send_signal(signal.SIGSTOP)
    try:
        until(lambda: _can_add(quick), 10)
        holder.send_signal(signal.SIGCONT)
        said, _ = holder.communicate("go on\n", timeout=30)
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    assert said.startswith("away: the database cannot be reached")  # so its supervisor waits, and counts no failure
    assert holder.returncode == 0
    found = [task.id for task in queue.find(Filter())]
    assert "t-after" in found and not {"t-held", "t-more"} & set(found)
    quick.close()


@pytest.mark.parametrize(
    "does",
    [
        "set transaction read only; insert into tasks select * from tasks",
        "do $$ begin raise exception sqlstate '57P01'; end $$",  # it is being shut down
        "do $$ begin raise exception sqlstate '57P02'; end $$",  # it crashed
        "do $$ begin raise exception sqlstate '57P03'; end $$",  # it is starting
        "do $$ begin raise exception sqlstate '57P05'; end $$",  # idle for too long
        "do $$ begin raise exception sqlstate '57014'; end $$",  # a limit of time was reached
        "do $$ begin raise exception sqlstate '55P03'; end $$",  # somebody else has what is needed
        "do $$ begin raise exception sqlstate '53300'; end $$",  # too many connections
        "do $$ begin raise exception sqlstate '53200'; end $$",  # no memory
        "do $$ begin raise exception sqlstate '53400'; end $$",  # another limit of its settings
        "do $$ begin raise exception sqlstate '25P03'; end $$",  # idle for too long, in a transaction
        "do $$ begin raise exception sqlstate '25P04'; end $$",  # a transaction that took too long
        "do $$ begin raise exception sqlstate '25006'; end $$",  # a primary that became a standby
        "do $$ begin raise exception sqlstate '08006'; end $$",  # the connection broke
    ],
)
def test_a_server_that_cannot_now_is_away_and_refuses_nothing(queue: PostgresQueue, does: str) -> None:
    with pytest.raises(StoreAway), queue.atomic():
        for statement in does.split("; ") if "$$" not in does else [does]:
            queue.connection.rows(statement)
    assert queue.connection.reached_for() < 5
    assert queue.find(Filter()) == []


def holding(url: str, lease: int = 60) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, url, str(lease)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent.parent}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    return holder


def is_waited_for(url: str) -> bool:
    with psycopg.connect(url) as link:
        found = link.execute("select count(*) from pg_locks where locktype = 'advisory' and not granted").fetchone()
    return found is not None and found[0] > 0


def _can_add(queue: PostgresQueue) -> bool:
    try:
        queue.add(a_task())
    except StoreAway:
        return False
    return True


def test_however_many_claims_are_renewed_the_server_is_asked_as_often(queue: PostgresQueue) -> None:
    with queue.atomic():
        for _ in range(30):
            queue.add(a_task())
    claims = queue.claim("host", [Lane(room=30)], room=30, ttl=HOUR)
    stale = [claims[0].replace(epoch=0), claims[1].replace(owner="other"), *claims[2:]]
    asked, ask = [], queue.connection.rows

    def counted(sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        asked.append(sql)
        return ask(sql, values)

    queue.connection.rows = counted  # type: ignore[method-assign]
    renewed = queue.renew(stale, ttl=2 * HOUR)
    assert len(asked) == 2
    assert {claim.task.id for claim in renewed} == {claim.task.id for claim in claims[2:]}
    assert all(claim.expires_at > queue.now() + HOUR for claim in renewed)


def test_threads_of_one_process_have_transactions_of_their_own(queue: PostgresQueue) -> None:
    inside, over = threading.Event(), threading.Event()

    def write() -> None:
        with queue.atomic():
            queue.add(a_task(id="t-1"))
            inside.set()
            assert over.wait(30)

    with ThreadPoolExecutor() as pool:
        writer = pool.submit(write)
        assert inside.wait(30)
        assert queue.find(Filter()) == []
        with queue.snapshot():
            assert queue.find(Filter()) == []
            over.set()
            writer.result(30)
            assert queue.find(Filter()) == []
    assert [task.id for task in queue.find(Filter())] == ["t-1"]


def test_claims_go_on_beside_each_other_and_never_beside_a_writer(queue: PostgresQueue, url: str) -> None:
    queue.add(a_task(id="t-1"))
    queue.add(a_task(id="t-2"))
    with ThreadPoolExecutor() as pool:
        with queue.connection.writing(durable=False, alone=False):
            assert len(queue.claim("a", [Lane(room=1)], room=1, ttl=HOUR)) == 1
            beside = pool.submit(lambda: queue.claim("b", [Lane(room=1)], room=1, ttl=HOUR))
            assert [claim.task.id for claim in beside.result(10)] == ["t-2"]
        with queue.atomic():
            behind = pool.submit(lambda: queue.claim("b", [Lane(room=1)], room=1, ttl=HOUR))
            until(lambda: is_waited_for(url))
            queue.add(a_task(id="t-3"))
        assert [claim.task.id for claim in behind.result(10)] == ["t-3"]


def test_a_server_that_went_is_told_and_one_that_is_back_is_used_again(own: Server) -> None:
    queue = PostgresQueue(own.make_database(), make=True, lease=6 * SECOND)
    claim = a_claim(queue)
    with stopped(own):
        for call in (lambda: queue.find(Filter()), lambda: queue.add(a_task()), lambda: queue.renew([claim], ttl=HOUR)):
            began = time.monotonic()
            with pytest.raises(StoreAway, match="cannot be reached"):
                call()
            assert time.monotonic() - began < 4
    assert [each.task.id for each in queue.renew([claim], ttl=HOUR)] == [claim.task.id]
    queue.add(a_task())
    assert queue.count(Filter()) == {"": 2}
    queue.close()


def test_a_server_that_goes_in_the_middle_takes_the_whole_transaction_along(own: Server) -> None:
    queue = PostgresQueue(own.make_database(), make=True)
    with pytest.raises(StoreAway), queue.atomic():
        queue.add(a_task())
        own.stop()
        queue.add(a_task())
    own.start()
    assert queue.count(Filter()) == {"": 0}
    queue.add(a_task())
    queue.close()


def test_a_server_that_hangs_is_given_up_within_a_third_of_the_lease(url: str) -> None:
    queue = PostgresQueue(url, lease=3 * SECOND)
    [(backend,)] = queue.connection.rows("select pg_backend_pid()")
    os.kill(backend, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(StoreAway):
            queue.find(Filter())
        assert 0.8 <= time.monotonic() - began <= 3
        assert queue.connection.reached_for() < 0.8  # since then, and not since it was opened
        assert queue.find(Filter()) == []  # by another connection
    finally:
        os.kill(backend, signal.SIGCONT)
    queue.close()


@pytest.mark.parametrize(("said", "most"), [("", 800), ("600000", 800), ("0", 800), ("300", 300)])
def test_the_network_is_given_up_in_less_than_a_third_of_the_lease_whatever_was_said(
    url: str, said: str, most: int
) -> None:
    queue = PostgresQueue(f"{url}&tcp_user_timeout={said}" if said else url, lease=3 * SECOND)
    with queue.connection.link() as link:
        assert int(link.info.get_parameters()["tcp_user_timeout"]) == most
    queue.close()


def test_what_others_let_expire_is_left_alone_until_the_server_was_there_for_a_lease(url: str) -> None:
    began = time.monotonic()
    queue = PostgresQueue(url, lease=2 * SECOND)
    claim = a_claim(queue, "other", ttl=SECOND / 1000)
    mine = a_claim(queue, "me", ttl=SECOND / 1000)
    until(lambda: queue.now() > mine.expires_at)
    assert queue.reap() == []
    with pytest.raises(ClaimLost):
        queue.adopt(claim.task.id, "me", epoch=claim.epoch, ttl=HOUR)
    assert queue.adopt(mine.task.id, "me", epoch=mine.epoch, ttl=HOUR).epoch == mine.epoch + 1
    until(queue.reap)
    assert time.monotonic() - began >= 2
    queue.close()


def test_a_server_that_was_too_busy_to_renew_begins_that_time_anew(url: str) -> None:
    queue, writer = PostgresQueue(url, lease=3 * SECOND), PostgresQueue(url)
    claim = a_claim(queue, "me")
    until(lambda: queue.connection.reached_for() >= 1)
    with ThreadPoolExecutor(1) as pool, writer.atomic():
        with pytest.raises(StoreAway, match="too busy"):
            pool.submit(queue.renew, [claim], ttl=HOUR).result(30)
        assert queue.connection.reached_for() < 0.8
    assert [each.epoch for each in queue.renew([claim], ttl=HOUR)] == [claim.epoch]
    queue.close()
    writer.close()


def test_an_outage_begins_that_time_anew_and_who_comes_back_in_it_goes_on(own: Server) -> None:
    url = own.make_database()
    reaper, other = (PostgresQueue(url, make=True, lease=2 * SECOND) for _ in range(2))
    claim = a_claim(other, "other", ttl=SECOND)
    until(lambda: reaper.connection.reached_for() >= 2)
    with stopped(own), pytest.raises(StoreAway):
        reaper.reap()
    until(lambda: other.now() > claim.expires_at)
    assert reaper.reap() == []
    assert [each.epoch for each in other.renew([claim], ttl=HOUR)] == [claim.epoch]
    until(lambda: reaper.connection.reached_for() >= 2)
    assert reaper.reap() == []
    reaper.close()
    other.close()


def test_whoever_listens_hears_of_what_is_written_and_not_of_claims(queue: PostgresQueue, url: str) -> None:
    heard: list[float] = []
    other = PostgresQueue(url)
    with queue.listening(lambda: heard.append(time.monotonic())):
        until(lambda: len(heard) == 1)  # for what was written before
        other.add(a_task())
        until(lambda: len(heard) == 2)
        claims = other.claim("host", [Lane(room=1)], room=1, ttl=HOUR)
        other.renew(claims, ttl=HOUR)
        other.release(claims[0])
        until(lambda: len(heard) == 3)
    other.add(a_task())
    assert len(heard) == 3
    other.close()


def test_whoever_listens_hears_again_after_the_server_was_away(own: Server) -> None:
    heard: list[float] = []
    queue = PostgresQueue(own.make_database(), make=True)
    with queue.listening(lambda: heard.append(time.monotonic())):
        until(lambda: len(heard) == 1)
        with stopped(own):
            pass
        until(lambda: len(heard) == 2)
        queue.add(a_task())
        until(lambda: len(heard) == 3)
    queue.close()


def test_the_clock_is_the_servers_whatever_this_machine_thinks(
    queue: PostgresQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "now", FakeClock())
    [(micros,)] = queue.connection.rows("select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
    assert abs(clocks.to_micros(queue.now()) - micros) < 1_000_000
    claim = a_claim(queue)
    assert abs(claim.expires_at - HOUR - queue.now()) < SECOND


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ufdd0", "\ufdd00 \ufdd01 \0\ufdd0\0", "%s %(x)s :id"])
def test_text_that_postgresql_does_not_take_comes_back_as_it_was(queue: PostgresQueue, text: str) -> None:
    task = a_task(title=f"a {text}", labels=(f"l{text}",), metadata={"k": text})
    queue.add(task)
    comment = a_comment(task, text=text)
    queue.comment(comment)
    assert queue.get(task.id) == task
    assert queue.comments([task.id]) == [comment]
    for where in (Filter(title_has=text), Filter(labels=(f"l{text}",)), Filter(metadata={"k": text})):
        assert queue.find(where) == [task]


def test_a_lane_is_found_in_its_index_without_a_scan_or_a_sort(queue: PostgresQueue) -> None:
    with queue.atomic():
        for number in range(1500):
            queue.add(a_task(coder=("claude", "codex", "")[number % 3], priority=number % 5))
    queue.connection.rows("analyze tasks")
    plans = []
    ask = queue.connection.rows

    def explained(sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if "skip locked" in sql:
            plans.append("\n".join(row[0] for row in ask(f"explain {sql}", values)))
        return ask(sql, values)

    queue.connection.rows = explained  # type: ignore[method-assign]
    where = Filter(coders=("", "claude"), accounts=("", "work"), modes=("", "headless"))
    assert len(queue.claim("host", [Lane(room=3, where=where)], room=3, ttl=HOUR)) == 3
    assert len(plans) == len(by_lane(where))
    for plan in plans:
        assert "Scan using tasks_claimable_by_lane on tasks t" in plan and "Seq Scan on tasks" not in plan
        assert "Sort" not in plan


def test_a_database_without_tables_or_with_others_is_refused_with_what_to_do() -> None:
    url = server().make_database()
    with pytest.raises(SchemaMismatch, match="has schema 0") as missing:
        PostgresQueue(url)
    assert "fleet init" in missing.value.hint
    with ThreadPoolExecutor() as pool:
        made = [pool.submit(PostgresQueue, url, make=True) for _ in range(4)]
    for each in made:
        each.result().close()
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("comment on schema fleet is '99'")
    with pytest.raises(SchemaMismatch, match=f"has schema 99, this fleet knows {SCHEMA_VERSION}"):
        PostgresQueue(url, make=True, migrate=True)


def test_a_connection_string_is_never_repeated() -> None:
    for string in (
        "postgresql://ada:hunter22@h/x?sslmod=on",
        "postgresql://ada:hunter22@[::1",
        "postgresql://a:hunter22%@h",
    ):
        with pytest.raises(BadInput) as refused:
            PostgresQueue(string)
        assert "hunter22" not in f"{refused.value} {refused.value.hint} {refused.value.__cause__}"
    with pytest.raises(StoreAway) as away:
        PostgresQueue("postgresql://ada:hunter22@127.0.0.1:1/x")
    assert "hunter22" not in f"{away.value} {away.value.hint}" and "127.0.0.1" in str(away.value)


def test_a_refusal_is_told_in_words(queue: PostgresQueue) -> None:
    with pytest.raises(StoreFault, match="the database refused") as refused:
        queue.connection.rows("select nothing from nowhere")
    assert not isinstance(refused.value, StoreAway)
    assert queue.find(Filter()) == []


def test_the_health_of_a_server_is_told_and_so_is_one_that_is_away(own: Server) -> None:
    queue = PostgresQueue(own.make_database(), make=True, lease=6 * SECOND)
    signs = {sign.name: sign for sign in queue.health()}
    assert list(signs) == ["postgresql", "latency", "clock"]
    assert {sign.state for sign in signs.values()} == {State.OK}
    with stopped(own):
        (away,) = queue.health()
        assert away.state == State.WRONG and "cannot be reached" in away.fact and away.remedy
    queue.close()


@pytest.mark.parametrize("name", FILES)
def test_only_what_postgresql_says_otherwise_is_written_twice(name: str) -> None:
    ours = named_sql.load("sqlite", name)
    theirs = named_sql.load("postgres", name) if named_sql.has("postgres", name) else {}
    assert set(theirs) - set(ours) <= {"lock_seat"}
    assert not [block for block, sql in theirs.items() if ours.get(block) == sql]


def test_both_databases_have_the_same_columns(queue: PostgresQueue, tmp_path: Path) -> None:
    from fleet.store.sqlite import SqliteQueue

    embedded = SqliteQueue(str(tmp_path / "fleet.db"), make=True)
    ours = embedded.connection.rows(
        "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table'"
    )
    theirs = queue.connection.rows(
        "select table_name::text, column_name::text from information_schema.columns where table_schema = 'fleet'"
    )
    assert set(ours) == set(theirs)
    embedded.close()
