"""Events: what an agent said or did, independent of its coder."""

from __future__ import annotations

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


class Kind:
    """The kinds of events."""

    SESSION_STARTED = "session_started"
    TEXT = "text"
    THINKING = "thinking"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    USAGE = "usage"
    LIMIT = "limit"
    CONTEXT_FULL = "context_full"  # the coder cannot continue because its context is full
    DENIED = "denied"  # a tool was not allowed; `tool` names it
    DELIVERED = "delivered"  # a message written to its stdin has reached the model
    ERROR = "error"  # the coder reports an error; the run may continue
    RESULT = "result"  # the coder's final result; `ok` is True if it has no error


class Usage(Record):
    """Tokens of a run: an increment, or with `total` the sum so far.

    With `session`, the sum includes earlier runs of the session. With `either`, versions of the coder differ in this,
    and the numbers show which it is; the cost of the same event covers the same span. A coder that reports the usage of
    one message several times names the message, and the last report counts.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: bool = False
    session: bool = False
    either: bool = False
    turn: int = 0  # for a total: tokens sent to the main model in the last turn, including caches
    message: str = ""
    model: str = ""  # the model that used them, if reported


class Limit(Record):
    """An account's limit, as the coder reported it."""

    #: rate: too many requests just now; plan: the subscription is used up; overload: the service is overloaded; auth:
    #: no login; budget: the cost limit of the run, which is no limit of the account; warning: nearly used up, but
    #: nothing is refused yet
    kind: str
    resets_at: datetime | None = None
    text: str = ""


class Gauge(Record):
    """The used share of one window of an account's quota, as the coder reported it."""

    window: str  # its length, such as 5h or 7d, and its subject if it does not cover everything
    used_pct: float | None = None
    resets_at: datetime | None = None


class Event(Record):
    """One thing that an agent said or did."""

    kind: str
    text: str = ""
    delta: bool = False  # the text continues the previous text
    tool: str = ""
    tool_id: str = ""
    data: dict[str, Any] = {}  # noqa: RUF012 - a tool's input, or other data worth keeping
    session: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None  # total cost of the run so far
    cost_added: float | None = None  # cost of this step only, to be added
    context: int | None = None  # tokens in the model's context now
    window: int | None = None  # size of the context in tokens
    limit: Limit | None = None
    gauges: tuple[Gauge, ...] = ()
    ok: bool | None = None
