"""The parts of a simulated fleet: a quick queue, and agents whose fate is known beforehand."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from fleet.core.filter import Filter
from fleet.core.matching import _CONDITIONS
from fleet.core.task import HEADLESS, INTERACTIVE, Claim, Status, Task
from fleet.engine.watchdog import Facts
from fleet.store.memory import MemoryQueue

SECOND = timedelta(seconds=1)
# How often each thing happens to a run. Those in the second line only end because a watchdog sees them.
FATES = {
    **{"finished": 50, "incomplete": 8, "failed": 10, "rate_limited": 8, "blocked": 4, "lost": 4, "cancelled": 1},
    **{"context_full": 4, "start_hang": 2, "stalled": 2, "hung_after_result": 3, "timed_out": 1, "over_budget": 1},
}
WATCHED = ("context_full", "start_hang", "stalled", "hung_after_result", "timed_out", "over_budget")
FAILURES = ("failed", "start_hang", "stalled", "timed_out", "over_budget")
CURSES = ("incomplete", "context_full", "lost", "rate_limited", "failed")
WINDOW = 200_000


class QuickQueue(MemoryQueue):
    """The queue in memory with an index of what can be claimed, for the sake of 200 seeds."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self.open: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    def _put(self, task: Task) -> None:
        super()._put(task)
        self.open[task.coder, task.mode].pop(task.id, None)
        if task.status == Status.OPEN:
            self.open[task.coder, task.mode][task.id] = None

    def has_open(self, *modes: str) -> bool:
        """Whether a task of these modes waits."""
        return any(found and (mode or HEADLESS) in modes for (_, mode), found in self.open.items())

    def find(self, where: Filter, *, sort: str = "", reverse: bool = False, limit: int = 0) -> list[Task]:
        """Lanes alone are asked for here: the most urgent first."""
        now = self.now()
        asked = [(_CONDITIONS[name], wanted) for name, wanted in where.as_dict().items() if wanted is not None]
        kinds = [(coder, mode) for coder in where.coders or ("",) for mode in where.modes or ("",)]
        tasks = [self.get(key) for kind in kinds for key in self.open[kind]]
        found = [task for task in tasks if all(fits(task, wanted, now, self._kin) for fits, wanted in asked)]
        return sorted(found, key=lambda task: (task.priority, task.created_at, task.id))[:limit]

    def _kin(self, task_id: str) -> tuple[list[Task], list[Task]]:
        return [], []


class Agent:
    """A live agent, and what will become of it."""

    def __init__(self, claim: Claim, coder: str, fate: str, lasts: timedelta, now: datetime) -> None:
        self.task, self.coder, self.mode = claim.task, coder, claim.task.mode or HEADLESS
        self.fate, self.started_at, self.turns_at = fate, now, now + lasts
        self.life = 0  # which life of the supervisor started it

    def facts(self, now: datetime) -> Facts:
        """What can be seen of it."""
        turned = now >= self.turns_at
        quiet = turned and self.fate in ("stalled", "hung_after_result")
        return Facts(
            started_at=self.started_at,
            first_event_at=None if self.fate == "start_hang" else self.started_at + SECOND,
            last_output_at=self.turns_at if quiet else now,
            result_at=self.turns_at if turned and self.fate == "hung_after_result" else None,
            tokens=1_000_000 if turned and self.fate == "over_budget" else 1_000,
            context=WINDOW if turned and self.fate == "context_full" else 1_000,
            window=WINDOW,
            interactive=self.mode == INTERACTIVE,
        )
