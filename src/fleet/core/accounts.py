"""The choice of accounts for runs, and the effect of limits on accounts: pure decisions.

A limit of the plan or a lost login parks an account until its reset. The next account then takes over. Too many
requests in a minute only slow an account down. Runs move on to the next account only if that happens repeatedly.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.core.run import Account, Ending, limit_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Protocol, TypeVar

    from fleet.core.run import Outcome

    class RateLimits(Protocol):
        """The settings for slowing an account down."""

        @property
        def rate_limit_retries(self) -> int: ...
        @property
        def rate_limit_base_seconds(self) -> float: ...
        @property
        def rate_limit_max_seconds(self) -> float: ...

    class AccountTerms(Protocol):
        """One account in the settings."""

        @property
        def name(self) -> str: ...
        @property
        def coder(self) -> str: ...
        @property
        def order(self) -> int: ...
        @property
        def max_concurrent(self) -> int | None: ...
        @property
        def start_interval_seconds(self) -> float: ...

    class SlotSettings(Protocol):
        """The settings that the choice of an account needs."""

        @property
        def accounts(self) -> Sequence[AccountTerms]: ...
        @property
        def limits(self) -> RateLimits: ...

    Terms = TypeVar("Terms", bound=AccountTerms)

WAIT_BASE, WAIT_CAP = timedelta(minutes=5), timedelta(hours=5)  # used if a limit does not report when it ends
SHORTEST_PARK, LONGEST_PARK = timedelta(minutes=1), timedelta(days=8)
SECOND = timedelta(seconds=1)
UNLIMITED = 1_000_000
PASSING = ("rate", "overload")
#: Part of the reason why agents wait for the start of another one.
ONE_BY_ONE = "start one after the other"
#: Part of the reason of a park if no login was found.
NO_SIGN = "is not logged in: none of"
#: Endings which show that the account works.
WORKED = (Ending.FINISHED, Ending.INCOMPLETE, Ending.HUNG_AFTER_RESULT, Ending.BLOCKED, Ending.CONTEXT_FULL)


class AccountSlot(Record):
    """An account of a coder, and how many more runs it may take now."""

    account: str  # "" means the user's own login
    room: int
    most: int | None = None  # maximum number of its agents on all hosts that share the queue
    reason: str = ""  # why it has no room
    opens_at: datetime | None = None  # when its next run may start, if only the pause between starts is in the way


def accounts_of(accounts: Iterable[Terms], coder: str) -> tuple[Terms, ...]:
    """Return the accounts of a coder in the order in which they are used."""
    return tuple(sorted((each for each in accounts if each.coder == coder), key=lambda each: each.order))


def account_slots(
    settings: SlotSettings, coder: str, known: Sequence[Account], busy: Mapping[tuple[str, str], int], now: datetime
) -> list[AccountSlot]:
    """Return the accounts of a coder in the order in which they are used.

    Accounts behind a slowed-down account wait too.
    """
    states = {each.name: each for each in known if each.coder == coder}
    found: list[AccountSlot] = []
    slowed = ""
    for name, most, pause in _list_configured(settings, coder):
        state = states.get(name) or Account(coder=coder, name=name)
        shown = f"account {name!r} of {coder}" if name else coder
        if is_parked(state, now):
            words = "slowed down" if is_slowed(state, settings.limits) else "parked"
            reason = f"{shown} is {words} until {state.parked_until:%Y-%m-%d %H:%M:%S} UTC: {state.parked_reason}"
            slowed = slowed or (reason if is_slowed(state, settings.limits) else "")
            found.append(AccountSlot(account=name, room=0, reason=reason))
        elif slowed:
            found.append(AccountSlot(account=name, room=0, reason=slowed))
        else:
            slot = _free_slot(state, shown, most - busy.get((coder, name), 0), pause, now)
            found.append(slot.replace(most=most if most < UNLIMITED else None))
    return found


def _free_slot(state: Account, shown: str, left: int, pause: timedelta, now: datetime) -> AccountSlot:
    """Return the slot of an account that is not parked.

    If its starts need a pause, it has room for one run at a time.
    """
    if left <= 0:
        return AccountSlot(account=state.name, room=0, reason=f"{shown} runs its maximum number of agents")
    if not pause:
        return AccountSlot(account=state.name, room=left)
    since = now - state.used_at if state.used_at is not None else pause
    if timedelta(0) <= since < pause:
        reason = f"agents of {shown} {ONE_BY_ONE}, {pause.total_seconds():g} s apart"
        return AccountSlot(account=state.name, room=0, reason=reason, opens_at=now + pause - since)
    return AccountSlot(account=state.name, room=1, opens_at=now + pause if left > 1 else None)


def is_parked(account: Account, now: datetime) -> bool:
    """Return True if the account may not be used now."""
    return account.parked_until is not None and account.parked_until > now


def needs_login(account: Account) -> bool:
    """Return True if the account's last refusal was for a missing or invalid login."""
    return account.parked_reason.startswith(limit_reason("auth")) or NO_SIGN in account.parked_reason


def is_slowed(account: Account, limits: RateLimits) -> bool:
    """Return True if the account was refused for too many requests, but not too often in a row."""
    return 0 < account.strikes <= limits.rate_limit_retries


def after_run(
    account: Account, outcome: Outcome, *, started_at: datetime, now: datetime, limits: RateLimits
) -> Account:
    """Return the account after one of its runs ended with this outcome."""
    if not outcome.limit:
        return account.replace(strikes=0) if outcome.ending in WORKED else account
    # A run that started before the last limit ended met the same limit again, which is not another strike.
    same = account.parked_until is not None and started_at < account.parked_until
    strikes = max(account.strikes, 1) if same else account.strikes + 1
    if outcome.limit in PASSING and strikes <= limits.rate_limit_retries and not _is_long(outcome, now, limits):
        told = outcome.resume_at
        until = max(told, now + SECOND) if told is not None else now + slow_down(strikes, limits)
    else:
        strikes = max(strikes, limits.rate_limit_retries + 1)
        until = _get_reported_end(outcome, now) or now + _compute_wait(strikes - limits.rate_limit_retries - 1)
    if same and account.parked_until is not None:
        until = max(until, account.parked_until)
    return account.replace(strikes=strikes, parked_until=until, parked_reason=outcome.reason)


def slow_down(strikes: int, limits: RateLimits) -> timedelta:
    """Return the pause after this many refusals in a row, if the coder did not report how long to wait."""
    return timedelta(seconds=min(limits.rate_limit_base_seconds * 2 ** (strikes - 1), limits.rate_limit_max_seconds))


def _compute_wait(times: int) -> timedelta:
    return min(WAIT_CAP, WAIT_BASE * (1 << min(times, 16)))


def _get_reported_end(outcome: Outcome, now: datetime) -> datetime | None:
    """Return the end of the limit as the coder reported it, within reasonable bounds, or None."""
    if outcome.resume_at is None:
        return None
    return min(max(outcome.resume_at, now + SHORTEST_PARK), now + LONGEST_PARK)


def _is_long(outcome: Outcome, now: datetime, limits: RateLimits) -> bool:
    longest = max(timedelta(seconds=limits.rate_limit_max_seconds), SHORTEST_PARK)
    return outcome.resume_at is not None and outcome.resume_at > now + longest


def _list_configured(settings: SlotSettings, coder: str) -> list[tuple[str, int, timedelta]]:
    return [
        (each.name, each.max_concurrent or UNLIMITED, timedelta(seconds=each.start_interval_seconds))
        for each in accounts_of(settings.accounts, coder)
    ] or [("", UNLIMITED, timedelta(0))]
