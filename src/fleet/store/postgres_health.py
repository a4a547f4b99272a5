"""What a PostgreSQL server says of its health: its version, how far away it is, and what time it thinks it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fleet.core.clock import from_micros, now
from fleet.core.errors import StoreFault
from fleet.core.health import State, Vital
from fleet.store.postgres_tls import in_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.store.postgres_connection import Connection

OLDEST = 130000
#: A call of the store takes some five answers of the server.
SLOWEST_MS = 100.0
#: Claims go by the server's clock alone; but people read times beside those of their own machine.
LARGEST_DIFFERENCE = 5.0
TRIES = 5


def health(connection: Connection) -> list[Vital]:
    try:
        return list(_signs(connection))
    except StoreFault as error:
        return [Vital(name="postgresql", state=State.WRONG, fact=str(error), remedy=error.hint or "look at its log.")]


def _signs(connection: Connection) -> Iterator[Vital]:
    waits, rows = [], []
    for _ in range(TRIES):
        began = time.perf_counter()
        rows = connection.rows(connection.blocks("connection")["server"])
        waits.append(time.perf_counter() - began)
        ours = now()
    version, number, micros, commit, fsync, size, name = rows[0]
    yield _version(str(version), int(number), f"database {name} of {size / 2**20:.0f} MB")
    with connection.link() as link:
        yield in_force(link)
    yield _latency(min(waits) * 1000)
    yield _clock((from_micros(micros) - ours).total_seconds())
    if commit == "off" or fsync == "off":
        fact = f"the server does not wait for its disk (fsync = {fsync}, synchronous_commit = {commit})"
        remedy = "set both to on in postgresql.conf: a power cut there can lose tasks that were acknowledged."
        yield Vital(name="durability", state=State.WARNING, fact=fact, remedy=remedy)


def _version(version: str, number: int, more: str) -> Vital:
    if number >= OLDEST:
        return Vital(name="postgresql", state=State.OK, fact=f"PostgreSQL {version}, {more}")
    fact = f"PostgreSQL {version} is older than 13, the first that fleet was made for"
    return Vital(name="postgresql", state=State.WRONG, fact=fact, remedy="upgrade the server.")


def _latency(ms: float) -> Vital:
    fact = f"an answer takes {ms:.1f} ms"
    if ms <= SLOWEST_MS:
        return Vital(name="latency", state=State.OK, fact=fact)
    return Vital(name="latency", state=State.WARNING, fact=fact, remedy="run the database nearer to its hosts.")


def _clock(seconds: float) -> Vital:
    if abs(seconds) <= LARGEST_DIFFERENCE:
        return Vital(name="clock", state=State.OK, fact=f"the server's clock differs by {abs(seconds):.1f} s")
    fact = f"the server's clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
    remedy = "have both follow NTP; claims are safe, for they go by the server's alone."
    return Vital(name="clock", state=State.WARNING, fact=fact, remedy=remedy)
