"""Servers, networks and hosts that stop, hang and return: outages are noticed in time, and no claim is lost."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders import HOUR, a_task
from contract.postgres.holding import SECOND, a_claim, holding, is_waited_for, until
from fleet.core.errors import ClaimLost, StoreAway
from fleet.core.filter import Filter
from fleet.store.postgres.store import PostgresStore
from postgres import Server, stopped


def test_transaction_is_rolled_back_when_its_client_is_killed(store: PostgresStore, url: str) -> None:
    holder = holding(url)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(store.tasks.add, a_task(id="t-other"))
        until(lambda: is_waited_for(url))
        assert not waiting.done()
        holder.kill()
        waiting.result(10)
    holder.communicate(timeout=30)
    assert [task.id for task in store.tasks.find(Filter())] == ["t-other"]


def test_transaction_is_rolled_back_when_its_host_hangs(store: PostgresStore, url: str) -> None:
    quick = PostgresStore(url, lease=3 * SECOND)  # it waits for one second
    holder = holding(url, lease=3)
    holder.send_signal(signal.SIGSTOP)
    try:
        until(lambda: _can_add(quick), 10)
        holder.send_signal(signal.SIGCONT)
        said, _ = holder.communicate("go on\n", timeout=30)
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    assert said.startswith("away: the database cannot be reached")  # so its supervisor waits and counts no failure
    assert holder.returncode == 0
    found = [task.id for task in store.tasks.find(Filter())]
    assert "t-after" in found and not {"t-held", "t-more"} & set(found)
    quick.close()


def _can_add(store: PostgresStore) -> bool:
    try:
        store.tasks.add(a_task())
    except StoreAway:
        return False
    return True


@pytest.mark.parametrize(
    "does",
    [
        "set transaction read only; insert into tasks select * from tasks",
        "do $$ begin raise exception sqlstate '57P01'; end $$",  # the server shuts down
        "do $$ begin raise exception sqlstate '57P02'; end $$",  # the server crashed
        "do $$ begin raise exception sqlstate '57P03'; end $$",  # the server starts
        "do $$ begin raise exception sqlstate '57P05'; end $$",  # session idle for too long
        "do $$ begin raise exception sqlstate '57014'; end $$",  # statement timeout
        "do $$ begin raise exception sqlstate '55P03'; end $$",  # lock not available
        "do $$ begin raise exception sqlstate '53300'; end $$",  # too many connections
        "do $$ begin raise exception sqlstate '53200'; end $$",  # no memory
        "do $$ begin raise exception sqlstate '53400'; end $$",  # another configured limit
        "do $$ begin raise exception sqlstate '25P03'; end $$",  # transaction idle for too long
        "do $$ begin raise exception sqlstate '25P04'; end $$",  # transaction timeout
        "do $$ begin raise exception sqlstate '25006'; end $$",  # a primary that became a standby
        "do $$ begin raise exception sqlstate '08006'; end $$",  # the connection broke
    ],
)
def test_store_reports_away_when_the_server_cannot_answer_now(store: PostgresStore, does: str) -> None:
    began = time.monotonic()
    with pytest.raises(StoreAway), store.atomic():
        for statement in does.split("; ") if "$$" not in does else [does]:
            store.connection.rows(statement)
    assert store.connection.reached_for() < time.monotonic() - began
    assert store.tasks.find(Filter()) == []


def test_store_reports_away_and_reconnects_when_the_server_is_back(own: Server) -> None:
    store = PostgresStore(own.make_database(), make=True, lease=6 * SECOND)
    claim = a_claim(store)
    with stopped(own):
        for call in (
            lambda: store.tasks.find(Filter()),
            lambda: store.tasks.add(a_task()),
            lambda: store.claims.renew([claim], ttl=HOUR),
        ):
            with pytest.raises(StoreAway, match="cannot be reached"):
                call()
    assert [each.task.id for each in store.claims.renew([claim], ttl=HOUR)] == [claim.task.id]
    store.tasks.add(a_task())
    assert store.tasks.count(Filter()) == {"": 2}
    store.close()


def test_whole_transaction_is_lost_when_the_server_stops_inside(own: Server) -> None:
    store = PostgresStore(own.make_database(), make=True)
    with pytest.raises(StoreAway), store.atomic():
        store.tasks.add(a_task())
        own.stop()
        store.tasks.add(a_task())
    own.start()
    assert store.tasks.count(Filter()) == {"": 0}
    store.tasks.add(a_task())
    store.close()


def test_query_is_given_up_after_a_third_of_the_lease_when_the_server_hangs(url: str) -> None:
    store = PostgresStore(url, lease=3 * SECOND)
    [(backend,)] = store.connection.rows("select pg_backend_pid()")
    os.kill(backend, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(StoreAway):
            store.tasks.find(Filter())
        assert time.monotonic() - began >= 0.8
        assert store.connection.reached_for() < time.monotonic() - began, "since then, not since it was opened"
        assert store.tasks.find(Filter()) == []  # over another connection
    finally:
        os.kill(backend, signal.SIGCONT)
    store.close()


@pytest.mark.parametrize(("said", "most"), [("", 800), ("600000", 800), ("0", 800), ("300", 300)])
def test_network_timeout_is_below_a_third_of_the_lease(url: str, said: str, most: int) -> None:
    store = PostgresStore(f"{url}&tcp_user_timeout={said}" if said else url, lease=3 * SECOND)
    with store.connection.link() as link:
        assert int(link.info.get_parameters()["tcp_user_timeout"]) == most
    store.close()


def test_expired_claims_of_others_are_kept_until_the_server_was_up_for_a_lease(url: str) -> None:
    began = time.monotonic()
    store = PostgresStore(url, lease=2 * SECOND)
    claim = a_claim(store, "other", ttl=SECOND / 1000)
    mine = a_claim(store, "me", ttl=SECOND / 1000)
    until(lambda: store.now() > mine.expires_at)
    assert store.claims.reap() == []
    with pytest.raises(ClaimLost):
        store.claims.adopt(claim.task.id, "me", epoch=claim.epoch, ttl=HOUR)
    assert store.claims.adopt(mine.task.id, "me", epoch=mine.epoch, ttl=HOUR).epoch == mine.epoch + 1
    until(store.claims.reap)
    assert time.monotonic() - began >= 2
    store.close()


def test_reaping_waits_another_lease_when_a_busy_server_refused_a_renewal(url: str) -> None:
    store, writer = PostgresStore(url, lease=3 * SECOND), PostgresStore(url)
    claim = a_claim(store, "me")
    until(lambda: store.connection.reached_for() >= 1)
    with ThreadPoolExecutor(1) as pool, writer.atomic():
        with pytest.raises(StoreAway, match="too busy"):
            pool.submit(store.claims.renew, [claim], ttl=HOUR).result(30)
        assert store.connection.reached_for() < 0.8
    assert [each.epoch for each in store.claims.renew([claim], ttl=HOUR)] == [claim.epoch]
    store.close()
    writer.close()


def test_reaping_waits_another_lease_when_an_outage_ends_and_renewals_succeed(own: Server) -> None:
    url = own.make_database()
    reaper, other = (PostgresStore(url, make=True, lease=2 * SECOND) for _ in range(2))
    claim = a_claim(other, "other", ttl=SECOND)
    until(lambda: reaper.connection.reached_for() >= 2)
    with stopped(own), pytest.raises(StoreAway):
        reaper.claims.reap()
    until(lambda: other.now() > claim.expires_at)
    assert reaper.claims.reap() == []
    assert [each.epoch for each in other.claims.renew([claim], ttl=HOUR)] == [claim.epoch]
    until(lambda: reaper.connection.reached_for() >= 2)
    assert reaper.claims.reap() == []
    reaper.close()
    other.close()
