"""The stream of claude and of programs that adopted its format: one JSON object with a `type` per line.

    system/init       a session begins: session_id, model, cwd; repeated for each further turn
    system/api_retry  a request was refused and is retried
    assistant         one block of a message: text, thinking or a tool call; every block has the message's usage
    user              a tool's result or, with isReplay, a message that has reached the model
    rate_limit_event  how much of a subscription is used
    result            the end of a turn, successful or not

Programs differ in how they count tokens and report refused requests: see `Dialect`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.coders.refusals import refusal, status_in
from fleet.coders.said import amount, clean, count, decoded, instant, share, table, tables
from fleet.core.event import Event, Gauge, Kind, Limit, Usage
from fleet.core.result_schema import HANDED_IN, looks_handed_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.coders.said import Said

#: The tool with which a model returns its result if it must follow a schema. Using it is not work.
HANDING_IN = "StructuredOutput"
#: Model name of a message that the program wrote in the model's place.
SYNTHETIC = "<synthetic>"
#: Subtype of a turn that cost more than its cost option allows.
OVER_BUDGET = "error_max_budget_usd"
#: Maximum number of quota windows, and maximum length of their names.
MOST_WINDOWS, LONGEST_WINDOW = 10, 40
API_ERROR = ("API Error: ", "[API Error: ")


class Dialect:
    """Differences between the programs that use this stream."""

    def window(self, model: str) -> int | None:
        """Return how many tokens fit into the context, judged by the model's name."""
        raise NotImplementedError

    def tokens(self, told: Said) -> tuple[int, int, int, int]:
        """Return the input without cached tokens, the output, the tokens read from a cache and those written to one."""
        raise NotImplementedError

    def total(self, said: Said) -> Usage | None:
        """Return all tokens so far, as a result reports them."""
        raise NotImplementedError


def events(line: str, dialect: Dialect) -> list[Event]:
    said = decoded(line)
    return read(said, dialect) if said else []


def read(said: Said, dialect: Dialect) -> list[Event]:
    kind = said.get("type")
    reader = _READERS.get(kind) if type(kind) is str else None
    return reader(said, dialect) if reader else []


def string(said: Said, key: str) -> str:
    """Return a text value. Values from `decoded` need no cleaning."""
    value = said.get(key)
    return value if type(value) is str else ""


def _assistant(said: Said, dialect: Dialect) -> list[Event]:
    message = table(said, "message")
    blocks = tables(message, "content")
    if message.get("model") == SYNTHETIC or "error" in said or _is_api_error(blocks):
        return _refused(said, blocks)
    made = [fields for block in blocks if (fields := _block(block)) is not None] or [{"kind": Kind.USAGE}]
    told = message.get("usage")
    if type(told) is dict:
        fresh, output, read, written = dialect.tokens(told)
        made[-1]["usage"] = Usage(
            input=fresh,
            output=output,
            cache_read=read,
            cache_write=written,
            message=string(message, "id"),
            model=string(message, "model"),
        )
        # A sub-agent has its own context.
        if said.get("parent_tool_use_id") is None and (context := fresh + read + written):
            made[-1]["context"] = context
    return [Event(**fields) for fields in made]


def _block(block: Said) -> dict[str, Any] | None:
    kind = string(block, "type")
    if kind == "text":
        return {"kind": Kind.TEXT, "text": string(block, "text")}
    if kind.endswith("tool_use"):  # also server_tool_use and mcp_tool_use
        if string(block, "name") == HANDING_IN:
            return None
        name, data = string(block, "name"), table(block, "input")
        return {"kind": Kind.TOOL_USE, "tool": name, "tool_id": string(block, "id"), "data": data}
    if kind == "thinking":
        return {"kind": Kind.THINKING, "text": string(block, "thinking")}
    if kind.endswith("tool_result"):
        return {
            "kind": Kind.TOOL_RESULT,
            "tool_id": string(block, "tool_use_id"),
            "text": words(block.get("content")),
            "ok": not block.get("is_error"),
        }
    return None


def _refused(said: Said, blocks: list[Said]) -> list[Event]:
    """Return the error that the program wrote in the model's place.

    It is not a TEXT because the model did not answer.
    """
    word, what = string(said, "error"), words(blocks)
    if not word and not _is_api_error(blocks) and said.get("is_api_error_message") is not True:
        return []
    found = refusal(what, status=status_in(what), word=word)
    return [found or Event(kind=Kind.ERROR, text=what or word)]


def _is_api_error(blocks: list[Said]) -> bool:
    return bool(blocks) and string(blocks[0], "text").startswith(API_ERROR)


def _user(said: Said, dialect: Dialect) -> list[Event]:
    content = table(said, "message").get("content")
    blocks = content if type(content) is list else []
    if said.get("isReplay") is True:
        # Plain text is the prompt, or words of the program to itself. Our messages come in blocks.
        return [Event(kind=Kind.DELIVERED, text=words(blocks))] if blocks else []
    made = [_block(block) for block in blocks if type(block) is dict]
    return [Event(**fields) for fields in made if fields is not None and fields["kind"] == Kind.TOOL_RESULT]


def words(content: object) -> str:
    if type(content) is str:
        return content
    if type(content) is not list:
        return ""
    return "\n".join(string(block, "text") for block in content if type(block) is dict and "text" in block)


