"""A process that uses a queue and records each answer after it arrived: `load.py how db acks name …`."""

import os
import random
import sys
from contextlib import suppress
from datetime import timedelta
from itertools import count

from fleet.core import clock
from fleet.core.errors import StoreHindered
from fleet.core.filter import Lane
from fleet.core.task import Claim, Task, Verdict
from fleet.store.sqlite.store import SqliteStore

TTL = timedelta(hours=1)


class Acknowledged:
    """Lines appended to a file, each only after the queue has answered."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Worker:
    """One process's connection to the queue."""

    def __init__(self, database: str, acks: str, name: str) -> None:
        self.store = SqliteStore(database, make=True)
        self.acknowledged = Acknowledged(acks)
        self.name = name
        self._numbers = count()

    def make(self) -> None:
        """Add one task."""
        now = clock.now()
        key = f"fleet-{self.name}-{next(self._numbers)}"
        self.store.tasks.add(Task(id=key, title="load", created_at=now, updated_at=now))
        self.acknowledged("made", key)

    def claim(self, room: int) -> list[Claim]:
        """Claim some tasks."""
        claims = self.store.claims.acquire(self.name, [Lane(room=room)], room=room, ttl=TTL)
        for claim in claims:
            self.acknowledged("claimed", claim.task.id, claim.epoch)
        return claims

    def settle(self, claim: Claim, status: str) -> None:
        """Return a task to the queue or close it."""
        self.store.claims.settle(claim, Verdict(status=status))
        self.acknowledged(status, claim.task.id, claim.epoch)


def share(worker: Worker, tasks: int) -> None:
    """Create and claim tasks, then claim the rest."""
    for _ in range(tasks):
        worker.make()
        worker.claim(1)
    while worker.claim(3):
        pass


def endless(worker: Worker, seed: int) -> None:
    """Create, claim, close and return tasks until killed or orphaned."""
    chance, starter = random.Random(seed), os.getppid()
    while os.getppid() == starter:
        with suppress(StoreHindered):  # on a busy machine the others can hold the database for a minute
            worker.make()
            for claim in worker.claim(chance.choice([1, 1, 2, 5])):
                if chance.random() < 0.7:
                    worker.settle(claim, chance.choice(["open", "closed"]))


def main() -> None:
    how, database, acks, name, number = sys.argv[1:]
    {"share": share, "endless": endless}[how](Worker(database, acks, name), int(number))


if __name__ == "__main__":
    main()
