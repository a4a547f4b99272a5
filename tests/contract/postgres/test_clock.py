"""Changes of the database clock: claims follow this clock, and no holder loses a claim by a change."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest

from builders import HOUR, FakeClock
from contract.postgres.holding import SECOND, a_claim, until
from fleet.core import clock as clocks
from fleet.core.errors import ClaimLost, StoreAway
from fleet.store.postgres.store import PostgresStore
from postgres import Server, server

LEASE = 3 * SECOND
T = TypeVar("T")


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """Yield a server whose clock can be set."""
    server()  # skip without PostgreSQL
    made = Server(faked=True)
    yield made
    made.remove()


@pytest.fixture
def hosts(own: Server) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Yield two stores, one that works and one that reaps. Both have reached the server for a whole lease."""
    own.set_clock("+0")
    url = own.make_database()
    one, other = PostgresStore(url, make=True, lease=LEASE), PostgresStore(url, lease=LEASE)
    until(lambda: patiently(other.connection.reached_for) >= LEASE.total_seconds())
    yield one, other
    one.close()
    other.close()


def patiently(call: Callable[[], T]) -> T:
    """Return the result of a call, which is repeated while the server is away.

    The server uses the changed clock for its own timeouts too, so a change may end a connection.
    """
    answer: list[T] = []

    def is_there() -> bool:
        with suppress(StoreAway):
            answer.append(call())
        return bool(answer)

    until(is_there)
    return answer[0]


def test_renewed_claim_survives_when_the_clock_is_set_forward(
    own: Server, hosts: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = hosts
    claim = a_claim(one, "one", ttl=LEASE)
    own.set_clock("+3600")
    assert patiently(other.claims.reap) == []
    assert other.now() > claim.expires_at  # it sees the new time and reaps nothing
    with pytest.raises(ClaimLost):
        patiently(lambda: other.claims.adopt(claim.task.id, "other", epoch=claim.epoch, ttl=LEASE))
    assert [each.epoch for each in patiently(lambda: one.claims.renew([claim], ttl=HOUR))] == [claim.epoch]
    until(lambda: patiently(other.connection.reached_for) >= LEASE.total_seconds())
    assert patiently(other.claims.reap) == []


def test_unrenewed_claim_is_reaped_one_lease_after_the_clock_jumped(
    own: Server, hosts: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = hosts
    claim = a_claim(one, "one", ttl=LEASE)
    own.set_clock("+3600")
    assert until(lambda: patiently(other.claims.reap)) >= LEASE.total_seconds() - 0.1
    assert patiently(lambda: one.claims.renew([claim], ttl=LEASE)) == []


def test_claims_survive_and_later_ones_expire_when_the_clock_is_set_back(
    own: Server, hosts: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = hosts
    claim = a_claim(one, "one", ttl=LEASE)
    own.set_clock("-3600")
    assert patiently(other.claims.reap) == []
    assert [each.epoch for each in patiently(lambda: one.claims.renew([claim], ttl=HOUR))] == [claim.epoch]
    late = patiently(lambda: a_claim(one, "one", ttl=SECOND / 10))
    until(lambda: late.task.id in [task.id for task in patiently(other.claims.reap)])
    assert [each.epoch for each in patiently(lambda: one.claims.renew([claim], ttl=HOUR))] == [claim.epoch]


def test_store_uses_the_clock_of_the_server(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "now", FakeClock())
    [(micros,)] = store.connection.rows("select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
    assert abs(clocks.to_micros(store.now()) - micros) < 1_000_000
    claim = a_claim(store)
    assert abs(claim.expires_at - HOUR - store.now()) < SECOND
