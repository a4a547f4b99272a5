"""Notifications of a shared queue that something was written.

Several become one call on the loop, after a short delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Every host hears of the same task. A host that looks later finds the task claimed and does not wait for a lock.
JITTER_SECONDS = 0.05


class Hints:
    """A callable for any thread that calls `call` on the loop. Create it on the loop."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._pending = False

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        if not self._pending:
            self._pending = True
            self._loop.call_later(random.random() * JITTER_SECONDS, self._pass_on)

    def _pass_on(self) -> None:
        self._pending = False
        self._call()
