"""Accounts: whether they may be used, what their runs consumed, and the state of their quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.run import Account, AccountTotal, Quota
from fleet.store.named_sql import SqlPort
from fleet.store.sql.records import record_from, storable, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fleet.core.run import Run

#: Upper bounds of the sums. Agents report these numbers, and a number that is too large must not keep a run from
#: ending.
MOST_TOKENS = 2**60
MOST_USD = 1e15
_DEAREST_RUN = 1e12


class SqlAccounts(SqlPort):
    """One row for each account, for its totals, and for each window of its quota."""

    file = "history"

    def all(self) -> list[Account]:
        return [record_from(Account, row) for row in self._sql.rows("accounts")]

    def park(self, coder: str, name: str, *, until: datetime | None, reason: str) -> None:
        """Park an account until `until`; None unparks it. The last call counts."""
        with self._db.writing():
            if until is None:
                self._sql.rows("unpark", coder=coder, name=name)
            else:
                self._sql.rows("park", coder=coder, name=name, until=to_micros(until), reason=storable(reason))

    def note_strikes(self, coder: str, name: str, *, strikes: int) -> None:
        """Store how often in a row an account was refused for too many requests. The last call counts."""
        with self._db.writing():
            self._sql.rows("note_strikes", coder=coder, name=name, strikes=strikes)

    def totals(self) -> list[AccountTotal]:
        """Return what the ended runs of each account consumed. The totals are stored, so the history is not read."""
        return [record_from(AccountTotal, row) for row in self._sql.rows("account_totals")]

    def note_quotas(self, seen: Sequence[Quota]) -> None:
        """Store observed quotas.

        A field that a later observation lacks keeps its value. Older observations are ignored.
        """
        with self._db.writing(durable=False):
            known = {(each.coder, each.account, each.span): each for each in self.quotas()}
            for each in seen:
                key = tuple(map(storable, (each.coder, each.account, each.span)))
                self._sql.rows("keep_quota", **values_of(known[key].then(each) if key in known else each))

    def quotas(self) -> list[Quota]:
        """Return the last observed quota windows of all accounts, by coder, account and window."""
        return [record_from(Quota, row) for row in self._sql.rows("quotas")]

    # For the port of runs, inside its transactions

    def note_use(self, run: Run) -> None:
        """Record that a starting run uses its account."""
        used = {"coder": storable(run.coder), "name": storable(run.account)}
        self._sql.rows("note_use", **used, used_at=to_micros(run.started_at))

    def add_run(self, run: Run) -> None:
        """Add the consumption of an ended run to the totals of its account."""
        taken = _count_usage(run)
        self._sql.rows(
            "add_to_totals",
            coder=storable(taken.coder),
            account=storable(taken.account),
            tokens=taken.tokens,
            cost_usd=taken.cost_usd,
            most_tokens=MOST_TOKENS,
            most_usd=MOST_USD,
        )


def _count_usage(run: Run) -> AccountTotal:
    """Return what an ended run adds to its account's totals. Absurd numbers add nothing."""
    cost = run.cost_usd if run.cost_usd is not None and 0 <= run.cost_usd <= _DEAREST_RUN else 0.0
    tokens = min(max(run.tokens, 0), MOST_TOKENS)
    return AccountTotal(coder=run.coder, account=run.account, runs=1, tokens=tokens, cost_usd=float(cost))
