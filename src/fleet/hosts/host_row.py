"""This host's row in the queue, taken only if no other machine works under the same id."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fleet.core.errors import HostTaken
from fleet.engine.hosting import be_the_same, machine_mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.core.host import Host
    from fleet.engine.context import Context

log = logging.getLogger(__name__)


class HostRow:
    """The row of this host, which a clone of the machine may have taken. Call its methods where the store is called."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._before: tuple[Host, float] | None = None  # another machine's row, and when this host first saw it

    def take(self, tell: Callable[[int], None]) -> float:
        """Write the row by calling `tell` with no agents. Return 0, or the seconds to wait before the next try.

        Another machine may have written the row a short while ago. That machine may be at work, and its runs must not
        be touched. If it is at work, it writes the row again. If the row does not change, either this machine wrote it
        before a restart or its host is gone. Raises HostTaken.
        """
        context, store = self._context, self._context.store.ports
        with store.atomic():  # if two machines come at once, the second sees the first
            row = next((row for row in store.hosts.all() if row.id == context.owner), None)
            wait = 0.0 if row is None else self._seconds_to_wait(row)
            if not wait:
                if row is not None:
                    be_the_same(context.home, row)
                tell(0)
        return wait

    def _seconds_to_wait(self, row: Host) -> float:
        """Return how many seconds the row may not be taken. Raises HostTaken."""
        lease = self._context.settings.supervisor.claim_seconds
        age = (self._context.now() - row.seen_at).total_seconds()
        has_left = row.slots == 0 and row.agents == 0
        if row.machine in ("", machine_mark(self._context.home)) or has_left or age > lease:
            return 0.0
        if self._before is None:
            self._before = row, time.monotonic()
            words = "%s was told of a short while ago, from another machine or before this one was started anew; %s"
            log.warning(words, row.name, f"whoever that was is waited for, {lease:.0f} s at most")
        first, since = self._before
        if row.seen_at != first.seen_at:
            hint = "give each host a `[host] name` of its own, or say `--name`."
            raise HostTaken(f"another machine is at work as {row.name}, with a home at the same path", hint=hint)
        return max(0.0, min(lease - age, since + lease - time.monotonic()))  # also bounded by this machine's clock
