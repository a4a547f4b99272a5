"""How many agents of each kind may start now: a pure decision, given as lanes for the queue's claim."""

from __future__ import annotations

from datetime import timedelta

from fleet.core.accounts import ONE_BY_ONE, account_slots
from fleet.core.filter import Filter, Lane
from fleet.core.record import Record
from fleet.core.rules import rules_of
from fleet.core.task import HEADLESS, INTERACTIVE

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.core.host import Host
    from fleet.core.run import Account
    from fleet.core.task import Claim, Task


#: Their mode in admission. The tasks themselves are headless.
POOLED = "pooled"
ORIGINS = ("mcp", "workflow")
#: The limit of tasks that name none.
USUAL = 50


def is_pooled(task: Task) -> bool:
    """Return True if a task was created by an MCP tool or as a stage, and runs without a terminal."""
    return task.origin in ORIGINS and task.mode != INTERACTIVE


def room_of(tasks: Iterable[Task], *, otherwise: int) -> int:
    """Return the highest limit among the running tasks, or `otherwise` if there is none."""
    return max((_read_at_once(task) for task in tasks), default=otherwise)


def split_by_room(claims: Sequence[Claim], running: int) -> tuple[list[Claim], list[Claim]]:
    """Split claims into those that may start while `running` agents work, and those over the limit."""
    start: list[Claim] = []
    back: list[Claim] = []
    for claim in claims:
        fits = not is_pooled(claim.task) or running + len(start) < _read_at_once(claim.task)
        (start if fits else back).append(claim)
    return start, back


def _read_at_once(task: Task) -> int:
    said = rules_of(task).at_once
    return USUAL if said is None else said


class QueueSnapshot(Record):
    """The result of one query of the store, as a single snapshot."""

    coders: Sequence[str] = ()  # coders that claimable tasks name; "" stands for tasks that name none
    accounts: Sequence[Account] = ()
    setting: str | None = None  # the requested setting of the queue
    host: Host | None = None  # the stored record of the host that asks


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Protocol

    from fleet.core.accounts import AccountSlot, RateLimits, SlotSettings
    from fleet.core.run import Account

    class AdmissionLimits(RateLimits, Protocol):
        """The limits that admission reads."""

        @property
        def max_interactive(self) -> int: ...

    class StartSettings(Protocol):
        """How fast agents may start, and the minimum of free resources."""

        @property
        def start_interval_seconds(self) -> float: ...
        @property
        def min_free_disk_mb(self) -> int: ...
        @property
        def min_free_memory_mb(self) -> int: ...

    class CoderCap(Protocol):
        """The maximum number of agents of one coder, from the settings."""

        @property
        def max_concurrent(self) -> int | None: ...

    class AdmissionSettings(SlotSettings, Protocol):
        """The settings that admission reads."""

        @property
        def max_concurrent(self) -> int: ...
        @property
        def coders(self) -> Mapping[str, CoderCap]: ...
        @property
        def limits(self) -> AdmissionLimits: ...
        @property
        def supervisor(self) -> StartSettings: ...


#: The values of `Task.mode` for each mode.
SPELLINGS = {HEADLESS: ("", HEADLESS), INTERACTIVE: (INTERACTIVE,), POOLED: ("", HEADLESS)}
#: Maximum number of agents that start at once. Further agents start one per start interval.
BURST = 25
UNLIMITED = 1_000_000
SLOTS, ONLY_SLOT = "slots", "the only slot"
#: Parts of reasons that pass within seconds or with the end of a run.
BRIEF = (SLOTS, ONLY_SLOT, ONE_BY_ONE)


class Ramp(Record):
    """The rate of starts: a bucket that holds a burst of starts and gains one per interval."""

    full_at: datetime | None = None  # when the bucket is full again; None: it is full

    def started(self, count: int, now: datetime, interval: float) -> Ramp:
        """Return the ramp after `count` agents started now. A negative count gives starts back."""
        return Ramp(full_at=now + self._missing(now, interval) + count * timedelta(seconds=interval))

    def allowed(self, now: datetime, interval: float) -> int:
        """Return how many agents may start now."""
        step = timedelta(seconds=interval)
        return (BURST * step - self._missing(now, interval)) // step if step else UNLIMITED

    def more_at(self, now: datetime, interval: float) -> datetime:
        """Return when one more agent may start than now."""
        step = timedelta(seconds=interval)
        return now + self._missing(now, interval) + (self.allowed(now, interval) + 1 - BURST) * step

    def _missing(self, now: datetime, interval: float) -> timedelta:
        # Cap the missing starts at one burst, because a clock that was turned back must not stop all starts.
        missing = self.full_at - now if self.full_at is not None else timedelta(0)
        return min(max(missing, timedelta(0)), BURST * timedelta(seconds=interval))


class Situation(Record):
    """The facts that admission considers."""

    now: datetime
    default_coder: str  # used by tasks that name no coder
    coders: Mapping[str, str]  # each coder that a task may name, and why it cannot be used; "" if it can
    running: Mapping[tuple[str, str], int] = {}  # live agents by coder and mode
    accounts: Sequence[Account] = ()  # known states of accounts
    busy: Mapping[tuple[str, str], int] = {}  # live agents by coder and account
    ramp: Ramp = Ramp()
    free_disk_mb: float | None = None  # None if unknown, which stops no start
    free_memory_mb: float | None = None
    paused: bool = False
    closed: Sequence[str] = ()  # why this host takes no tasks at all
    offers: tuple[str, ...] | None = None  # what tasks may require of this host; None: anything
    origins: tuple[str, ...] | None = None  # claim only tasks with these origins
    not_origins: tuple[str, ...] | None = None  # claim no tasks with these origins
    shared: bool = False  # True if other hosts take tasks from the same queue
    at_once: int = USUAL  # maximum number of working agents of the pool
    turn: int = 0  # must grow with each call, so that accounts take turns at a coder's last room


