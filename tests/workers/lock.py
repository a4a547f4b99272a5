"""Holds a database for as long as its standard input is open: `lock.py db`."""

import sys

from fleet.store.sqlite import SqliteQueue


def main() -> None:
    """Hold, say so, wait."""
    queue = SqliteQueue(sys.argv[1])
    with queue.atomic():
        queue.set_config("held", "yes")
        sys.stdout.write("held\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
