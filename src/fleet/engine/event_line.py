"""One line of events.jsonl in its public format: limited in length, and valid JSON for every reader."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from fleet.core.event import Kind

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.core.event import Event

TEXT_CAP = 16 * 1024
MOST_ITEMS, DEEPEST = 100, 8

# Names of event kinds in the file format, if they differ from the names in the code.
_KINDS = {Kind.TEXT: "assistant_text", Kind.LIMIT: "rate_limit", Kind.RESULT: "session_ended"}


def event_line(event: Event, at: datetime) -> dict[str, Any]:
    """Return the line to write for an event."""
    line: dict[str, Any] = {
        "kind": _KINDS.get(event.kind, event.kind),
        "ts": at.astimezone(UTC).isoformat(),
        "session_id": event.session or None,
        "tool_name": event.tool or None,
        "usage": None,
        "rate_info": None,
    }
    if event.usage is not None:
        line["usage"] = {
            "input_tokens": event.usage.input,
            "output_tokens": event.usage.output,
            "cache_creation_input_tokens": event.usage.cache_write,
            "cache_read_input_tokens": event.usage.cache_read,
        }
    if event.limit is not None:
        resets_at = event.limit.resets_at
        line["rate_info"] = {
            "usage_pct": None,
            "resets_at": resets_at.isoformat() if resets_at else None,
            "status": event.limit.kind,
        }
    more = ("text", "tool_id", "data", "cost_usd", "context", "window", "ok")
    return line | {name: value for name in more if (value := getattr(event, name)) not in ("", None, {})}


def bounded(value: Any, depth: int = 0) -> Any:
    """Return the value cut to a sensible length and with only values that every JSON reader accepts."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_CAP else value[:TEXT_CAP] + f"… ({len(value)} characters)"
    if isinstance(value, dict | list | tuple):
        if depth > DEEPEST:
            return "…"
        if isinstance(value, dict):
            return {str(key)[:256]: bounded(item, depth + 1) for key, item in list(value.items())[:MOST_ITEMS]}
        return [bounded(item, depth + 1) for item in value[:MOST_ITEMS]]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return "…"
    return value
