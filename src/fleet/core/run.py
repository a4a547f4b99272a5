"""Runs: single attempts of a coder at a task, and how they ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from fleet.core.jsontext import decode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class Ending:
    """The words for how a run ended."""

    FINISHED = "finished"  # the coder reported success, and results exist
    INCOMPLETE = "incomplete"  # it ended normally but did not finish
    FAILED = "failed"
    BLOCKED = "blocked"  # the agent asked a question
    CANCELLED = "cancelled"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"  # the model's service is overloaded, which is not the agent's fault
    NOT_LOGGED_IN = "not_logged_in"  # the account needs a person
    CONTEXT_FULL = "context_full"
    TIMED_OUT = "timed_out"  # wall-clock limit
    STALLED = "stalled"  # silent for too long
    START_HANG = "start_hang"  # it never produced output
    HUNG_AFTER_RESULT = "hung_after_result"  # finished, but its process did not exit
    OVER_BUDGET = "over_budget"  # in tokens or money
    LOST = "lost"  # it vanished with its shim
    INTERRUPTED = "interrupted"  # a person made it stop its current work
    RELEASED = "released"  # given back because the supervisor stopped, which is not the agent's fault


class Outcome(Record):
    """How a run ended, as input for the policy."""

    ending: str
    reason: str = ""
    limit: str = ""  # the kind of limit it met: rate, plan, overload or auth
    resume_at: datetime | None = None  # when a limit ends
    handed_in: bool = False  # by `bd close` or result.json
    tool_calls: int = 0
    formalities: int = 0  # tool calls that only hand in
    exit_status: int | None = None
    exit_signal: int | None = None
    finding: str = ""  # the conclusion of the receipt
    shown: str = ""  # its explanation, in words
    says_blocked: str = ""  # why another run would fail too: the agent reported it, or the workspace is gone


#: What the cost of a run is based on. A computed cost also names its prices: the date of fleet's table, or "settings".
REPORTED, COMPUTED, UNKNOWN = "reported", "computed", "unknown"


#: The note about when a silent agent will be stopped: that time, the ending, and when this was noted.
STOP_NOTE = "stop"

#: Coders round the time at which a window resets.
RESET_SLACK = timedelta(minutes=5)


class Run(Record):
    """One attempt, as the history stores it."""

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
    home: str = ""  # the home whose folder holds it, on the host of its owner
    branch: str = ""
    base_commit: str = ""
    started_at: datetime
    first_event_at: datetime | None = None
    last_event_at: datetime | None = None
    result_at: datetime | None = None  # when the coder's final event was seen
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
    cost_basis: str = ""  # reported, computed:<prices>, or unknown (the cost is then a lower bound); "": no tokens yet
    context_peak: int | None = None
    context_window: int | None = None
    stdout_offset: int = 0  # the offset up to which its output was folded into this record
    stderr_offset: int = 0
    folded: str = "{}"  # the remaining state of the fold, as JSON
    session_name: str = ""  # of its terminal; "" for a headless run
    screen: str = ""  # the state of its terminal: see `coders.base`
    cpu_pct: float | None = None  # of all its processes, at the last sample
    rss_kb: int | None = None
    diff_files: int | None = None  # from its base commit to its worktree
    diff_added: int | None = None
    diff_removed: int | None = None
    sampled_at: datetime | None = None  # when the five fields above were sampled
    leftover: str = ""  # the commit that fleet made of uncommitted work
    verify: str = ""  # the result of the verification at its branch's tip, as JSON; "" if none was made
    flags: str = "[]"  # descriptions of suspicious behavior, as JSON
    spawn: str = ""  # what was started, and the state before, as JSON

    @property
    def is_live(self) -> bool:
        return self.ended_at is None

    @property
    def notes(self) -> dict[str, Any]:
        """Return the folded facts without their own field; see `engine.fold`."""
        found: dict[str, Any] = decode(self.folded)
        return found

    @property
    def planned_stop(self) -> tuple[datetime, str] | None:
        """Return when its silent agent will be stopped, and the ending. Return None if the agent is not silent."""
        if not self.is_live or STOP_NOTE not in self.notes:
            return None
        at, ending, noted_at = self.notes[STOP_NOTE]
        if self.last_event_at is not None and self.last_event_at > datetime.fromisoformat(noted_at):
            return None
        return datetime.fromisoformat(at), ending

    @property
    def context_is_estimated(self) -> bool:
        """Return True if no report told how full its context is."""
        return bool(self.notes.get("estimated"))

    @property
    def flagged(self) -> list[str]:
        """Return descriptions of suspicious behavior."""
        found: list[str] = decode(self.flags)
        return found

    @property
    def prices(self) -> str:
        """Return the prices from which its cost was computed, or ""."""
        return self.cost_basis.partition(":")[2]

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


class Spent(Record):
    """What all runs of a task used together. Live runs count up to now."""

    task_id: str
    runs: int = 1
    tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0  # runs whose cost is unknown or a lower bound
    computed: int = 0  # runs whose cost fleet computed
    seconds: float = 0.0

    @property
    def cost_basis(self) -> str:
        """Return REPORTED, COMPUTED, or UNKNOWN if the cost is a lower bound. Return "" if nothing was used."""
        if self.unpriced:
            return UNKNOWN
        if self.cost_usd is None:
            return ""
        return COMPUTED if self.computed else REPORTED


def spent_by(run: Run, now: datetime) -> Spent:
    """Return the totals of a task with a single run."""
    usd, basis = total_cost([run])
    seconds = max(0.0, ((run.ended_at or now) - run.started_at).total_seconds())
    told = {"unpriced": int(basis == UNKNOWN), "computed": int(basis == COMPUTED)}
    return Spent(task_id=run.task_id, tokens=run.tokens, cost_usd=usd, seconds=seconds, **told)


def total_cost(runs: Iterable[Run]) -> tuple[float | None, str]:
    """Return the total cost of runs and its basis, which is UNKNOWN if any cost is unknown."""
    spent = [run for run in runs if run.tokens or run.cost_usd is not None]
    known = [run.cost_usd for run in spent if run.cost_usd is not None]
    if len(known) < len(spent) or any(run.cost_basis == UNKNOWN for run in spent):
        basis = UNKNOWN
    else:
        basis = COMPUTED if any(run.prices for run in spent) else REPORTED
    return (sum(known) if known else None), basis if spent else ""


#: The source of a question whose asking agent is live and waits for the answer.
BY_TOOL = "tool"


class Question(Record):
    """A question of an agent to a person. The first answer wins."""

    id: str
    task_id: str
    run_id: str = ""
    asked_at: datetime
    text: str
    source: str = ""  # file, status or tool
    answer: str | None = None
    answered_at: datetime | None = None  # when it was answered or withdrawn
    answered_by: str = ""

    @property
    def is_withdrawn(self) -> bool:
        """Return True if it was withdrawn without an answer, because its work was cancelled."""
        return self.answered_at is not None and self.answer is None

    @property
    def end_in_words(self) -> str:
        """Return who answered it, or that it was withdrawn."""
        return "withdrawn" if self.is_withdrawn else f"answered by {self.answered_by}"


def limit_reason(kind: str) -> str:
    """Return the beginning of the reason of a run that met a limit of this kind."""
    return f"{kind} limit"


class Account(Record):
    """A subscription or key of a coder, with its limits. A limit parks the account, never a task."""

    coder: str
    name: str = ""
    max_running: int | None = None
    parked_until: datetime | None = None
    parked_reason: str = ""
    strikes: int = 0  # how often in a row it was refused for too many requests
    used_at: datetime | None = None  # when a run last began with it


class AccountTotal(Record):
    """What the ended runs of one account consumed in total. An empty account name is the coder's own login."""

    coder: str
    account: str = ""
    runs: int = 0
    tokens: int = 0
    cost_usd: float = 0.0  # as far as coders reported it


