"""Counts of the waiting tasks, and the reasons why they do not start."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.hosts import HostState, hosts
from fleet.actions.control.supervisor import why_stopped
from fleet.actions.worktrees.rows import lost_runs
from fleet.core.admission import ORIGINS, POOLED, SPELLINGS, USUAL, Situation, admit, is_pooled, room_of
from fleet.core.errors import QueueMoved
from fleet.core.filter import READY, Filter
from fleet.core.host import PIN, format_requirement, is_of_home, join_requirements, parse_requirements
from fleet.core.task import HEADLESS, INTERACTIVE, MADE_HERE, NOT_TRUSTED, TRUST_CHANGED, Status
from fleet.supervisor.admission_inputs import NOT_INSTALLED, free_disk_mb, free_memory_mb, unusable
from fleet.supervisor.give_back import waiting
from fleet.supervisor.host import default_coder, owner_of, settings_here
from fleet.supervisor.lock import PAUSED, holder
from fleet.supervisor.logins import NoLogin, missing_logins

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.actions.control.hosts import HostView
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.settings import Settings

#: The maximum number of tasks examined, and of reasons reported.
MOST_TASKS, MOST_REASONS = 1000, 5
BLOCKED = Filter(statuses=(Status.BLOCKED,), stopped=False)
_NO_WORDS = "no host can offer this: `fleet.requires` in the metadata is not a list of words"


class Reason(NamedTuple):
    """Why tasks do not start, and what to do about it."""

    text: str
    remedy: str = ""
    is_fault: bool = False  # it does not pass on its own
    is_partial: bool = False  # it concerns only some of the tasks

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


PAUSE = Reason("paused", "run `fleet resume` to continue")


class Outlook(NamedTuple):
    """The number of waiting tasks, and why no more of them start."""

    ready: int
    later: int  # deferred to a later time
    waiting: int  # for other tasks
    blocked: int  # needs a person; does not count stopped tasks
    causes: list[Reason]

    @property
    def reasons(self) -> list[str]:
        return [str(each) for each in self.causes]


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
        live = store.runs.live()
        if keys := tuple(run.task_id for run in live):
            blocked -= store.tasks.count(Filter(statuses=(Status.BLOCKED,), stopped=False, ids=keys))[""]
        if store.was_moved():
            moved = QueueMoved()
            causes = [Reason(str(moved), moved.hint, is_fault=True)]
        else:
            causes = _causes(fleet, ready, live)
        causes += given_back(fleet) if later else []
        causes += _untrusted(fleet) if blocked else []
    return Outlook(ready, later, waiting, blocked, causes)


def situation(fleet: Fleet, settings: Settings, live: Sequence[Run]) -> Situation:
    """Return the situation as the supervisor would see it now, without the facts that only its memory holds."""
    owner = owner_of(fleet.home, settings) if live else ""
    own = {run.task_id: run.coder for run in live if run.owner == owner}
    tasks = fleet.store.tasks.find(Filter(ids=tuple(own)), sort="id") if own else []
    default = default_coder(fleet.home, settings)
    return Situation(
        now=fleet.store.now(),
        default_coder=default,
        coders={name: unusable(name, settings, fleet.home) for name in waiting_coders(fleet, default)},
        running=Counter((own[task.id], POOLED if is_pooled(task) else task.mode or HEADLESS) for task in tasks),
        busy=Counter((run.coder, run.account) for run in live),
        accounts=fleet.store.accounts.all(),
        free_disk_mb=free_disk_mb(fleet.home.root),
        free_memory_mb=free_memory_mb(),
        paused=PAUSED in fleet.store.config.all(),
        at_once=room_of([task for task in tasks if is_pooled(task)], otherwise=USUAL),
    )


def waiting_coders(fleet: Fleet, default: str) -> list[str]:
    """Return the coders of waiting tasks. A task without a coder means the default."""
    return sorted({name or default for name in fleet.store.claims.waiting_coders()})


def unserved(fleet: Fleet, live: Sequence[Run], ready: int) -> str:
    """Return what waits while no supervisor runs: agents and tasks. Return "" if nothing waits."""
    lost = len(lost_runs(fleet, live))
    counts = ((lost, "agent", "gone"), (len(live) - lost, "agent", "unwatched"), (ready, "task", "waiting"))
    parts = [f"{count} {noun}{'' if count == 1 else 's'} {word}" for count, noun, word in counts if count]
    return f"{why_stopped(fleet.home) or 'no supervisor is running'}: {', '.join(parts)}" if parts else ""


def missing_logins_here(fleet: Fleet, settings: Settings, names: Iterable[str]) -> list[NoLogin]:
    """Return which of these coders seem to have no login, as the running supervisor sees it, or else this process.

    Leave out accounts that were used or parked: the coder itself has told whether it has a login.
    """
    note, known, wanted = holder(fleet.home), fleet.store.accounts.all(), {*names}
    if note is None:
        found = missing_logins(settings, wanted, os.environ, known)
    else:
        found = [NoLogin(*told) for told in note.get("no_login", ())]
    tried = {(each.coder, each.name) for each in known if each.used_at or each.parked_until}
    return [each for each in found if each.coder in wanted and (each.coder, each.account) not in tried]


def given_back(fleet: Fleet) -> list[Reason]:
    """Return why tasks wait that could not be started, the most frequent reason first."""
    reasons = Counter(task.reason for task in waiting(fleet.store))
    return [
        Reason(f"{reason} ({count_waiting(count)})", is_fault=NOT_INSTALLED in reason, is_partial=True)
        for reason, count in reasons.most_common(MOST_REASONS)
    ]


def passed_over(fleet: Fleet) -> int:
    """Return how many ready tasks the supervisor ignores because `create` or a similar command did not make them."""
    note = holder(fleet.home)
    if note is None or not note.get("only_made"):
        return 0
    return fleet.store.tasks.count(READY.replace(not_origins=MADE_HERE))[""]


def _causes(fleet: Fleet, ready: int, live: Sequence[Run]) -> list[Reason]:
    """Return why nothing more starts, and why live agents are not watched."""
    settings, is_served = settings_here(fleet.home), holder(fleet.home) is not None
    known = hosts(fleet) if ready or fleet.store.is_shared else []
    others_serve = not is_served and any(each.takes_work for each in known)
    found = []
    if not is_served and not others_serve and (why := unserved(fleet, live, ready)):
        found.append(Reason(why, "run `fleet run start`", is_fault=True))
    if not ready:
        return found
    seen = situation(fleet, settings, live)
    if others_serve:
        found += [PAUSE] if seen.paused else []  # other hosts do the work and know their own reasons
    else:
        found += _admission(
            fleet, settings, seen.replace(closed=[_drained(each) for each in known if _is_closed(each)])
        )
        found += _logins(fleet, settings, seen)
    if others := passed_over(fleet):
        why = f"the supervisor runs only tasks of `fleet create` ({count_waiting(others)})"
        found.append(Reason(why, "run `fleet run start`", is_fault=True, is_partial=others < ready))
    return found + unmet(fleet, known, ready)


def _admission(fleet: Fleet, settings: Settings, seen: Situation) -> list[Reason]:
    """Return why agents of the waiting tasks may not start, by the rules of admission."""
    found = []
    for mode in _waiting_modes(fleet, settings, seen):
        room = admit(settings, seen, mode)
        found += [_in_words(reason, seen, is_partial=bool(room.lanes)) for reason in room.reasons]
    return list(dict.fromkeys(found))


def _in_words(reason: str, seen: Situation, *, is_partial: bool) -> Reason:
    if reason == PAUSE.text:
        return PAUSE
    is_fault = any(why and why in reason for why in seen.coders.values()) or "min_free_" in reason
    return Reason(reason, is_fault=is_fault, is_partial=is_partial)


def _waiting_modes(fleet: Fleet, settings: Settings, seen: Situation) -> list[str]:
    """Return the modes to examine: headless, and others whose slots are full, as far as tasks of them wait."""
    busy = Counter(mode for (_, mode), count in seen.running.items() for _ in range(count))
    is_full = {INTERACTIVE: busy[INTERACTIVE] >= settings.limits.max_interactive, POOLED: busy[POOLED] >= seen.at_once}
    found = [HEADLESS] if _waits(fleet, HEADLESS) else []
    return found + [mode for mode in is_full if (is_full[mode] or not found) and _waits(fleet, mode)]


def _waits(fleet: Fleet, mode: str) -> bool:
    """Return True if a ready task has this mode."""
    where = READY.replace(modes=SPELLINGS[mode])
    if mode != INTERACTIVE:
        where = where.replace(origins=ORIGINS) if mode == POOLED else where.replace(not_origins=ORIGINS)
    return bool(fleet.store.tasks.find(where, sort="urgent", limit=1))


def _logins(fleet: Fleet, settings: Settings, seen: Situation) -> list[Reason]:
    names = [name for name, fault in seen.coders.items() if not fault]
    found = missing_logins_here(fleet, settings, names)
    return [Reason(each.why, f"log in with {each.coder}", is_fault=True, is_partial=len(names) > 1) for each in found]


def _untrusted(fleet: Fleet) -> list[Reason]:
    """Return the projects that blocked tasks need and that are not trusted."""
    found = fleet.store.tasks.find(BLOCKED, sort="updated", limit=MOST_TASKS)
    places = Counter(task.repo or task.cwd or "." for task in found if waits_for_trust(task.reason))
    return [
        Reason(
            f"{place} is not trusted ({count_waiting(count)})", f"run `fleet trust {shlex.quote(place)}`", True, True
        )
        for place, count in places.most_common(MOST_REASONS)
    ]


def waits_for_trust(reason: str) -> bool:
    """Return True if a task was blocked because its project or directory is not trusted."""
    return any(words in reason for words in (NOT_TRUSTED, TRUST_CHANGED))


def _is_closed(seen: HostView) -> bool:
    return seen.is_this and seen.host.drained_at is not None


def _drained(seen: HostView) -> str:
    return f"this host, {seen.host.name}, is drained; run `fleet hosts undrain {seen.host.name}` to let it take tasks"


def unmet(fleet: Fleet, known: Sequence[HostView], ready: int) -> list[Reason]:
    """Return why ready tasks with host requirements wait, the most frequent reason first."""
    waiting = fleet.store.tasks.find(READY.replace(requires=True), sort="id", limit=MOST_TASKS)
    reasons = Counter(why_not(task.requires, known) for task in waiting)
    found = [(reason, count) for reason, count in reasons.most_common() if reason]
    is_partial = sum(count for _, count in found) < ready
    return [Reason(f"{why} ({count_waiting(count)})", is_partial=is_partial) for why, count in found[:MOST_REASONS]]


def why_not(requires: str, known: Sequence[HostView]) -> str:
    """Return why no host takes a task with these requirements. Return "" if a host takes it. Pure."""
    words = parse_requirements(requires)
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
        return f"no reachable host offers {join_requirements(words)}: {', '.join(_standing(each) for each in able[:3])}"
    return _nobody(words, known)


def _nobody(words: Sequence[str], known: Sequence[HostView]) -> str:
    """Return why no known host, reachable or not, offers these words."""
    for word in words:
        if word.startswith(PIN) and not any(word in each.host.offers for each in known):
            name = format_requirement(word, ()).removeprefix(PIN)
            return f"the host that created it, {name}, is unknown" if is_of_home(word) else f"no host is called {name}"
    missing = [word for word in words if not any(word in each.host.offers for each in known)]
    if missing:
        return f"no host offers {join_requirements(missing)}"
    pins = [word for word in words if word.startswith(PIN)]
    if pins:
        called = [format_requirement(word, [each.host for each in known]) for word in pins]
        lacking = join_requirements(word for word in words if word not in pins)
        return f"{join_requirements(called)} does not offer {lacking}"
    return f"no host offers {join_requirements(words)} together"


def _standing(seen: HostView) -> str:
    if seen.state == HostState.GONE:
        return f"{seen.host.name} was last seen at {seen.host.seen_at.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{seen.host.name} is drained"


def count_waiting(count: int) -> str:
    return "1 task waits for it" if count == 1 else f"{count} tasks wait for it"
