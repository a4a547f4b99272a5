"""Folding events into a run: pure, so that reading an agent's output twice gives the same record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.core.event import Kind, Usage
from fleet.core.jsontext import decode, encode

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.core.event import Event
    from fleet.core.run import Run

LONGEST_REASON = 500
LARGEST = 2**53  # more than any count can mean, and few enough for every database


def fold(run: Run, event: Event, at: datetime) -> Run:
    """The run after one more event."""
    changes: dict[str, Any] = {"events": run.events + 1, "last_event_at": at}
    if run.first_event_at is None:
        changes["first_event_at"] = at
    if event.session:
        changes["session"] = event.session
    if event.kind == Kind.TOOL_USE:
        changes["tool_calls"] = run.tool_calls + 1
    if event.cost_usd is not None:
        changes["cost_usd"] = event.cost_usd
    if event.context is not None:
        changes["context_peak"] = max(event.context, run.context_peak or 0)
    if event.window is not None:
        changes["context_window"] = event.window
    if event.usage is not None:
        changes |= _tokens(run, event.usage)
    return _with_words(run.replace(**changes), event, at)


def _tokens(run: Run, usage: Usage) -> dict[str, Any]:
    names = ("input", "output", "cache_read", "cache_write")
    told = {name: min(max(getattr(usage, name), 0), LARGEST) for name in names}
    if usage.total:
        return {f"{name}_tokens": max(count, getattr(run, f"{name}_tokens")) for name, count in told.items()}
    notes = decode(run.folded)
    before = notes.get("usage", {}) if usage.message and notes.get("message") == usage.message else {}
    counts = {
        f"{name}_tokens": getattr(run, f"{name}_tokens") + count - before.get(name, 0) for name, count in told.items()
    }
    if usage.message:
        counts["folded"] = encode({**notes, "message": usage.message, "usage": told})
    return counts


def _with_words(run: Run, event: Event, at: datetime) -> Run:
    """What decides how the run ends: its last word, its last limit, its last complaint."""
    notes = decode(run.folded)
    if event.kind == Kind.RESULT:
        notes = {**notes, "ok": event.ok is True, "said": event.text[:LONGEST_REASON]}
        run = run.replace(result_at=at)
    elif event.limit is not None:
        until = event.limit.resets_at.isoformat() if event.limit.resets_at else None
        notes = {
            **notes,
            "limit": {"kind": event.limit.kind, "until": until, "text": event.limit.text[:LONGEST_REASON]},
        }
    elif event.kind == Kind.ERROR:
        notes = {**notes, "error": event.text[:LONGEST_REASON]}
    else:
        return run
    return run.replace(folded=encode(notes))
