"""One connection to a PostgreSQL server with a limit on each wait, and its errors in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.types.string import StrDumper

from fleet.core.errors import QueueMoved, StoreAway, StoreFault, StoreHindered
from fleet.store.connection_string import NO_TLS, parsed, why_not
from fleet.store.postgres_tls import HINT, required

if TYPE_CHECKING:
    from datetime import timedelta

AGAIN = "look at the server and the way to it; a supervisor tries again by itself."
#: Errors of a reachable server that is busy with other clients. The call can be retried.
_BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected, errors.SerializationFailure)
#: SQLSTATEs of a connection that is no longer usable. Either we were silent in a transaction for too long, for example
#: asleep, or another server took over and this one became read-only.
_CUT_OFF = ("25P03", "25P04", "25006")
#: The message that triggers of a moved queue raise on writes.
_SEALED = "the queue was moved"
#: Share of the patience after which the network itself gives up. The rest is for noticing that.
NETWORK_SHARE = 0.8


class Link(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose waits all have a limit, even if the server's machine answers and the server does not."""

    patience: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server. A connection that waited too long is closed. Raises OperationalError."""
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except psycopg.OperationalError:
            if timeout is None and self.info.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # a late answer would be taken as the answer to another statement
            raise

    @property
    def is_at_rest(self) -> bool:
        """Return True if the next call can use the connection: it is open and in no transaction."""
        return not self.closed and self.info.transaction_status == TransactionStatus.IDLE


def connect(url: str, patience: timedelta) -> Link:
    """Return a new connection. Raises BadInput for an unreadable string and StoreAway if the server cannot be reached.

    A network that drops all packets is noticed within `patience`, whatever the connection string sets. No message
    repeats any part of the string.
    """
    seconds = patience.total_seconds()
    said = parsed(url)
    protection = required(said)
    limits = {"connect_timeout": max(2, round(seconds)), "tcp_user_timeout": int(seconds * 1000 * NETWORK_SHARE)}
    wishes = {
        "application_name": "fleet",
        "keepalives_idle": max(1, int(seconds / 3)),
        "keepalives_interval": max(1, int(seconds / 3)),
        "keepalives_count": 2,
    }
    try:
        link = Link.connect(
            **{
                **wishes,
                **said,
                **protection,
                **{name: _capped(said.get(name), most) for name, most in limits.items()},
            },
            autocommit=True,
        )
    except (psycopg.Error, UnicodeError) as error:  # a name that no host can have causes an encoding error
        why = why_not(error)
        hint = HINT if "sslmode" in protection and NO_TLS in why else AGAIN
        raise StoreAway(f"the database cannot be reached: {why}", hint=hint) from None
    link.patience = seconds
    link.adapters.register_dumper(str, StrDumper)
    return link


def _capped(said: Any, most: int) -> int:
    """Return the configured limit, at most `most`. libpq treats an absent or zero limit as infinite."""
    wanted = int(said) if str(said).isdigit() else 0
    return min(wanted or most, most)


def translated(error: psycopg.Error) -> StoreFault:
    """Return the error of a server that was reached, in plain words."""
    if isinstance(error, errors.RaiseException) and _SEALED in (error.diag.message_primary or ""):
        return QueueMoved()
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, _BUSY):
        return StoreAway(f"the database was too busy: {words}", hint="others hold what this needs; try again.")
    if isinstance(error, errors.DiskFull):
        return StoreHindered(
            "no room left on the disk of the database", hint="nothing was changed; free some space there."
        )
    if isinstance(error, errors.InsufficientPrivilege | errors.InvalidAuthorizationSpecification):
        return StoreFault(f"the database refused: {words}", hint="look at the user and its rights in the database.")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or error.sqlstate in _CUT_OFF:
        return StoreAway(f"the database cannot be reached: {words}", hint=AGAIN)
    return StoreFault(f"the database refused: {words}")
