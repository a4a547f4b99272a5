"""Hearing that something was written, and what a host asks that hears nothing."""

import time

from builders import HOUR, a_task
from contract.postgres.holding import until
from fleet.core.filter import Lane
from fleet.store.postgres import PostgresQueue
from postgres import Server, stopped


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
