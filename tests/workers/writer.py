"""Add one task to a queue and print a line before: `writer.py db id`."""

import sys

from fleet.core import clock
from fleet.core.task import Task
from fleet.store.sqlite.store import SqliteStore


def main() -> None:
    """Open the queue, print a line, add the task."""
    store = SqliteStore(sys.argv[1])
    now = clock.now()
    sys.stdout.write("trying\n")
    sys.stdout.flush()
    store.tasks.add(Task(id=sys.argv[2], title="late", created_at=now, updated_at=now))
    store.close()


if __name__ == "__main__":
    main()
