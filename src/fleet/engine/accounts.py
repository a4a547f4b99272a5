"""Accounts: which of them a run may use, and what a limit does to one. Pure.

A limit of the plan, or a lost login, parks an account until its reset, and the next one takes over. Too many requests
in a minute only slow it down: nothing moves on to the next account for that, unless it happens over and over.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from fleet.config import accounts_for
from fleet.core.record import Record
from fleet.core.run import Account, Ending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fleet.config import Settings
    from fleet.config.sections import Limits
    from fleet.core.rules import Rules
    from fleet.core.run import Outcome

WAIT_BASE, WAIT_CAP = timedelta(minutes=5), timedelta(hours=5)  # where a limit does not say when it ends
SHORTEST_PARK, LONGEST_PARK = timedelta(minutes=1), timedelta(days=8)
SECOND = timedelta(seconds=1)
UNLIMITED = 1_000_000
PASSING = ("rate", "overload")
#: Endings that show that the account works.
WORKED = (Ending.FINISHED, Ending.INCOMPLETE, Ending.HUNG_AFTER_RESULT, Ending.BLOCKED, Ending.CONTEXT_FULL)


class Seat(Record):
    """An account of a coder as a run could take it now."""

    account: str  # empty: the user's own login
    room: int
    most: int | None = None  # how many agents it may have, on all hosts that share the queue
    reason: str = ""  # why there is none
    opens_at: datetime | None = None  # when its next start may be, where only that is in the way


def seats(
    settings: Settings, coder: str, known: Sequence[Account], busy: Mapping[tuple[str, str], int], now: datetime
) -> list[Seat]:
    """The accounts of a coder in the order they are to be used; those behind one that is only slowed down wait too."""
    states = {each.name: each for each in known if each.coder == coder}
    found: list[Seat] = []
    slowed = ""
    for name, most, pause in _configured(settings, coder):
        state = states.get(name) or Account(coder=coder, name=name)
        shown = f"account {name!r} of {coder}" if name else coder
        if is_parked(state, now):
            words = "slowed down" if is_slowed(state, settings.limits) else "parked"
            reason = f"{shown} is {words} until {state.parked_until:%Y-%m-%d %H:%M:%S}: {state.parked_reason}"
            slowed = slowed or (reason if is_slowed(state, settings.limits) else "")
            found.append(Seat(account=name, room=0, reason=reason))
        elif slowed:
            found.append(Seat(account=name, room=0, reason=slowed))
        else:
            seat = _free_seat(state, shown, most - busy.get((coder, name), 0), pause, now)
            found.append(seat.replace(most=most if most < UNLIMITED else None))
    return found


def _free_seat(state: Account, shown: str, left: int, pause: timedelta, now: datetime) -> Seat:
    """A seat of an account that is not parked: as many as are left, or with a pause between starts one at a time."""
    if left <= 0:
        return Seat(account=state.name, room=0, reason=f"{shown} has as many agents as it may have")
    if not pause:
        return Seat(account=state.name, room=left)
    since = now - state.used_at if state.used_at is not None else pause
    if timedelta(0) <= since < pause:
        reason = f"{shown} starts its agents one after the other, {pause.total_seconds():g} s apart"
        return Seat(account=state.name, room=0, reason=reason, opens_at=now + pause - since)
    return Seat(account=state.name, room=1, opens_at=now + pause if left > 1 else None)


def is_parked(account: Account, now: datetime) -> bool:
    """Whether it may not be used now."""
    return account.parked_until is not None and account.parked_until > now


def is_slowed(account: Account, limits: Limits) -> bool:
    """Whether it only met too many requests at once, and not too often in a row."""
    return 0 < account.strikes <= limits.rate_limit_retries


def after_run(account: Account, outcome: Outcome, *, started_at: datetime, now: datetime, limits: Limits) -> Account:
    """The account after one of its runs ended so."""
    if not outcome.limit:
        return account.replace(strikes=0) if outcome.ending in WORKED else account
    # Who was started before the last limit ended met the same limit once more: that is no further strike.
    same = account.parked_until is not None and started_at < account.parked_until
    strikes = max(account.strikes, 1) if same else account.strikes + 1
    if outcome.limit in PASSING and strikes <= limits.rate_limit_retries and not _is_long(outcome, now, limits):
        told = outcome.resume_at
        until = max(told, now + SECOND) if told is not None else now + slow_down(strikes, limits)
    else:
        strikes = max(strikes, limits.rate_limit_retries + 1)
        until = _told(outcome, now) or now + _growing(strikes - limits.rate_limit_retries - 1)
    if same and account.parked_until is not None:
        until = max(until, account.parked_until)
    return account.replace(strikes=strikes, parked_until=until, parked_reason=outcome.reason)


def limits_for(limits: Limits, rules: Rules) -> Limits:
    """Return the limits for an account that a run of a task used: it is never parked for longer than the task says.

    Otherwise the task would wait for its account, whatever its own pauses are.
    """
    named = ("rate_limit_base_seconds", "rate_limit_max_seconds")
    said: dict[str, float] = {
        name: min(getattr(limits, name), value) for name in named if (value := getattr(rules, name)) is not None
    }
    if rules.rate_limit_retries is not None:
        said["rate_limit_retries"] = max(limits.rate_limit_retries, rules.rate_limit_retries)
    return msgspec.structs.replace(limits, **said) if said else limits


def slow_down(strikes: int, limits: Limits) -> timedelta:
    """The pause after so many refusals in a row that did not say how long."""
    return timedelta(seconds=min(limits.rate_limit_base_seconds * 2 ** (strikes - 1), limits.rate_limit_max_seconds))


def _growing(times: int) -> timedelta:
    return min(WAIT_CAP, WAIT_BASE * (1 << min(times, 16)))


def _told(outcome: Outcome, now: datetime) -> datetime | None:
    """The end of the limit as it was told, within reason."""
    if outcome.resume_at is None:
        return None
    return min(max(outcome.resume_at, now + SHORTEST_PARK), now + LONGEST_PARK)


def _is_long(outcome: Outcome, now: datetime, limits: Limits) -> bool:
    longest = max(timedelta(seconds=limits.rate_limit_max_seconds), SHORTEST_PARK)
    return outcome.resume_at is not None and outcome.resume_at > now + longest


def _configured(settings: Settings, coder: str) -> list[tuple[str, int, timedelta]]:
    own = accounts_for(settings, coder)
    return [
        (each.name, each.max_concurrent or UNLIMITED, timedelta(seconds=each.start_interval_seconds)) for each in own
    ] or [("", UNLIMITED, timedelta(0))]