def _system(said: Said, dialect: Dialect) -> list[Event]:
    match said.get("subtype"):
        case "init":
            model = string(said, "model")
            data = {"model": model, "cwd": string(said, "cwd")}
            session = string(said, "session_id")
            began = Event(kind=Kind.SESSION_STARTED, session=session, data=data, window=dialect.window(model))
            return [began, *_missing_servers(said)]
        case "api_retry":
            return [_retried(said)]
    return []


def _missing_servers(said: Said) -> list[Event]:
    """Report requested MCP servers that are unavailable. An agent would wait in vain for their tools."""
    servers = [(string(each, "name"), string(each, "status")) for each in tables(said, "mcp_servers")]
    return [
        Event(kind=Kind.ERROR, text=f"mcp server {name!r} is not there: {status}")
        for name, status in servers
        if status in ("failed", "needs-auth")
    ]


def _retried(said: Said) -> Event:
    status, word = count(said, "error_status"), string(said, "error")
    text = (
        f"{word or 'no answer'} ({status or 'no status'}), attempt {count(said, 'attempt')} "
        f"of {count(said, 'max_retries')}, retrying in {(amount(said, 'retry_delay_ms') or 0) / 1000:.0f} s"
    )
    return refusal(text, status=status, word=word) or Event(kind=Kind.ERROR, text=text)


def _account(said: Said, dialect: Dialect) -> list[Event]:
    told = table(said, "rate_limit_info")
    status, which = told.get("status"), string(told, "rateLimitType").replace("_", " ") or "plan"
    gauges = _gauges(told)
    if status not in ("allowed_warning", "rejected"):
        return [Event(kind=Kind.USAGE, gauges=gauges)] if gauges else []
    refused = status == "rejected" and told.get("isUsingOverage") is not True
    used = amount(told, "utilization")
    text = f"the {which} limit is " + (f"used to {used:.0%}" if used is not None else "reached")
    limit = Limit(kind="plan" if refused else "warning", resets_at=instant(told.get("resetsAt")), text=text)
    return [Event(kind=Kind.LIMIT, text=text, limit=limit, gauges=gauges)]


def _gauges(told: Said) -> tuple[Gauge, ...]:
    """Return all quota windows that claude reports. Older versions report only the decisive one."""
    windows = {name: window for name, window in table(told, "unifiedWindows").items() if type(window) is dict}
    own = string(told, "rateLimitType")
    if own and own not in windows:
        windows[own] = told
    return tuple(
        Gauge(
            window=_window_name(name), used_pct=share(window, "utilization"), resets_at=instant(window.get("resetsAt"))
        )
        for name, window in list(windows.items())[:MOST_WINDOWS]
    )


def _window_name(name: str) -> str:
    for long, short in (("five_hour", "5h"), ("seven_day", "7d")):
        if name.startswith(long):
            name = short + name.removeprefix(long)
    return clean(name.replace("_", " "))[:LONGEST_WINDOW]


def _result(said: Said, dialect: Dialect) -> list[Event]:
    text, told = string(said, "result"), table(said, "structured_output")
    handed_in = looks_handed_in(told)
    if handed_in:
        text = string(told, "summary")  # otherwise `text` is all of it as JSON
    ok = (
        said.get("is_error") is False
        and said.get("subtype") == "success"
        and said.get("api_error_status") is None
        and not text.startswith(API_ERROR)  # some programs report such an error as a success
    )
    found = None
    if not ok:
        text = _complaint(said, text)
        found = refusal(text, status=count(said, "api_error_status") or status_in(text))
        if said.get("subtype") == OVER_BUDGET:
            found = Event(kind=Kind.LIMIT, text=text, limit=Limit(kind="budget", text=text))
    last = Event(
        kind=Kind.RESULT,
        ok=ok,
        text=text,
        data={HANDED_IN: told} if handed_in else {},
        session=string(said, "session_id"),
        usage=dialect.total(said),
        cost_usd=amount(said, "total_cost_usd"),
        window=_window(said),
    )
    return [*_denials(said), *([found] if found else ()), last]


def _complaint(said: Said, text: str) -> str:
    errors = said.get("errors")
    told = [each for each in errors if type(each) is str] if type(errors) is list else []
    told = [each for each in told if not each.startswith("[ede_diagnostic]")]  # meant for claude's developers
    why = string(said, "terminal_reason").replace("_", " ")
    reason = f"{string(said, 'subtype')}: {why}" if why else string(said, "subtype")
    return text or "; ".join(told) or string(table(said, "error"), "message") or reason


def _denials(said: Said) -> list[Event]:
    return [
        Event(
            kind=Kind.DENIED,
            tool=string(each, "tool_name") or "a tool",
            tool_id=string(each, "tool_use_id"),
            data=table(each, "tool_input"),
        )
        for each in tables(said, "permission_denials")
    ]


def _window(said: Said) -> int | None:
    """Return the context window of the only model. Return None for several: the main thread's model is unknown."""
    models = [told for told in table(said, "modelUsage").values() if type(told) is dict]
    return (count(models[0], "contextWindow") or None) if len(models) == 1 else None


_READERS: dict[str, Callable[[Said, Dialect], list[Event]]] = {
    "assistant": _assistant,
    "user": _user,
    "system": _system,
    "rate_limit_event": _account,
    "result": _result,
}
