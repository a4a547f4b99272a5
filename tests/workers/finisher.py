"""A host with instant agents: claims, records a run of each task and settles it, until nothing is left.

`finisher.py url name slots` waits for a line, and prints the ids it settled.
"""

import sys
from datetime import timedelta

from fleet.core.filter import Lane
from fleet.core.run import Ending, Run
from fleet.core.task import Status, Verdict
from fleet.store.postgres.store import PostgresStore


def main() -> None:
    """Open, wait for a line, work, print."""
    url, name, slots = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = PostgresStore(url)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    done = []
    while claims := store.claims.acquire(name, [Lane(room=slots)], room=slots, ttl=timedelta(minutes=5)):
        for claim in claims:
            started = Run(id="", task_id="", number=0, epoch=0, owner="", coder="demo", started_at=store.now())
            run = store.runs.begin(claim, started)
            with store.atomic():
                store.runs.end(run.replace(ending=Ending.FINISHED))
                store.claims.settle(claim, Verdict(status=Status.CLOSED, reason="done"))
            done.append(claim.task.id)
    store.close()
    sys.stdout.write(" ".join(done) + "\n")


if __name__ == "__main__":
    main()
