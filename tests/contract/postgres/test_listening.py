"""Notifications about writes in PostgreSQL."""

import time

from builders import HOUR, a_task
from contract.postgres.holding import until
from fleet.core.filter import Lane
from fleet.store.postgres.store import PostgresStore
from postgres import Server, stopped


def test_listener_hears_of_writes_and_not_of_claims(store: PostgresStore, url: str) -> None:
    heard: list[float] = []
    other = PostgresStore(url)
    with store.listening(lambda: heard.append(time.monotonic())):
        until(lambda: len(heard) == 1)  # for earlier writes
        other.tasks.add(a_task())
        until(lambda: len(heard) == 2)
        claims = other.claims.acquire("host", [Lane(room=1)], room=1, ttl=HOUR)
        other.claims.renew(claims, ttl=HOUR)
        other.claims.release(claims[0])
        until(lambda: len(heard) == 3)
    other.tasks.add(a_task())
    assert len(heard) == 3
    other.close()


def test_listener_hears_again_when_the_server_is_back(own: Server) -> None:
    heard: list[float] = []
    store = PostgresStore(own.make_database(), make=True)
    with store.listening(lambda: heard.append(time.monotonic())):
        until(lambda: len(heard) == 1)
        with stopped(own):
            pass
        until(lambda: len(heard) == 2)
        store.tasks.add(a_task())
        until(lambda: len(heard) == 3)
    store.close()
