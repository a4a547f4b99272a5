"""A run: one attempt of one coder at one task, and how it ended."""

from __future__ import annotations

from datetime import timedelta

from fleet.core.jsontext import decode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Any


class Ending:
    """The words for how a run ended."""

    FINISHED = "finished"  # the coder said so without error, and there is something to show for it
    INCOMPLETE = "incomplete"  # it ended well, but without having finished
    FAILED = "failed"
    BLOCKED = "blocked"  # the agent asks a person
    CANCELLED = "cancelled"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"  # the model's service is: nobody's fault
    NOT_LOGGED_IN = "not_logged_in"  # the account needs a person
    CONTEXT_FULL = "context_full"
    TIMED_OUT = "timed_out"  # wall clock
    STALLED = "stalled"  # silent for too long
    START_HANG = "start_hang"  # never said a word
    HUNG_AFTER_RESULT = "hung_after_result"  # finished, but did not end by itself
    OVER_BUDGET = "over_budget"  # tokens or money
    LOST = "lost"  # it vanished with its shim
    INTERRUPTED = "interrupted"  # a person had it stop what it was doing
    RELEASED = "released"  # given back because the supervisor stopped: nobody's fault


class Outcome(Record):
    """How a run ended, as data for the policy."""

    ending: str
    reason: str = ""
    limit: str = ""  # which kind of limit it met: rate, plan, overload or auth
    resume_at: datetime | None = None  # when a limit ends
    handed_in: bool = False  # `bd close` or result.json
    tool_calls: int = 0
    formalities: int = 0  # tool calls that only hand in
    exit_status: int | None = None
    exit_signal: int | None = None
    finding: str = ""  # what the receipt shows
    shown: str = ""  # and by what, in words
    says_blocked: str = ""  # why another run would meet the same: its agent handed that in, or its place is gone


#: What the cost of a run is based on. A computed one also names its prices: the day of fleet's table, or "settings".
REPORTED, COMPUTED, UNKNOWN = "reported", "computed", "unknown"


#: Coders round the moment at which a window begins again.
RESET_SLACK = timedelta(minutes=5)


class Run(Record):
    """One attempt, as the history keeps it."""

    id: str  # task/number
    task_id: str
    number: int
    epoch: int
    owner: str
    launcher: str = ""
    containment: str = ""
    coder: str = ""
    model: str = ""
    account: str = ""
    session: str = ""
    workspace: str = ""
    home: str = ""  # the home in whose folder it lies, on the host of its owner
    branch: str = ""
    base_commit: str = ""
    started_at: datetime
    first_event_at: datetime | None = None
    last_event_at: datetime | None = None
    result_at: datetime | None = None  # when the coder's terminal event was seen
    ended_at: datetime | None = None
    ending: str = ""
    reason: str = ""
    resume_at: datetime | None = None
    exit_status: int | None = None
    exit_signal: int | None = None
    finding: str = ""
    receipt: str = ""
    events: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    cost_basis: str = ""  # reported, computed:<prices>, unknown: then the cost is at least so much; none: no tokens yet
    context_peak: int | None = None
    context_window: int | None = None
    stdout_offset: int = 0  # up to where its output was folded into this record
    stderr_offset: int = 0
    folded: str = "{}"  # what else the fold needs to go on: JSON
    session_name: str = ""  # of its terminal; none for a headless one
    screen: str = ""  # what its terminal shows: see `coders.base`
    cpu_pct: float | None = None  # of all its processes, when they were last looked at
    rss_kb: int | None = None
    diff_files: int | None = None  # from its base commit to its worktree
    diff_added: int | None = None
    diff_removed: int | None = None
    sampled_at: datetime | None = None  # when the five above were taken
    leftover: str = ""  # the commit that fleet made of what was left
    verify: str = ""  # how the check at its branch's tip went: JSON; none was made
    flags: str = "[]"  # words for what is suspicious about it: JSON
    spawn: str = ""  # what was started, and what there was before: JSON

    @property
    def is_live(self) -> bool:
        return self.ended_at is None

    @property
    def notes(self) -> dict[str, Any]:
        """What is folded from its output and has no field of its own; see `engine.fold`."""
        found: dict[str, Any] = decode(self.folded)
        return found

    @property
    def context_is_estimated(self) -> bool:
        """Whether nobody told how full its context is."""
        return bool(self.notes.get("estimated"))

    @property
    def flagged(self) -> list[str]:
        """What is suspicious about it, in words."""
        found: list[str] = decode(self.flags)
        return found

    @property
    def prices(self) -> str:
        """Which prices its cost was computed from, if it was."""
        return self.cost_basis.partition(":")[2]

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