class Room(Record):
    """What `Claims.acquire` may take now, and the reasons against more."""

    lanes: list[Lane]
    room: int
    opens_at: datetime | None = None  # when an account opens that tasks wait for
    ramp_at: datetime | None = None  # when more may start, if only the start interval limits starts
    reasons: list[str]

    def again_at(self, taken: int) -> datetime | None:
        """Return when to call again after this many tasks were taken, or None.

        If fewer tasks were taken than fit, the queue has no more and the ramp does not matter.
        """
        soon = [at for at in (self.opens_at, self.ramp_at if taken >= self.room else None) if at is not None]
        return min(soon, default=None)


def admit(settings: AdmissionSettings, situation: Situation, mode: str = HEADLESS) -> Room:
    """Return the lanes and the total room for agents of one mode. Each mode has its own slots."""
    reasons = list(_find_closed_reasons(settings, situation))
    slots = _slots(settings, situation, mode)
    left = slots - _count_running(situation, mode=mode)
    if left <= 0:
        all_slots = ONLY_SLOT if slots == 1 else f"all {slots} {SLOTS}"
        reasons.append(f"{all_slots} for {mode} agents {'is' if slots == 1 else 'are'} in use")
    if reasons:
        return Room(lanes=[], room=0, reasons=reasons)
    interval = settings.supervisor.start_interval_seconds
    allowed = situation.ramp.allowed(situation.now, interval)
    ramp_at = situation.ramp.more_at(situation.now, interval) if allowed < left else None
    room = min(left, allowed)
    lanes: list[Lane] = []
    opening: list[datetime] = []
    could_start = False
    for coder in situation.coders:
        own, found, reason = _coder_room(settings, situation, coder, mode)
        reasons += [reason] if reason else []
        free = [slot for slot in found if slot.room]
        could_start = could_start or bool(free)
        lanes += _lanes(situation, coder, mode, own, free, room) if free else []
        opening += [slot.opens_at for slot in found if slot.opens_at is not None]
    if not could_start:
        ramp_at = None
    if ramp_at:
        reasons.append(f"agents {ONE_BY_ONE}, {interval:g} s apart")
    opens_at = min(opening, default=None)
    return Room(lanes=lanes, room=room if lanes else 0, opens_at=opens_at, ramp_at=ramp_at, reasons=reasons)


def _find_closed_reasons(settings: AdmissionSettings, situation: Situation) -> Iterator[str]:
    if situation.paused:
        yield "paused"
    yield from situation.closed
    disk, memory = situation.free_disk_mb, situation.free_memory_mb
    floors = settings.supervisor
    if disk is not None and disk < floors.min_free_disk_mb:
        yield f"only {disk:.0f} MB of disk are free; min_free_disk_mb is {floors.min_free_disk_mb}"
    if memory is not None and memory < floors.min_free_memory_mb:
        yield f"only {memory:.0f} MB of memory are available; min_free_memory_mb is {floors.min_free_memory_mb}"


def _slots(settings: AdmissionSettings, situation: Situation, mode: str) -> int:
    if mode == POOLED:
        return situation.at_once
    return settings.limits.max_interactive if mode == INTERACTIVE else settings.max_concurrent


def _count_running(situation: Situation, *, coder: str | None = None, mode: str | None = None) -> int:
    """Return the number of live agents, of one coder and mode or of any. An empty mode means headless."""
    return sum(
        count
        for (its_coder, its_mode), count in situation.running.items()
        if coder in (None, its_coder) and mode in (None, its_mode or HEADLESS)
    )


def _coder_room(
    settings: AdmissionSettings, situation: Situation, coder: str, mode: str
) -> tuple[int, list[AccountSlot], str]:
    """Return how many more agents of a coder may start, its account slots, and why none may start."""
    if situation.coders[coder]:
        return 0, [], f"{coder} cannot be used: {situation.coders[coder]}"
    own = _slots(settings, situation, mode)
    cap = settings.coders[coder].max_concurrent if coder in settings.coders else None
    if cap is not None and mode != INTERACTIVE:
        own = min(own, cap - sum(_count_running(situation, coder=coder, mode=each) for each in (HEADLESS, POOLED)))
    found = account_slots(settings, coder, situation.accounts, situation.busy, situation.now)
    if own <= 0:
        return 0, [], f"{coder} runs its maximum number of agents"
    return own, found, "" if any(slot.room for slot in found) else found[0].reason


def _lanes(situation: Situation, coder: str, mode: str, own: int, free: list[AccountSlot], room: int) -> list[Lane]:
    """Return the lanes of one coder, one per account.

    Each serves tasks that name the account and tasks that name none.
    """
    names = ("", coder) if coder == situation.default_coder else (coder,)
    shares = _shares(own, len(free), situation.turn) if own < room else [room] * len(free)
    return [
        Lane(
            room=min(slot.room, share),
            limit=slot.most if situation.shared else None,
            seat=(coder, slot.account) if situation.shared else ("", ""),
            where=Filter(
                coders=names,
                accounts=("", slot.account) if slot.account else ("",),
                modes=SPELLINGS[mode],
                origins=situation.origins,
                not_origins=situation.not_origins,
                offers=situation.offers,
            ),
        )
        for slot, share in zip(free, shares, strict=True)
        if min(slot.room, share) > 0
    ]


def _shares(total: int, parts: int, turn: int) -> list[int]:
    """Split a number into nearly equal parts. The turn decides which parts are larger."""
    return [total // parts + ((index - turn) % parts < total % parts) for index in range(parts)]
