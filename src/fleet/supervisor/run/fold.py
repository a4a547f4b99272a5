"""Fold events into a run. Pure: reading an agent's output twice gives the same record.

Facts that decide how the run ends and have no column are kept as notes in `Run.folded`:

    ok, said    the coder's result, as long as no event follows it
    text        the last text of the agent: the result of a coder whose result event has no text
    end         the end of that text
    asks        the end of the result, if the result asks the user something
    limit       the last limit that the coder met, unless the model answered after that
    handed_in   the object that a coder with an output schema returned in its result
    error       the last error message
    answered    the model produced output
    full        the coder reported that its context is full
    overflows   how often it reported that since its last tool call
    denied      tools that were not allowed
    formalities tool calls that only hand in, discuss the task or plan: see `engine.evidence.formalities`
    messages    the usage of the last few messages: some coders report it several times
    before      what the session had used and done when this run began: some coders continue counting after a resume
    told        the last total that the coder reported for this process or its session: tokens and cost
    base        the part of such a total that belongs to earlier runs, determined with the first total
    model       the coder's name of the model
    paid        the last reported cost, and the tokens that it covers
    apart       tokens since then, by request size and model, if these differ from the rest
    first       tokens in the context at the first request: what the coder loads before the prompt
    estimated   the coder does not report how full the context is
    cut         lines of output that were too long to be read whole
    strayed     what the agent's tools did outside of its bounds, in sentences: see `engine.scope.noting`
    shell       the directory its shell stayed in
    asked_before  how many questions Q&A.md had when this run began
    read        characters in the stream: an estimate of the context if the coder reports none
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.coders.refusals import resets_at
from fleet.core.event import Kind
from fleet.core.jsontext import encode
from fleet.core.outcome import LONGEST_QUESTION, question_in
from fleet.core.result_schema import HANDED_IN
from fleet.core.run import REPORTED
from fleet.proof.stream import is_formality

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Any

    from fleet.core.event import Event, Limit, Usage
    from fleet.core.run import Run

LONGEST_REASON, LONGEST_RESULT = 500, 64 * 1024
MOST_MESSAGES, MOST_DENIED = 8, 10
LARGEST = 2**53  # larger than any real count, and small enough for every database
TOKEN_KINDS = ("input", "output", "cache_read", "cache_write")
SENT = ("input", "cache_read", "cache_write")  # reported correctly with each request; output often comes late
#: Request sizes beyond which prices may differ, and how many pairs of size and model a run counts separately.
SIZES, MOST_APART = (512_000, 272_000, 200_000, 128_000, 100_000), 16
WARNING = "warning"

_ANSWERS = frozenset((Kind.TEXT, Kind.THINKING, Kind.TOOL_USE))


def fold(run: Run, events: Iterable[Event], at: datetime) -> Run:
    """Return the run after these events, which were read at the same time `at`."""
    folding = _Folding(run)
    for event in events:
        folding.take(event, at)
    return folding.run()


def going_on(run: Run, earlier: Run) -> Run:
    """Return a new run that resumes the session of an earlier run, whose tokens and cost are not counted again."""
    before = earlier.notes.get("before", {})
    total = {name: before.get(name, 0) + getattr(earlier, f"{name}_tokens") for name in TOKEN_KINDS}
    total["tool_calls"] = before.get("tool_calls", 0) + earlier.tool_calls
    total["formalities"] = before.get("formalities", 0) + earlier.notes.get("formalities", 0)
    total["cost"] = before.get("cost", 0.0) + (earlier.cost_usd or 0.0)
    told = {"told": earlier.notes["told"]} if "told" in earlier.notes else {}
    return run.replace(session=earlier.session, folded=encode(run.notes | {"before": total} | told))


class _Folding:
    """A run to which events are added. The record is rebuilt once for many events."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._new: dict[str, Any] = {}
        self._notes = run.notes

    def run(self) -> Run:
        if not self._new:
            return self._run
        return self._run.replace(**self._new, folded=encode(self._notes))

    def take(self, event: Event, at: datetime) -> None:
        self._new["events"] = self._get("events") + 1
        self._new["last_event_at"] = at
        if self._get("first_event_at") is None:
            self._new["first_event_at"] = at
        if event.session:
            self._new["session"] = event.session
        if event.kind in (Kind.SESSION_STARTED, Kind.USAGE) and event.data.get("model"):
            self._named(str(event.data["model"]))
        if event.kind == Kind.TOOL_USE:
            self._new["tool_calls"] = self._get("tool_calls") + 1
            if is_formality(event.tool, event.data, self._run.task_id):
                self._notes["formalities"] = self._notes.get("formalities", 0) + 1
        self._amounts(event)
        self._words(event, at)
        if HANDED_IN in event.data and len(encode(event.data[HANDED_IN])) <= LONGEST_RESULT:
            self._notes["handed_in"] = event.data[HANDED_IN]

    def _get(self, name: str) -> Any:
        return self._new[name] if name in self._new else getattr(self._run, name)

    def _named(self, model: str) -> None:
        """Keep the coder's name of its model. A short name in the settings can mean any version."""
        self._notes.setdefault("model", model[:200])
        if not self._get("model"):
            self._new["model"] = model[:200]

    def _amounts(self, event: Event) -> None:
        usage = event.usage
        if event.context is not None:
            self._notes.setdefault("first", event.context)
            self._new["context_peak"] = max(event.context, self._get("context_peak") or 0)
            if usage is not None and usage.model:
                self._named(usage.model)
        if event.window is not None:
            self._new["context_window"] = event.window
        if usage is not None:
            had = self._counts()
            self._tokens(usage, event.cost_usd)
            self._apart(usage, event.context or 0, had)
        self._cost(event)

    def _counts(self) -> list[int]:
        return [self._get(f"{name}_tokens") for name in TOKEN_KINDS]

    def _cost(self, event: Event) -> None:
        if event.cost_added is not None:
            known = self._get("cost_usd") if self._get("cost_basis") == REPORTED else None
            self._new |= {"cost_usd": (known or 0.0) + event.cost_added, "cost_basis": REPORTED}
        if event.cost_usd is None:
            return
        cost = event.cost_usd
        if event.usage is not None and event.usage.either:
            cost = max(cost - self._notes["base"].get("cost", 0.0), 0.0)
            self._notes["paid"] = {"usd": cost, "tokens": self._counts()}
            self._notes.pop("apart", None)
        self._new |= {"cost_usd": cost, "cost_basis": REPORTED}

    def _tokens(self, usage: Usage, cost: float | None) -> None:
        told = {name: min(max(getattr(usage, name), 0), LARGEST) for name in TOKEN_KINDS}
        if usage.total:
            before = self._notes.get("before", {}) if usage.session else {}
            if usage.either:
                before = self._base(told, usage.turn)
                self._notes["told"] = told | {"cost": cost or 0.0}
            for name, count in told.items():
                own = count - before.get(name, 0)
                self._new[f"{name}_tokens"] = max(own, self._get(f"{name}_tokens"))
            return
        counted = self._notes.get("messages", {}).get(usage.message, {}) if usage.message else {}
        for name, count in told.items():
            self._new[f"{name}_tokens"] = min(self._get(f"{name}_tokens") + count - counted.get(name, 0), LARGEST)
        if usage.message:
            others = {key: value for key, value in self._notes.get("messages", {}).items() if key != usage.message}
            kept = dict(list(others.items())[-MOST_MESSAGES + 1 :])
            self._notes["messages"] = {**kept, usage.message: told}

    def _base(self, told: dict[str, int], turn: int) -> dict[str, float]:
        """Return the part of a total that belongs to earlier runs of the session.

        The part is nothing, the session's last total, or everything counted since. A killed program may have kept or
        lost its own part of the total. The stream shows the tokens sent to the model, including those of sub-agents.
        The rest of the total shows which of the three fits best.
        """
        if "base" not in self._notes:
            sent = max(sum(self._get(f"{name}_tokens") for name in SENT), turn)
            seen = sum(told[name] for name in SENT) - sent
            known: list[dict[str, float]] = [{}, self._notes.get("told", {}), self._notes.get("before", {})]
            self._notes["base"] = min(known, key=lambda one: abs(seen - sum(one.get(name, 0) for name in SENT)))
        found: dict[str, float] = self._notes["base"]
        return found

    def _apart(self, usage: Usage, context: int, had: list[int]) -> None:
        """Count tokens separately if their price may differ: those of a sub-agent's model, or of a large request."""
        size = next((size for size in SIZES if context >= size), 0)
        model, main = usage.model[:200], str(self._notes.get("model", ""))
        # A suffix such as [1m] means the same model with a larger context.
        other = model if model.partition("[")[0] != main.partition("[")[0] else ""
        if (not size and not other) or self._counts() == had:
            return
        apart = self._notes.get("apart", {})
        key = f"{size} {other}"
        if key in apart or len(apart) < MOST_APART:
            added = [new - old for new, old in zip(self._counts(), had, strict=True)]
            counts = [sum(pair) for pair in zip(apart.get(key, (0, 0, 0, 0)), added, strict=True)]
            self._notes["apart"] = {**apart, key: counts}

    def _words(self, event: Event, at: datetime) -> None:
        notes = self._notes
        if event.text:
            notes["read"] = notes.get("read", 0) + len(event.text)
        if event.kind in _ANSWERS or event.kind == Kind.SESSION_STARTED:
            self._goes_on(answered=event.kind in _ANSWERS)
        match event.kind:
            case Kind.TEXT:
                notes["text"] = ((notes.get("text", "") if event.delta else "") + event.text)[:LONGEST_REASON]
                notes["end"] = ((notes.get("end", "") if event.delta else "") + event.text)[-LONGEST_QUESTION:]
            case Kind.TOOL_USE | Kind.TOOL_RESULT:
                notes.pop("text", None)
                notes.pop("end", None)
                notes.pop("overflows", None)
            case Kind.RESULT:
                self._last_word(event, at)
            case Kind.ERROR:
                notes["error"] = event.text[:LONGEST_REASON]
            case Kind.CONTEXT_FULL:
                notes["full"] = event.text[:LONGEST_REASON] or "its context is full"
                notes["overflows"] = notes.get("overflows", 0) + 1
            case Kind.DENIED:
                notes["denied"] = sorted({*notes.get("denied", ()), event.tool[:100]})[:MOST_DENIED]
        if event.limit is not None and event.limit.kind != WARNING:
            notes["limit"] = _limit(event.limit, notes.get("limit", {}), at)

    def _last_word(self, event: Event, at: datetime) -> None:
        notes = self._notes
        self._new["result_at"] = at
        if notes.get("ok") is False:
            return  # a failed result stays until the agent continues: some interrupted programs report success
        notes["ok"] = event.ok is True
        notes["said"] = event.text[:LONGEST_REASON] or notes.get("text", "")
        if asks := question_in(event.text or notes.get("end", "")):
            notes["asks"] = asks

    def _goes_on(self, *, answered: bool) -> None:
        """Drop a result that was not the last event. Drop a limit or a full context if the model answered after it."""
        if "ok" in self._notes:
            del self._notes["ok"]
            self._new["result_at"] = None
        self._notes.pop("handed_in", None)
        self._notes.pop("asks", None)
        if answered:
            self._notes["answered"] = True
            self._notes.pop("limit", None)
            self._notes.pop("full", None)


def _limit(limit: Limit, before: dict[str, Any], at: datetime) -> dict[str, Any]:
    """Return the note of a limit.

    An exact reset time is kept over later texts about the same limit, which are rounded.
    """
    told = limit.resets_at.isoformat() if limit.resets_at else None
    exact = told or (before.get("exact") if before.get("kind") == limit.kind else None)
    read = None if exact else resets_at(limit.text, at)
    until = exact or (read.isoformat() if read else None)
    return {"kind": limit.kind, "until": until, "exact": exact, "text": limit.text[:LONGEST_REASON]}
