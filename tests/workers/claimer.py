"""Claim all tasks after a line on stdin, and print their ids: `claimer.py db name batch`."""

import sys
from datetime import timedelta

from fleet.core.filter import Lane
from fleet.store.base import Store
from fleet.store.sqlite.store import SqliteStore


def main() -> None:
    """Open, wait for a line, claim, print."""
    database, name, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = opened(database)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    got = []
    while claims := store.claims.acquire(name, [Lane(room=batch)], room=batch, ttl=timedelta(hours=1)):
        got += [claim.task.id for claim in claims]
    store.close()
    sys.stdout.write(" ".join(got) + "\n")


def opened(database: str) -> Store:
    """Return the queue in a file or at an address."""
    if "://" not in database:
        return SqliteStore(database)
    from fleet.store.postgres.store import PostgresStore

    return PostgresStore(database)


if __name__ == "__main__":
    main()
