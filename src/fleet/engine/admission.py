"""How many agents may be started now, and of which kinds: lanes for the queue's claim. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.filter import Filter, Lane
from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from fleet.config import Settings
    from fleet.core.run import Account

HEADLESS, INTERACTIVE = "headless", "interactive"
#: How a task may spell its mode.
SPELLINGS = {HEADLESS: ("", HEADLESS), INTERACTIVE: (INTERACTIVE,)}
#: So many agents start at once; after them one per start interval.
BURST = 10
UNLIMITED = 1_000_000


class Ramp(Record):
    """How fast agents are started: a bucket that holds a burst of starts and gets one more per interval."""

    full_at: datetime | None = None  # when it will hold the whole burst again; none: it does

    def started(self, count: int, now: datetime, interval: float) -> Ramp:
        """This ramp after so many agents were started now; fewer than none gives starts back."""
        return Ramp(full_at=now + self._missing(now, interval) + count * timedelta(seconds=interval))

    def allowed(self, now: datetime, interval: float) -> int:
        """How many may start now."""
        step = timedelta(seconds=interval)
        return (BURST * step - self._missing(now, interval)) // step if step else UNLIMITED

    def more_at(self, now: datetime, interval: float) -> datetime:
        """When one more may start than now."""
        step = timedelta(seconds=interval)
        return now + self._missing(now, interval) + (self.allowed(now, interval) + 1 - BURST) * step

    def _missing(self, now: datetime, interval: float) -> timedelta:
        # No more than a burst can be missing: a clock that was turned back must not stop all starts.
        missing = self.full_at - now if self.full_at is not None else timedelta(0)
        return min(max(missing, timedelta(0)), BURST * timedelta(seconds=interval))


class Situation(Record):
    """What admission looks at."""

    now: datetime
    default_coder: str  # whose the tasks are that name none
    coders: Mapping[str, str]  # every coder a task may name, and why it cannot be used: empty when it can
    running: Mapping[tuple[str, str], int] = {}  # agents that live, by coder and mode
    accounts: Sequence[Account] = ()
    ramp: Ramp = Ramp()
    free_disk_mb: float | None = None  # none: not known, and not held against anybody
    free_memory_mb: float | None = None
    paused: bool = False
    origins: tuple[str, ...] | None = None  # claim only tasks made in these ways
    turn: int = 0  # must grow with each look: where spellings share a coder's last room, they take turns


class Room(Record):
    """What `Queue.claim` may take now, and what keeps it from taking more."""

    lanes: list[Lane]
    room: int
    ramp_at: datetime | None = None  # when the start ramp lets more start, if it is in the way
    reasons: list[str]


def admit(settings: Settings, situation: Situation, mode: str = HEADLESS) -> Room:
    """The lanes and the room in all for agents of one mode: each mode has slots of its own, so claim for each apart."""
    reasons = list(_closed(settings, situation))
    free = _slots(settings, mode) - _running(situation, mode=mode)
    if free <= 0:
        reasons.append(f"all {_slots(settings, mode)} slots for {mode} agents are taken")
    if reasons:
        return Room(lanes=[], room=0, reasons=reasons)
    interval = settings.supervisor.start_interval_seconds
    allowed = situation.ramp.allowed(situation.now, interval)
    ramp_at = situation.ramp.more_at(situation.now, interval) if allowed < free else None
    room = min(free, allowed)
    lanes = []
    for coder in situation.coders:
        own, reason = _coder_room(settings, situation, coder, mode)
        reasons += [reason] if reason else []
        lanes += _lanes(situation, coder, mode, own, room)
    if ramp_at:
        reasons.append(f"agents are started one after the other, {interval:g} s apart")
    return Room(lanes=lanes, room=room if lanes else 0, ramp_at=ramp_at, reasons=reasons)


def _closed(settings: Settings, situation: Situation) -> Iterator[str]:
    if situation.paused:
        yield "paused"
    disk, memory = situation.free_disk_mb, situation.free_memory_mb
    floors = settings.supervisor
    if disk is not None and disk < floors.min_free_disk_mb:
        yield f"only {disk:.0f} MB of disk are free; min_free_disk_mb is {floors.min_free_disk_mb}"
    if memory is not None and memory < floors.min_free_memory_mb:
        yield f"only {memory:.0f} MB of memory are available; min_free_memory_mb is {floors.min_free_memory_mb}"


def _slots(settings: Settings, mode: str) -> int:
    return settings.limits.max_interactive if mode == INTERACTIVE else settings.max_concurrent


def _running(situation: Situation, *, coder: str | None = None, mode: str | None = None) -> int:
    """How many agents live, of one coder and one mode or of any; a mode that is not said is headless."""
    return sum(
        count
        for (its_coder, its_mode), count in situation.running.items()
        if coder in (None, its_coder) and mode in (None, its_mode or HEADLESS)
    )


def _coder_room(settings: Settings, situation: Situation, coder: str, mode: str) -> tuple[int, str]:
    """How many more agents of a coder may start, and why none where that is so. One account per coder, for now."""
    if situation.coders[coder]:
        return 0, f"{coder} cannot be used: {situation.coders[coder]}"
    rooms = [_slots(settings, mode)]
    cap = settings.coders[coder].max_concurrent if coder in settings.coders else None
    if cap is not None and mode == HEADLESS:
        rooms.append(cap - _running(situation, coder=coder, mode=mode))
    for account in (each for each in situation.accounts if each.coder == coder and not each.name):
        if account.parked_until is not None and account.parked_until > situation.now:
            return 0, f"{coder} is parked until {account.parked_until:%Y-%m-%d %H:%M}: {account.parked_reason}"
        if account.max_running is not None:
            rooms.append(account.max_running - _running(situation, coder=coder))
    left = max(0, min(rooms))
    return left, "" if left else f"{coder} has as many agents as it may have"


def _lanes(situation: Situation, coder: str, mode: str, own: int, room: int) -> list[Lane]:
    """The lanes of one coder: one for each way in which a task can say that it belongs there."""
    names = ("", coder) if coder == situation.default_coder else (coder,)
    ways = [(name, word) for name in names for word in SPELLINGS[mode]]
    shares = _shares(own, len(ways), situation.turn) if own < room else [room] * len(ways)
    return [
        Lane(room=share, where=Filter(coder=name, mode=word, origins=situation.origins))
        for (name, word), share in zip(ways, shares, strict=True)
        if share > 0
    ]


def _shares(total: int, parts: int, turn: int) -> list[int]:
    """A number in nearly equal parts; who gets the larger ones depends on the turn."""
    return [total // parts + ((index - turn) % parts < total % parts) for index in range(parts)]