class Quota(Record):
    """The last observed use of one window of an account's quota."""

    coder: str
    account: str = ""
    span: str  # 5h, 7d …
    used_pct: float | None = None
    resets_at: datetime | None = None
    seen_at: datetime

    def is_stale(self, now: datetime) -> bool:
        """Return True if the window has reset since, so that its current use is unknown."""
        return self.resets_at is not None and self.resets_at <= now

    def then(self, later: Quota) -> Quota:
        """Return this quota updated by a later observation.

        Fields that the later one lacks keep their value, unless the window has reset.
        """
        if later.seen_at < self.seen_at:
            return self
        before, after = self.resets_at, later.resets_at
        if self.is_stale(later.seen_at) or (before and after and after > before + RESET_SLACK):
            return later
        used = self.used_pct if later.used_pct is None else later.used_pct
        return later.replace(used_pct=used, resets_at=later.resets_at or self.resets_at)


class Delivery:
    """The words for the progress of a message to an agent. The last two are final."""

    QUEUED = "queued"
    SENT = "sent"  # written to the agent
    DELIVERED = "delivered"  # seen in its stream
    CARRIED = "carried"  # included in the next run's prompt instead


class Message(Record):
    """A message to a working agent. The times are stored; the state follows from them."""

    id: str
    task_id: str
    run_id: str = ""  # the last run that it was sent to
    author: str = ""
    text: str
    interrupts: bool = False  # the agent stops its current work for it
    queued_at: datetime
    sent_at: datetime | None = None
    delivered_at: datetime | None = None
    carried_at: datetime | None = None

    @property
    def is_prompt(self) -> bool:
        """Return True if it is the first prompt of a run in a terminal. Its id is then that of the run."""
        return self.id.startswith(f"{self.task_id}/")

    @property
    def state(self) -> str:
        if self.delivered_at is not None:
            return Delivery.DELIVERED
        if self.carried_at is not None:
            return Delivery.CARRIED
        return Delivery.QUEUED if self.sent_at is None else Delivery.SENT

    def marked(self, state: str, at: datetime, run_id: str) -> Message:
        """Return the message advanced to a state in a run. Unchanged if that is no step forward."""
        if _WAY[state] <= _WAY[self.state]:
            return self
        return self.replace(run_id=run_id, **{f"{state}_at": at})


_WAY = {Delivery.QUEUED: 0, Delivery.SENT: 1, Delivery.DELIVERED: 2, Delivery.CARRIED: 2}
