"""Leases: a host that cannot renew a claim freezes the agent before another host may take the task.

For each task that is held, the fence knows until when it surely is: counted from the moment before the database was
asked, by a clock that nobody sets. It is a thread of its own, for the event loop and the thread of the store may both
be stuck in what keeps the database away. The shims have the same deadline, and need nobody to keep it: so a supervisor
that was killed is fenced as well.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.clock import machine_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.launchers.base import Launcher

log = logging.getLogger(__name__)

#: After which part of a claim's time its agent is frozen. The rest is for clocks that differ and threads that wait.
SHARE = 0.6
#: How often it is looked whose time is over.
LOOK_SECONDS = 0.2


class Held(NamedTuple):
    """A task that is held here."""

    until: float  # of the machine's clock
    launcher: Launcher | None = None  # none: its agent was not started yet
    place: str = ""
    frozen: bool = False
    lost: bool = False  # the database said that it is somebody else's


class Fence:
    """Freezes agents in time; what becomes of them then is decided elsewhere. Safe to use from any thread."""

    def __init__(self, *, clock: Callable[[], float] = machine_seconds) -> None:
        self._clock = clock
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fence", daemon=True)

    def now(self) -> float:
        """To be asked before the database is: what it confirms is counted from here."""
        return self._clock()

    def confirm(self, keys: Iterable[str], asked: float, seconds: float) -> None:
        """The database, asked at that moment, gave these tasks to us for so many seconds."""
        until = asked + SHARE * seconds
        with self._lock:
            for key in keys:
                held = self._held.get(key) or Held(until)
                if until >= held.until:  # an answer that comes late takes nothing back
                    self._held[key] = held._replace(until=until, frozen=False, lost=False)

    def guard(self, key: str, launcher: Launcher, place: str) -> None:
        """The agent of a task that is held lives there."""
        with self._lock:
            held = self._held.get(key) or Held(self._clock())
            self._held[key] = held._replace(launcher=launcher, place=place, frozen=False)

    def lose(self, keys: Iterable[str]) -> None:
        """The database says that these tasks are not ours any more."""
        with self._lock:
            for key in keys:
                if key in self._held:
                    self._held[key] = self._held[key]._replace(until=self._clock(), lost=True)

    def is_lost(self, key: str) -> bool:
        """Whether a task that was held is known to be somebody else's."""
        with self._lock:
            return key in self._held and self._held[key].lost

    def forget(self, key: str) -> None:
        """A task is not held any more, and nothing of its agent is left."""
        with self._lock:
            self._held.pop(key, None)

    def left(self, key: str) -> float:
        """For how many seconds its agent may go on."""
        with self._lock:
            held = self._held.get(key)
        return held.until - self._clock() if held is not None else 0.0

    def is_closed(self, key: str) -> bool:
        """Whether it is not sure any more that a task is ours: its agent stands still, or soon will."""
        return self.left(key) <= 0

    def begin(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def end(self) -> None:
        """Watch no more; the shims go on watching."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Freeze every agent whose time is over; one that could not be is tried again at the next look."""
        for launcher, due in self._due().items():
            done = launcher.freeze(due.keys())
            frozen = [key for place, key in due.items() if place in done]
            with self._lock:
                for key in frozen:
                    held = self._held.get(key)
                    if held is not None and held.until <= self._clock():
                        self._held[key] = held._replace(frozen=True)
            if frozen:
                log.warning("frozen until it is known whether it is still ours: %s", ", ".join(sorted(frozen)))

    def _due(self) -> dict[Launcher, dict[str, str]]:
        """The places of agents to be frozen and whose they are, by their launcher."""
        now = self._clock()
        due: dict[Launcher, dict[str, str]] = {}
        with self._lock:
            for key, held in self._held.items():
                if held.launcher is not None and not held.frozen and held.until <= now:
                    due.setdefault(held.launcher, {})[held.place] = key
        return due

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:  # the fence's own bulkhead: the next look tries again
                log.exception("freezing failed")
