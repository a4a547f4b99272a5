"""One connection to a PostgreSQL server that never waits for ever, and what its faults mean in plain words."""

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
#: How a server says that it is busy with somebody else: it is there, and what was asked can be asked again.
_BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected, errors.SerializationFailure)
#: How it says that a connection is of no more use: we were silent in a transaction for too long, asleep maybe, or the
#: server writes no more, since another took its place.
_CUT_OFF = ("25P03", "25P04", "25006")
#: What the triggers of a queue that was moved say to whoever writes.
_SEALED = "the queue was moved"
#: Of the patience, for what the network itself gives up: the rest is for noticing that it did.
NETWORK_SHARE = 0.8


class Link(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose every wait has an end, also where the server's machine answers and the server does not."""

    patience: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server; a connection that has waited too long is closed. Raises OperationalError."""
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except psycopg.OperationalError:
            if timeout is None and self.info.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # whatever it still says would be taken for the answer to something else
            raise

    @property
    def is_at_rest(self) -> bool:
        """Whether the next call can use it: open, and in no transaction."""
        return not self.closed and self.info.transaction_status == TransactionStatus.IDLE


def connect(url: str, patience: timedelta) -> Link:
    """A new connection. Raises BadInput for a string that cannot be read, StoreAway when the server is not reached.

    A network that swallows everything is noticed within `patience`, whoever has to answer, and whatever the connection
    string says. No piece of that is told.
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
    except (psycopg.Error, UnicodeError) as error:  # a name that no host can have is a fault of its encoding
        why = why_not(error)
        hint = HINT if "sslmode" in protection and NO_TLS in why else AGAIN
        raise StoreAway(f"the database cannot be reached: {why}", hint=hint) from None
    link.patience = seconds
    link.adapters.register_dumper(str, StrDumper)
    return link


def _capped(said: Any, most: int) -> int:
    """What was said where it is a limit, and no more than that; to libpq nothing, or zero, is for ever."""
    wanted = int(said) if str(said).isdigit() else 0
    return min(wanted or most, most)


def translated(error: psycopg.Error) -> StoreFault:
    """A fault of a server that was reached, as a caller can understand it."""
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
