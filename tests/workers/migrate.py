"""Migrate a database in numbered steps, as an upgrade does: `migrate.py db steps [stop-before]`.

It says each step it begins; at the one named by `step.statement` it says `here` and waits to be killed.
"""

import sys

from fleet.core.errors import SchemaMismatch, StoreFault
from fleet.store.sqlite import connection as sqlite_connection
from fleet.store.sqlite.connection import SqliteConnection

TABLES = 4
FIRST = sqlite_connection.SCHEMA_VERSION + 1  # the step after those that fleet has


def script(number: int, tables: int = TABLES) -> str:
    """Return a migration of several statements: new tables, a row in each, and a change of an earlier table."""
    made = [
        f"create table step_{number}_{table} (x); insert into step_{number}_{table} values ({number});"
        for table in range(tables)
    ]
    before = [f"update step_{number - 1}_0 set x = x + 100;"] if number > FIRST else []
    return "\n".join([*made[: tables // 2], "select here();", *made[tables // 2 :], *before])


def main() -> None:
    """Migrate the database from its current schema. Wait at the given step for SIGKILL."""
    path, last, stop = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    sqlite_connection.SCHEMA_VERSION = version_of(path)  # an upgrade opens what is older than itself
    connection = SqliteConnection(path, make=True)
    calls = iter(range(sqlite_connection.SCHEMA_VERSION + 1, last + 1))
    connection.add_function("here", lambda: wait_if(f"in-{next(calls)}", stop))
    for number in range(FIRST, last + 1):
        wait_if(f"before-{number}", stop)
        connection.migrate([(number, script(number))])
    wait_if("after", stop)
    connection.close()


def version_of(path: str) -> int:
    """Return the schema of a file. A new file gets the current schema."""
    try:
        return SqliteConnection(path).rows("pragma user_version")[0][0]  # type: ignore[no-any-return]
    except SchemaMismatch as mismatch:
        return int(str(mismatch).split(" has schema ")[1].split(",")[0]) or FIRST - 1
    except StoreFault:
        return FIRST - 1


def wait_if(place: str, stop: str) -> None:
    """Wait before one step."""
    if place == stop:
        sys.stdout.write("here\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
