"""Claims, and a client that holds the writers' lock, for the tests of PostgreSQL."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from builders import HOUR, a_task
from fleet.core.filter import Lane
from fleet.core.task import Claim
from fleet.store.postgres.store import PostgresStore

SECOND = timedelta(seconds=1)
HOLD = """
import sys
from datetime import timedelta
from fleet.core.errors import StoreAway
from fleet.store.postgres.store import PostgresStore
from builders import a_task
store = PostgresStore(sys.argv[1], lease=timedelta(seconds=int(sys.argv[2])))
try:
    with store.atomic():
        store.tasks.add(a_task(id="t-held"))
        print("held", flush=True)
        sys.stdin.readline()
        store.tasks.add(a_task(id="t-more"))
except StoreAway as away:
    print(f"away: {away}", flush=True)
store.tasks.add(a_task(id="t-after"))
"""


def until(holds: Callable[[], object], seconds: float = 30.0) -> float:
    """Wait until a condition holds. Return the seconds that this took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, "it never came"
        time.sleep(0.01)
    return time.monotonic() - began


def a_claim(store: PostgresStore, owner: str = "host", ttl: timedelta = HOUR, **changes: Any) -> Claim:
    """Add a task and return a claim on it."""
    store.tasks.add(a_task(**changes))
    (claim,) = store.claims.acquire(owner, [Lane(room=1)], room=1, ttl=ttl)
    return claim


def holding(url: str, lease: int = 60) -> subprocess.Popen[str]:
    """Start a process that holds the writers' lock in a transaction until it reads a line."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, url, str(lease)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    return holder


def is_waited_for(url: str) -> bool:
    """Return True if a client waits for the writers' lock."""
    with psycopg.connect(url) as link:
        found = link.execute("select count(*) from pg_locks where locktype = 'advisory' and not granted").fetchone()
    return found is not None and found[0] > 0
