"""A server's clock, computed from its last reported time."""

import time
from datetime import timedelta

import pytest

from builders import NOON
from fleet.core.clock import to_micros
from fleet.store.postgres import connection
from fleet.store.postgres.connection import ServerClock


def test_clock_continues_from_the_last_server_time_whatever_this_host_says(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [5_000_000]
    monkeypatch.setattr(connection, "_steady_micros", lambda: steady[0])
    monkeypatch.setattr(time, "time", lambda: 0.0)
    clock = ServerClock()
    clock.told(to_micros(NOON))
    assert clock.now() == NOON
    steady[0] += 1_500_000
    assert clock.now() == NOON + timedelta(seconds=1.5)
    clock.told(to_micros(NOON))
    assert clock.now() == NOON


def test_clock_uses_a_monotonic_clock() -> None:
    clock = ServerClock()
    clock.told(to_micros(NOON))
    first = clock.now()
    assert NOON <= first < NOON + timedelta(seconds=5)
    while clock.now() == first:
        pass
    assert clock.now() > first
