"""Accounts: list their status and usage, and unpark them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.tasks.rights import refuse_agents
from fleet.core.accounts import account_slots, is_parked, is_slowed
from fleet.core.errors import FleetError, UsageError
from fleet.core.run import Account, AccountTotal
from fleet.settings import load
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.run import Quota, Run
    from fleet.core.task import Caller
    from fleet.settings import Settings
    from fleet.settings.sections import AccountSettings

    Key = tuple[str, str]


class AccountState:
    """States of an account."""

    READY = "ready"
    FULL = "full"  # runs as many agents as `max_concurrent` allows
    SLOWED = "slowed"  # met a rate limit; the accounts after it wait too
    PARKED = "parked"
    WAITS = "waits"  # behind a slowed account
    UNUSED = "unused"  # not in the settings, or a coder's own login while that coder has accounts


class AccountStatus(NamedTuple):
    """An account with its state, usage and quotas. It contains no secret values and no commands that print secrets."""

    known: Account
    own: AccountSettings | None  # its settings; None for the coder's own login or an account removed from the settings
    state: str
    reason: str
    running: int
    total: AccountTotal  # includes the usage of live runs
    quotas: tuple[Quota, ...] = ()

    @property
    def label(self) -> str:
        """Return the account's display name, which `unpark` accepts."""
        return f"{self.known.coder}/{self.known.name}" if self.known.name else self.known.coder

    @property
    def until(self) -> datetime | None:
        return self.known.parked_until if self.state in (AccountState.SLOWED, AccountState.PARKED) else None

    def view(self) -> dict[str, Any]:
        known, own = self.known, self.own
        now = datetime.now(UTC)
        return {
            "coder": known.coder,
            "name": known.name,
            "configured": own is not None,
            "order": own.order if own else None,
            "max_concurrent": own.max_concurrent if own else None,
            "config_dir": own.config_dir if own else None,
            "running": self.running,
            "state": self.state,
            "until": self.until.isoformat(timespec="seconds") if self.until else None,
            "reason": self.reason,
            "strikes": known.strikes,
            "used_at": known.used_at.isoformat(timespec="seconds") if known.used_at else None,
            "runs": self.total.runs,
            "tokens": self.total.tokens,
            "cost_usd": round(self.total.cost_usd, 6),
            "quota": [quota_view(each, now) for each in self.quotas],
        }


def quota_view(quota: Quota, now: datetime) -> dict[str, Any]:
    """Return a quota window as plain data. The percentage is None if the window has reset since it was read."""
    stale = quota.is_stale(now)
    return {
        "window": quota.span,
        "used_percent": None if stale else quota.used_pct,
        "resets_at": quota.resets_at.isoformat(timespec="seconds") if quota.resets_at else None,
        "seen_at": quota.seen_at.isoformat(timespec="seconds"),
        "stale": stale,
    }


def accounts(fleet: Fleet) -> list[AccountStatus]:
    """Return every configured account, in its coder's order, and every other account or login that was used."""
    settings = load(fleet.home, env={}, lenient=True)
    with fleet.store.snapshot():
        known = fleet.store.accounts.all()
        totals = fleet.store.accounts.totals()
        live = fleet.store.runs.live()
        quotas = fleet.store.accounts.quotas()
        now = fleet.store.now()
    found = standings(settings, known, totals, live, now)
    by_account: dict[Key, list[Quota]] = {}
    for quota in quotas:
        by_account.setdefault((quota.coder, quota.account), []).append(quota)
    return [each._replace(quotas=tuple(by_account.get((each.known.coder, each.known.name), ()))) for each in found]


