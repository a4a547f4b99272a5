"""Counts of the waiting tasks, and the reasons why they do not start."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.hosts import HostState, hosts
from fleet.core.admission import Situation, admit
from fleet.core.errors import QueueMoved
from fleet.core.filter import READY, Filter
from fleet.core.host import PIN, is_of_home, named, plain, required
from fleet.core.task import HEADLESS, MADE_HERE, Status
from fleet.supervisor.admission_inputs import free_disk_mb, free_memory_mb, unusable
from fleet.supervisor.give_back import waiting
from fleet.supervisor.host import owner_of, settings_here
from fleet.supervisor.lock import PAUSED, holder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.actions.control.hosts import HostView
    from fleet.assembly import Fleet
    from fleet.settings import Settings

#: The maximum number of tasks examined, and of reasons reported.
MOST_TASKS, MOST_REASONS = 1000, 5
_NO_WORDS = "no host can offer this: `fleet.requires` in the metadata is not a list of words"


class Outlook(NamedTuple):
    """The number of waiting tasks, and why no more of them start."""

    ready: int
    later: int  # deferred to a later time
    waiting: int  # for other tasks
    blocked: int  # needs a person; does not count stopped tasks
    reasons: list[str]


def outlook(fleet: Fleet) -> Outlook:
    """Return what waits and why, by the same rules as the supervisor."""
    store = fleet.store
    with store.snapshot():
        ready = store.tasks.count(READY)[""]
        put_off = Filter(statuses=(Status.OPEN, Status.DEFERRED), defer_after=store.now(), blocked=False)
        later = store.tasks.count(put_off)[""]
        waiting = store.tasks.count(Filter(blocked=True, statuses=(Status.OPEN,)))[""]
        blocked = store.tasks.count(Filter(statuses=(Status.BLOCKED,)))[""]
        blocked -= store.tasks.count(Filter(stopped=True))[""]
        if live := tuple(run.task_id for run in fleet.store.runs.live()):
            blocked -= store.tasks.count(Filter(statuses=(Status.BLOCKED,), stopped=False, ids=live))[""]
        reasons = [_moved()] if store.was_moved() else _reasons(fleet) if ready else []
        reasons += given_back(fleet) if later else []
    return Outlook(ready, later, waiting, blocked, reasons)


def situation(fleet: Fleet, settings: Settings) -> Situation:
    """Return the situation as the supervisor would see it now, without the facts that only its memory holds."""
    live = fleet.store.runs.live()
    owner = owner_of(fleet.home, settings) if live else ""
    named = {name or settings.coder for name in fleet.store.claims.waiting_coders()}
    return Situation(
        now=fleet.store.now(),
        default_coder=settings.coder,
        coders={name: unusable(name, settings, fleet.home) for name in sorted(named)},
        running=Counter((run.coder, HEADLESS) for run in live if run.owner == owner),
        busy=Counter((run.coder, run.account) for run in live),
        accounts=fleet.store.accounts.all(),
        free_disk_mb=free_disk_mb(fleet.home.root),
        free_memory_mb=free_memory_mb(),
        paused=PAUSED in fleet.store.config.all(),
    )


def given_back(fleet: Fleet) -> list[str]:
    """Return why tasks wait that could not be started, the most frequent reason first."""
    reasons = Counter(task.reason for task in waiting(fleet.store))
    return [f"{reason} ({count_waiting(count)})" for reason, count in reasons.most_common(MOST_REASONS)]


def passed_over(fleet: Fleet) -> int:
    """Return how many ready tasks the supervisor ignores because `create` or a similar command did not make them."""
    note = holder(fleet.home)
    if note is None or not note.get("only_made"):
        return 0
    return fleet.store.tasks.count(READY.replace(not_origins=MADE_HERE))[""]


def _moved() -> str:
    moved = QueueMoved()
    return f"{moved}; {moved.hint}"


def _reasons(fleet: Fleet) -> list[str]:
    settings, known = settings_here(fleet.home), hosts(fleet)
    seen = situation(fleet, settings)
    is_served = holder(fleet.home) is not None
    if not is_served and any(each.takes_work for each in known):
        found = ["paused"] if seen.paused else []  # other hosts do the work and know their own reasons
    else:
        found = [] if is_served else ["no supervisor is running; run `fleet run start`"]
        found += admit(settings, seen.replace(closed=[_drained(each) for each in known if _is_closed(each)])).reasons
    if others := passed_over(fleet):
        found.append(
            f"the supervisor runs only what `fleet create` makes ({count_waiting(others)}); run `fleet run start`"
        )
    told = ["paused; `fleet resume` goes on" if reason == "paused" else reason for reason in found]
    return told + unmet(fleet, known)


def _is_closed(seen: HostView) -> bool:
    return seen.is_this and seen.host.drained_at is not None


def _drained(seen: HostView) -> str:
    return f"this host, {seen.host.name}, is drained; run `fleet hosts undrain {seen.host.name}` to let it take tasks"


def unmet(fleet: Fleet, known: Sequence[HostView]) -> list[str]:
    """Return why ready tasks with host requirements wait, the most frequent reason first."""
    waiting = fleet.store.tasks.find(READY.replace(requires=True), sort="id", limit=MOST_TASKS)
    reasons = Counter(why_not(task.requires, known) for task in waiting)
    found = [(reason, count) for reason, count in reasons.most_common() if reason]
    return [f"{reason} ({count_waiting(count)})" for reason, count in found[:MOST_REASONS]]


def why_not(requires: str, known: Sequence[HostView]) -> str:
    """Return why no host takes a task with these requirements. Return "" if a host takes it. Pure."""
    words = required(requires)
    if words is None:
        return _NO_WORDS
    wanted = set(words)
    able = [each for each in known if wanted <= set(each.host.offers)]
    if any(each.takes_work for each in able):
        return ""
    if any(map(is_of_home, words)):  # ignore earlier names of the host: the one seen last counts
        able = sorted(able, key=lambda each: each.host.seen_at)[-1:]
    if len(able) == 1:
        return f"host {_standing(able[0])}"
    if able:
        return f"no reachable host offers {plain(words)}: {', '.join(_standing(each) for each in able[:3])}"
    return _nobody(words, known)


def _nobody(words: Sequence[str], known: Sequence[HostView]) -> str:
    """Return why no known host, reachable or not, offers these words."""
    for word in words:
        if word.startswith(PIN) and not any(word in each.host.offers for each in known):
            name = named(word, ()).removeprefix(PIN)
            return f"the host that created it, {name}, is unknown" if is_of_home(word) else f"no host is called {name}"
    missing = [word for word in words if not any(word in each.host.offers for each in known)]
    if missing:
        return f"no host offers {plain(missing)}"
    pins = [word for word in words if word.startswith(PIN)]
    if pins:
        called = [named(word, [each.host for each in known]) for word in pins]
        return f"{plain(called)} does not offer {plain(word for word in words if word not in pins)}"
    return f"no host offers {plain(words)} together"


def _standing(seen: HostView) -> str:
    if seen.state == HostState.GONE:
        return f"{seen.host.name} was last seen at {seen.host.seen_at.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{seen.host.name} is drained"


def count_waiting(count: int) -> str:
    return "1 task waits for it" if count == 1 else f"{count} tasks wait for it"
