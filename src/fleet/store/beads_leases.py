"""The leases that a bd of the newer family gives with each claim: when each is to be renewed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: bd's leases last five minutes: each is renewed this often.
BEAT_EVERY = 100.0
#: How long one renewal may take: the claims themselves are the file's, and wait behind it.
LONGEST_BEAT = 20.0


class Leases:
    """When the lease of each task that we hold was last renewed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._beats: dict[str, float] = {}

    def renewed(self, task_id: str) -> None:
        """Note that bd has just given, or renewed, the lease of a task."""
        self._beats[task_id] = self._now()

    def due(self, held: Iterable[str]) -> list[str]:
        """Of all tasks that we hold, those to renew now, the longest unrenewed first.

        Each is a process, so it is a few at a time, and all that have waited for twice as long as they should. A task
        that nobody here renewed is another supervisor's that we took over: it is due.
        """
        now = self._now()
        self._beats = {key: self._beats.get(key, now - BEAT_EVERY) for key in held}
        due = sorted((key for key, at in self._beats.items() if now - at >= BEAT_EVERY), key=self._beats.__getitem__)
        few = max(2, len(self._beats) // 5)
        return [key for place, key in enumerate(due) if place < few or now - self._beats[key] >= 2 * BEAT_EVERY]
