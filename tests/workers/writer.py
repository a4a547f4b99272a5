"""Adds one task to a queue, saying when it begins: `writer.py db id`."""

import sys

from fleet.core import clock
from fleet.core.task import Task
from fleet.store.sqlite import SqliteQueue


def main() -> None:
    """Open, say so, add."""
    queue = SqliteQueue(sys.argv[1])
    now = clock.now()
    sys.stdout.write("trying\n")
    sys.stdout.flush()
    queue.add(Task(id=sys.argv[2], title="late", created_at=now, updated_at=now))
    queue.close()


if __name__ == "__main__":
    main()
