"""Leases: a host that cannot renew a claim freezes the agent before another host may take the task.

The fence knows for each held task until when the claim is certain. That time starts the moment before the database was
asked, on a clock that cannot be set. The fence has its own thread: a problem that makes the database unreachable can
also block the event loop and the store's thread. The shims know the same deadline and freeze their agents themselves,
so a killed supervisor is fenced as well.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.clock import machine_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.agents.base import Launcher

log = logging.getLogger(__name__)

#: Share of a claim's time after which its agent is frozen. The rest allows for different clocks and waiting threads.
SHARE = 0.6
#: How often to look for claims that have expired.
LOOK_SECONDS = 0.2


class Held(NamedTuple):
    """A task that this host holds."""

    until: float  # by the machine's clock
    launcher: Launcher | None = None  # None if the agent has not started yet
    place: str = ""
    frozen: bool = False
    lost: bool = False  # True if the database gave the task to another host


class Fence:
    """A thread that freezes agents in time. Other code decides what happens to them. Safe to use from any thread."""

    def __init__(self, *, clock: Callable[[], float] = machine_seconds) -> None:
        self._clock = clock
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fence", daemon=True)

    def now(self) -> float:
        """Return the time from which a confirmation counts. Call this method before asking the database."""
        return self._clock()

    def confirm(self, keys: Iterable[str], asked: float, seconds: float) -> None:
        """Note that the database, asked at `asked`, granted these tasks to this host for `seconds`."""
        until = asked + SHARE * seconds
        with self._lock:
            for key in keys:
                held = self._held.get(key) or Held(until)
                if until >= held.until:  # a late answer shortens nothing
                    self._held[key] = held._replace(until=until, frozen=False, lost=False)

    def guard(self, key: str, launcher: Launcher, place: str) -> None:
        """Freeze the agent at `place` when the claim of its task expires."""
        with self._lock:
            held = self._held.get(key) or Held(self._clock())
            self._held[key] = held._replace(launcher=launcher, place=place, frozen=False)

    def lose(self, keys: Iterable[str]) -> None:
        """Note that the database gave these tasks to another host."""
        with self._lock:
            for key in keys:
                if key in self._held:
                    self._held[key] = self._held[key]._replace(until=self._clock(), lost=True)

    def is_lost(self, key: str) -> bool:
        """Return True if this host held a task and the database gave it to another host."""
        with self._lock:
            return key in self._held and self._held[key].lost

    def forget(self, key: str) -> None:
        """Stop watching a task that this host no longer holds and that has no agent."""
        with self._lock:
            self._held.pop(key, None)

    def left(self, key: str) -> float:
        """Return how many seconds the agent of a task may continue."""
        with self._lock:
            held = self._held.get(key)
        return held.until - self._clock() if held is not None else 0.0

    def is_closed(self, key: str) -> bool:
        """Return True if the claim of a task is not certain: its agent is frozen or will be soon."""
        return self.left(key) <= 0

    def begin(self) -> None:
        """Start watching."""
        self._thread.start()

    def end(self) -> None:
        """Stop watching. The shims continue to watch."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Freeze every agent whose claim has expired.

        An agent that could not be frozen is tried again at the next look.
        """
        for launcher, due in self._due().items():
            done = launcher.freeze(due.keys())
            frozen = [key for place, key in due.items() if place in done]
            with self._lock:
                for key in frozen:
                    held = self._held.get(key)
                    if held is not None and held.until <= self._clock():
                        self._held[key] = held._replace(frozen=True)
            if frozen:
                log.warning("frozen until its claim is confirmed: %s", ", ".join(sorted(frozen)))

    def _due(self) -> dict[Launcher, dict[str, str]]:
        """Return the agents to freeze, by launcher: the place of each, with its task."""
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
            except Exception:  # the thread must survive: the next look tries again
                log.exception("freezing failed")
