"""Events: what an agent said or did, in fleet's words."""

from __future__ import annotations

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


class Kind:
    """What an event is about."""

    SESSION_STARTED = "session_started"
    TEXT = "text"
    THINKING = "thinking"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    USAGE = "usage"
    LIMIT = "limit"
    CONTEXT_FULL = "context_full"  # the coder cannot go on: nothing more fits into its context
    DENIED = "denied"  # a tool was not allowed, and `tool` names it
    DELIVERED = "delivered"  # a message written to its stdin has reached the model
    ERROR = "error"  # the coder complains; the run may go on
    RESULT = "result"  # the coder's own last word: `ok` says whether it is without error


class Usage(Record):
    """Tokens of a run: to be added, or, with `total`, all so far; with `session` also those of its earlier runs.

    With `either`, versions of the coder differ in that, and the numbers show it; the cost beside them spans the same.
    A coder that tells the usage of one message several times names the message: the last telling counts.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: bool = False
    session: bool = False
    either: bool = False
    turn: int = 0  # of such a total: what its last turn alone sent to the main model, caches included
    message: str = ""
    model: str = ""  # the one that used them, where that is told


class Limit(Record):
    """An account's limit, as the coder told it."""

    #: rate: too many requests just now; plan: the subscription is used up; overload: the other side is; auth: no login;
    #: budget: it was told to cost no more, which is no limit of the account
    #: warning: nearly used up, and nothing is refused yet
    kind: str
    resets_at: datetime | None = None
    text: str = ""


class Gauge(Record):
    """How much of one window of an account's quota is used, as the coder told it."""

    window: str  # by its length: 5h, 7d; with what it is of, where it is not of everything
    used_pct: float | None = None
    resets_at: datetime | None = None


class Event(Record):
    """One thing an agent said or did."""

    kind: str
    text: str = ""
    delta: bool = False  # the text goes on where the text before it ended
    tool: str = ""
    tool_id: str = ""
    data: dict[str, Any] = {}  # noqa: RUF012 - a tool's input, or whatever else is worth keeping
    session: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None  # of the whole run so far
    cost_added: float | None = None  # what this step alone cost, to be added
    context: int | None = None  # tokens in the model's context now
    window: int | None = None  # how many fit
    limit: Limit | None = None
    gauges: tuple[Gauge, ...] = ()
    ok: bool | None = None
