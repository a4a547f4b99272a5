"""How long an agent may go on without word that its task is still its own: past that it stands still until there is.

Only where several hosts share a queue is a deadline ever set. Whoever sets it tells the seconds that are left and the
moment of the machine's clock at which he counted them, so that a word that was long on its way gives no more time.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.launchers.shim.tree import Tree

#: How often a tree that has a deadline is looked at. A wait of the kernel does not count the time that a machine slept.
LOOK_SECONDS = 1.0
#: No word is longer on its way; a greater difference is one between two clocks.
LONGEST_WAY = 600.0
#: The clock that nobody sets, and that goes on while the machine sleeps, where there is one.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds of the machine's own clock: the same for every process."""
    return time.clock_gettime(_CLOCK)


class Deadline:
    """The deadline of one tree, and how long it has been frozen."""

    def __init__(self, tree: "Tree") -> None:
        self._tree = tree
        self._at: float | None = None
        self._look_at: float | None = None
        self._since: float | None = None  # frozen since; none: it goes on
        self._before = 0.0  # how long it was frozen before that

    @property
    def is_frozen(self) -> bool:
        return self._since is not None

    @property
    def frozen_seconds(self) -> float:
        """How long it has stood still in all."""
        return self._before + (clock() - self._since if self._since is not None else 0.0)

    def state(self) -> "dict[str, object]":
        return {"fenced": self._at is not None or self.is_frozen, "frozen": round(self.frozen_seconds, 3)}

    def put_off(self, seconds: float, counted_at: float | None = None) -> None:
        """Let the tree go on for so many seconds from then; with none left it is frozen."""
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
        """Let the tree go on for ever."""
        self._at = self._look_at = None
        self._thaw()

    def freeze(self) -> int:
        """Stop the tree until it is given time again; how many of it could not be stopped yet."""
        now = clock()
        self._since = now if self._since is None else self._since
        self._look_at = now + LOOK_SECONDS
        return self._tree.freeze()

    def keep(self) -> None:
        """Freeze a tree whose time is over; one that is frozen stays so, whoever set it going."""
        now = clock()
        if self._look_at is None or now < self._look_at:
            return
        if self.is_frozen or (self._at is not None and now >= self._at):
            self.freeze()
        elif self._at is not None:
            self._look_at = now + min(self._at - now, LOOK_SECONDS)

    def pause(self) -> float | None:
        """How many seconds there is nothing to look at; none: for ever."""
        return None if self._look_at is None else max(0.0, self._look_at - clock())

    def _thaw(self) -> None:
        if self._since is not None:
            self._before, self._since = self.frozen_seconds, None
            self._tree.thaw()
