"""Hold a database for as long as its standard input is open: `lock.py db`."""

import sys

from fleet.store.sqlite.store import SqliteStore


def main() -> None:
    """Lock the database, print a line and wait."""
    store = SqliteStore(sys.argv[1])
    with store.atomic():
        store.config.set("held", "yes")
        sys.stdout.write("held\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
