"""An agent's deadline: the agent is frozen at its end, until its task is confirmed and the deadline extended.

Deadlines are set only if several hosts share a queue. The caller passes the remaining seconds and the time on the
machine's clock when it counted them. So a delayed message gives no additional time.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.launchers.shim.tree import Tree

#: How often a tree with a deadline is checked. Kernel waits do not count the time during which a machine slept.
LOOK_SECONDS = 1.0
#: No message is delayed longer. A greater difference means two different clocks.
LONGEST_WAY = 600.0
#: A clock that cannot be set. It also runs while the machine sleeps, if the system has such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Return the seconds of the machine's own clock, which is the same for every process."""
    return time.clock_gettime(_CLOCK)


class Deadline:
    """The deadline of one tree, and its freeze times."""

    def __init__(self, tree: "Tree") -> None:
        self._tree = tree
        self._at: float | None = None
        self._look_at: float | None = None
        self._since: float | None = None  # frozen since then; None: not frozen
        self._before = 0.0  # seconds frozen before that

    @property
    def is_frozen(self) -> bool:
        return self._since is not None

    @property
    def frozen_seconds(self) -> float:
        """Return how long the tree has been frozen in total."""
        return self._before + (clock() - self._since if self._since is not None else 0.0)

    def state(self) -> "dict[str, object]":
        return {"fenced": self._at is not None or self.is_frozen, "frozen": round(self.frozen_seconds, 3)}

    def put_off(self, seconds: float, counted_at: float | None = None) -> None:
        """Let the tree run for `seconds`, counted from `counted_at`. Freeze it if none are left."""
        now = clock()
        if counted_at is not None and 0 < now - counted_at < LONGEST_WAY:
            seconds -= now - counted_at
        if not seconds > 0:
            self.freeze()
            return
        self._at = now + seconds
        self._thaw()
        self._look_at = now + min(seconds, LOOK_SECONDS)

    def lift(self) -> None:
        """Let the tree run without limit."""
        self._at = self._look_at = None
        self._thaw()

    def freeze(self) -> int:
        """Freeze the tree until it gets more time. Return how many of its processes still move."""
        now = clock()
        self._since = now if self._since is None else self._since
        self._look_at = now + LOOK_SECONDS
        return self._tree.freeze()

    def keep(self) -> None:
        """Freeze a tree whose deadline has passed. Refreeze a frozen tree that something has resumed."""
        now = clock()
        if self._look_at is None or now < self._look_at:
            return
        if self.is_frozen or (self._at is not None and now >= self._at):
            self.freeze()
        elif self._at is not None:
            self._look_at = now + min(self._at - now, LOOK_SECONDS)

    def pause(self) -> float | None:
        """Return the seconds until the next check. Return None if no check is due."""
        return None if self._look_at is None else max(0.0, self._look_at - clock())

    def _thaw(self) -> None:
        if self._since is not None:
            self._before, self._since = self.frozen_seconds, None
            self._tree.thaw()