def total_cost(runs: Iterable[Run]) -> tuple[float | None, str]:
    """What runs cost together, and what that is based on: unknown where one of them spent nobody knows what."""
    spent = [run for run in runs if run.tokens or run.cost_usd is not None]
    known = [run.cost_usd for run in spent if run.cost_usd is not None]
    if len(known) < len(spent) or any(run.cost_basis == UNKNOWN for run in spent):
        basis = UNKNOWN
    else:
        basis = COMPUTED if any(run.prices for run in spent) else REPORTED
    return (sum(known) if known else None), basis if spent else ""


#: The source of a question whose asker lives, and waits for the answer.
BY_TOOL = "tool"


class Question(Record):
    """What an agent asks a person; the first answer wins."""

    id: str
    task_id: str
    run_id: str = ""
    asked_at: datetime
    text: str
    source: str = ""  # file, status or tool
    answer: str | None = None
    answered_at: datetime | None = None  # since when it waits for nobody
    answered_by: str = ""

    @property
    def is_withdrawn(self) -> bool:
        """Whether it waits for nobody, and nobody answered it: the work that it is about was cancelled."""
        return self.answered_at is not None and self.answer is None

    @property
    def end_in_words(self) -> str:
        """Who answered it, or that it was withdrawn."""
        return "withdrawn" if self.is_withdrawn else f"answered by {self.answered_by}"


class Account(Record):
    """One subscription or key of a coder, with its limits. A limit parks the account, never a task."""

    coder: str
    name: str = ""
    max_running: int | None = None
    parked_until: datetime | None = None
    parked_reason: str = ""
    strikes: int = 0  # how often in a row it met too many requests at once
    used_at: datetime | None = None  # when a run last began with it


class AccountTotal(Record):
    """What the ended runs of one account took in all; an empty account is the coder's own login."""

    coder: str
    account: str = ""
    runs: int = 0
    tokens: int = 0
    cost_usd: float = 0.0  # as far as the coder told it


class Quota(Record):
    """How much of one window of an account's quota was used when that was last seen."""

    coder: str
    account: str = ""
    span: str  # 5h, 7d …
    used_pct: float | None = None
    resets_at: datetime | None = None
    seen_at: datetime

    def is_stale(self, now: datetime) -> bool:
        """Return True if the window has begun again since: what is used of it now is not known."""
        return self.resets_at is not None and self.resets_at <= now

    def then(self, later: Quota) -> Quota:
        """Return this quota after a later word of it: what that leaves out stays, unless the window began again."""
        if later.seen_at < self.seen_at:
            return self
        before, after = self.resets_at, later.resets_at
        if self.is_stale(later.seen_at) or (before and after and after > before + RESET_SLACK):
            return later
        used = self.used_pct if later.used_pct is None else later.used_pct
        return later.replace(used_pct=used, resets_at=later.resets_at or self.resets_at)


class Delivery:
    """The words for how far a message to an agent has come; the last two are ends."""

    QUEUED = "queued"
    SENT = "sent"  # written to the agent
    DELIVERED = "delivered"  # seen in its stream
    CARRIED = "carried"  # part of the next run's prompt instead


class Message(Record):
    """What a working agent is told. Facts are kept; its state follows from them."""

    id: str
    task_id: str
    run_id: str = ""  # the run it went to last
    author: str = ""
    text: str
    interrupts: bool = False  # the agent stops what it is doing for it
    queued_at: datetime
    sent_at: datetime | None = None
    delivered_at: datetime | None = None
    carried_at: datetime | None = None

    @property
    def is_prompt(self) -> bool:
        """Return True if it is what the agent of a run in a terminal begins with: its id is that of the run."""
        return self.id.startswith(f"{self.task_id}/")

    @property
    def state(self) -> str:
        if self.delivered_at is not None:
            return Delivery.DELIVERED
        if self.carried_at is not None:
            return Delivery.CARRIED
        return Delivery.QUEUED if self.sent_at is None else Delivery.SENT

    def marked(self, state: str, at: datetime, run_id: str) -> Message:
        """This message further on its way, in a run; unchanged where that would be a step back, or it is at an end."""
        if _WAY[state] <= _WAY[self.state]:
            return self
        return self.replace(run_id=run_id, **{f"{state}_at": at})


_WAY = {Delivery.QUEUED: 0, Delivery.SENT: 1, Delivery.DELIVERED: 2, Delivery.CARRIED: 2}
