"""Tokens that identify the calls of a run."""

from __future__ import annotations

from os import urandom

from fleet.core import clock
from fleet.core.digest import sha256
from fleet.core.jsontext import encode
from fleet.store.named_sql import Statements
from fleet.store.sql.rows import caller_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.core.clock import Clock
    from fleet.core.task import Caller, Claim
    from fleet.store.sql.tasks import SqlTasks
    from fleet.store.sql_connection import SqlConnection


class SqlTokens:
    """One row for each token, by its hash."""

    def __init__(self, connection: SqlConnection, now: Clock, tasks: SqlTasks) -> None:
        self._db = connection
        self._sql = Statements(connection, "queries")
        self._now = now
        self._tasks = tasks

    def issue(self, claim: Claim, caller: Caller) -> str:
        """Return a new token for the run of this claim. The token is valid until the claim ends. Raises ClaimLost."""
        with self._db.writing(durable=False):
            self._tasks.held(claim)
            token = urandom(32).hex()
            values = {**caller.as_dict(), "repos": encode(caller.repos), "issued_at": clock.to_micros(self._now())}
            self._sql.rows("insert_caller", **values, token_hash=_hashed(token))
            return token

    def caller(self, token: str) -> Caller | None:
        """Return the live run that got this token, or None."""
        for row in self._sql.rows("caller", token_hash=_hashed(token)):
            return caller_from(row)
        return None

    def caller_in(self, run_id: str) -> Caller | None:
        """Return the live run with this id, or None. For callers that know the id from a trusted source."""
        known = run_id.encode(errors="replace").decode()  # the id may come from a command line
        for row in self._sql.rows("caller_in", run=known, task=known.rpartition("/")[0]):
            return caller_from(row)
        return None

    def was_issued(self, token: str) -> bool:
        """Return True if this token was ever issued here, valid or not."""
        return bool(self._sql.rows("gave_out", token_hash=_hashed(token)))


def _hashed(token: str) -> str:
    return sha256(token.encode(errors="surrogateescape"))
