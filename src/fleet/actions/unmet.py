"""What waiting tasks require of a host, and why none can give it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleet.actions.hosts import State
from fleet.core.filter import READY
from fleet.core.host import PIN, is_of_home, named, required
from fleet.core.host_words import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.actions.hosts import Seen
    from fleet.assembly import Fleet

#: So many tasks are looked at, and so many reasons told.
MOST_TASKS, MOST_REASONS = 1000, 5
_NO_WORDS = "nobody can offer what is no list of words: see `fleet.requires` in the metadata"


def unmet(fleet: Fleet, known: Sequence[Seen]) -> list[str]:
    """Why ready tasks wait that require something of a host, the most frequent reason first."""
    waiting = fleet.store.tasks.find(READY.replace(requires=True), sort="id", limit=MOST_TASKS)
    reasons = Counter(why_not(task.requires, known) for task in waiting)
    found = [(reason, count) for reason, count in reasons.most_common() if reason]
    return [f"{reason} ({count_waiting(count)})" for reason, count in found[:MOST_REASONS]]


def why_not(requires: str, known: Sequence[Seen]) -> str:
    """Why no host takes a task that requires this; empty where one does. Pure."""
    words = required(requires)
    if words is None:
        return _NO_WORDS
    wanted = set(words)
    able = [each for each in known if wanted <= set(each.host.offers)]
    if any(each.takes_work for each in able):
        return ""
    if any(map(is_of_home, words)):  # what it was called before does not matter
        able = sorted(able, key=lambda each: each.host.seen_at)[-1:]
    if len(able) == 1:
        return f"host {_standing(able[0])}"
    if able:
        return f"no host that is here offers {plain(words)}: {', '.join(_standing(each) for each in able[:3])}"
    return _nobody(words, known)


def _nobody(words: Sequence[str], known: Sequence[Seen]) -> str:
    """Why no host at all has these words, here or not."""
    for word in words:
        if word.startswith(PIN) and not any(word in each.host.offers for each in known):
            name = named(word, ()).removeprefix(PIN)
            return f"no host is known where it was made, on {name}" if is_of_home(word) else f"no host is called {name}"
    missing = [word for word in words if not any(word in each.host.offers for each in known)]
    if missing:
        return f"no host offers {plain(missing)}"
    pins = [word for word in words if word.startswith(PIN)]
    if pins:
        called = [named(word, [each.host for each in known]) for word in pins]
        return f"{plain(called)} does not offer {plain(word for word in words if word not in pins)}"
    return f"no host offers {plain(words)} together"


def _standing(seen: Seen) -> str:
    if seen.state == State.GONE:
        return f"{seen.host.name} was not seen since {seen.host.seen_at.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{seen.host.name} is drained"


def count_waiting(count: int) -> str:
    return "1 task waits for it" if count == 1 else f"{count} tasks wait for it"