def standings(
    settings: Settings, known: Sequence[Account], totals: Sequence[AccountTotal], live: Sequence[Run], now: datetime
) -> list[AccountStatus]:
    """Return the status of each account. The function is pure."""
    busy = Counter((run.coder, run.account) for run in live)
    states = {(each.coder, each.name): each for each in known}
    sums = {(each.coder, each.account): each for each in totals}
    configured = {(each.coder, each.name): each for each in settings.accounts}
    rows = []
    for coder, name in _keys(settings, [*configured, *states, *sums, *busy]):
        key = (coder, name)
        account = states.get(key) or Account(coder=coder, name=name)
        own = configured.get(key)
        state, reason = _state(settings, account, own, known, busy, now)
        total = _with_live(sums.get(key) or AccountTotal(coder=coder, account=name), live)
        rows.append(AccountStatus(account, own, state, reason, busy[key], total))
    return rows


def unpark(fleet: Fleet, name: str, *, caller: Caller | None = None) -> list[tuple[AccountStatus, bool]]:
    """Make accounts usable at once and reset their strikes. Return each account and whether it was parked or slowed.

    NAME selects the account of that name, CODER all accounts of a coder, and CODER/NAME exactly one account. Raises
    FleetError and Usage.
    """
    refuse_agents(caller, "unpark accounts")
    with fleet.store.atomic():
        found = _meant(accounts(fleet), name)
        for each in found:
            fleet.store.accounts.park(each.known.coder, each.known.name, until=None, reason="")
            if each.known.strikes:
                fleet.store.accounts.note_strikes(each.known.coder, each.known.name, strikes=0)
    wake(fleet.home)
    return [(each, is_parked(each.known, fleet.store.now())) for each in found]


def _keys(settings: Settings, found: Sequence[Key]) -> list[Key]:
    """Return each account key once, ordered by coder. Configured accounts come first, in the order of the settings."""
    places = {(each.coder, each.name): (each.order, place) for place, each in enumerate(settings.accounts)}
    last = (1_000_000, 0)
    return sorted(set(found), key=lambda key: (key[0], places.get(key, last), key[1]))


def _state(
    settings: Settings,
    account: Account,
    own: AccountSettings | None,
    known: Sequence[Account],
    busy: Counter[Key],
    now: datetime,
) -> tuple[str, str]:
    """Return the state of an account and its reason, as the supervisor would judge them."""
    if is_parked(account, now):
        slowed = is_slowed(account, settings.limits)
        return (AccountState.SLOWED if slowed else AccountState.PARKED), account.parked_reason
    for slot in account_slots(settings, account.coder, known, busy, now):
        if slot.account == account.name:
            if slot.room or slot.opens_at is not None:
                return AccountState.READY, ""
            is_full = own is not None and own.max_concurrent and busy[own.coder, own.name] >= own.max_concurrent
            return (AccountState.FULL if is_full else AccountState.WAITS), slot.reason
    if account.name:
        return AccountState.UNUSED, "it is not in the settings"
    return AccountState.UNUSED, f"{account.coder} has accounts, and those are used"


def _with_live(total: AccountTotal, live: Sequence[Run]) -> AccountTotal:
    """Return the recorded usage plus the usage of live runs."""
    own = [run for run in live if (run.coder, run.account) == (total.coder, total.account)]
    return total.replace(
        runs=total.runs + len(own),
        tokens=total.tokens + sum(run.tokens for run in own),
        cost_usd=total.cost_usd + sum(run.cost_usd or 0.0 for run in own),
    )


def _meant(rows: Sequence[AccountStatus], name: str) -> list[AccountStatus]:
    exact = [row for row in rows if name in (row.label, f"{row.known.coder}/{row.known.name}")]
    of_coder = [row for row in rows if row.known.coder == name]
    named = [row for row in rows if row.known.name == name]
    if of_coder and named and of_coder != named:
        raise UsageError(f"{name!r} is a coder and the name of an account", hint="pass CODER/NAME")
    found = of_coder or exact or named
    if not found:
        raise FleetError(f"no account {name!r}", hint="run `fleet accounts` to list them")
    if not of_coder and len(found) > 1:
        several = ", ".join(row.label for row in found)
        raise UsageError(f"{name!r} is the name of several accounts: {several}", hint="pass CODER/NAME")
    return found
