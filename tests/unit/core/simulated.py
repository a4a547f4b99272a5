"""Agents of a simulated fleet, whose fate is chosen at their start."""

from datetime import datetime, timedelta

from fleet.core.task import HEADLESS, INTERACTIVE, Claim
from fleet.core.watchdog import Facts

SECOND = timedelta(seconds=1)
# The frequency of each fate of a run. Only a watchdog ends the runs of the second line.
FATES = {
    **{"finished": 50, "incomplete": 8, "failed": 10, "rate_limited": 8, "blocked": 4, "lost": 4, "cancelled": 1},
    **{"context_full": 4, "start_hang": 2, "stalled": 2, "hung_after_result": 3, "timed_out": 1, "over_budget": 1},
}
WATCHED = ("context_full", "start_hang", "stalled", "hung_after_result", "timed_out", "over_budget")
FAILURES = ("failed", "start_hang", "stalled", "timed_out", "over_budget")
CURSES = ("incomplete", "context_full", "lost", "rate_limited", "failed")
WINDOW = 200_000


class Agent:
    """A live agent and its fate."""

    def __init__(self, claim: Claim, coder: str, fate: str, lasts: timedelta, now: datetime) -> None:
        self.task, self.coder, self.mode = claim.task, coder, claim.task.mode or HEADLESS
        self.fate, self.started_at, self.turns_at = fate, now, now + lasts
        self.life = 0  # the life of the supervisor that started it

    def facts(self, now: datetime) -> Facts:
        """Return the observable facts about the agent."""
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
