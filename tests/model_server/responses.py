"""OpenAI's Responses, the wire format of codex."""

import json
from collections.abc import Iterator, Mapping
from itertools import count
from uuid import uuid4

from model_server.openai import REFUSALS, plan_headers
from model_server.scenario import Fault, Turn, Usage
from model_server.tools import call_for
from model_server.wire import Asked, Json, Reply, event, halves, stream, texts, whole

#: The kind of the tool that finds others, and the prefix for the kind of a server's tool.
SEARCH, WITHIN = "tool_search", "of "


def claims(path: str) -> bool:
    """Return True if a path asks for a response."""
    return path.endswith("/responses")


def read(_path: str, body: Json, headers: Mapping[str, str]) -> Asked:
    """Return the content of a request."""
    given = body["input"]
    items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    said: list[str] = []
    for item in items:
        if _is_answer(item):
            said.clear()
        elif item.get("role") not in ("system", "developer"):
            said += texts(item.get("output") if "output" in item else _spoken(item.get("content", "")))
    found: list[Json] = [tool for item in items for tool in item.get("tools") or []]
    return Asked(
        said=tuple(said),
        tools=dict(_offered([*(body.get("tools") or []), *found])),
        model=str(body["model"]),
        streamed=bool(body.get("stream")),
        conversation=str(headers.get("session-id") or body.get("prompt_cache_key") or ""),
    )


def answer(turn: Turn, asked: Asked, *, now: int) -> Reply:
    """Return the turn as a response, whole or in events."""
    call = call_for(turn, asked.tools)
    items = [_message(turn.text)] if turn.text or not call else []
    if call:
        items.append(_call(call[0], call[1], asked.tools[call[0]]))
    response: Json = {
        "id": f"resp_{uuid4().hex[:16]}",
        "object": "response",
        "created_at": now,
        "model": asked.model,
        "status": "completed",
        "output": items,
        "usage": counts(turn.usage),
    }
    headers = plan_headers(turn, now)
    return stream(_events(response), headers) if asked.streamed else whole(response, headers)


def refusal(turn: Turn, *, now: int) -> Reply:
    """Return the error body. An exhausted plan has a separate error type and gives its reset."""
    assert turn.fault is not None
    if turn.fault is Fault.LIMIT_REACHED:
        error: Json = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}
        error |= {"plan_type": "plus", "resets_at": now + turn.retry_after, "resets_in_seconds": turn.retry_after}
        return whole({"error": error}, plan_headers(turn._replace(limit_used=1.0), now), status=429)
    status, error = REFUSALS[turn.fault]
    headers = {"retry-after": str(turn.retry_after)} if turn.fault is Fault.RATE_LIMITED else {}
    return whole({"error": error}, headers, status=status)


def counts(usage: Usage) -> Json:
    """Return the token counts in the names of this format, in which the input includes cached tokens."""
    given = usage.input + usage.cached + usage.written
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": given + usage.output,
    }


def _message(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": f"msg_{uuid4().hex[:16]}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def _call(name: str, given: Json, kind: str) -> Json:
    item: Json = {"call_id": f"call_{uuid4().hex[:16]}", "id": f"fc_{uuid4().hex[:16]}", "status": "completed"}
    if kind == "custom":
        return {**item, "type": "custom_tool_call", "name": name, "input": given["input"]}
    if kind == SEARCH:
        return {**item, "type": "tool_search_call", "execution": "client", "arguments": given}
    space = {"namespace": kind.removeprefix(WITHIN)} if kind.startswith(WITHIN) else {}
    own = name.removeprefix(f"{space['namespace']}__") if space else name
    return {**item, **space, "type": "function_call", "name": own, "arguments": json.dumps(given)}


def _offered(tools: list[Json], space: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and kinds of tools. The tools of a server have a prefix and are offered once they are found."""
    for tool in tools:
        name, kind = str(tool.get("name") or tool["type"]), str(tool["type"])
        if kind == "namespace":
            yield from _offered(tool["tools"], name)
        else:
            yield (f"{space}__{name}", f"{WITHIN}{space}") if space else (name, kind)


def _events(response: Json) -> Iterator[bytes]:
    numbers = count()

    def said(kind: str, **fields: object) -> bytes:
        return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    yield said("response.created", response={**response, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(response["output"]):
        place = {"item_id": item["id"], "output_index": index}
        is_message = item["type"] == "message"
        opening = {"status": "in_progress", **({"content": []} if is_message else {})}
        yield said("response.output_item.added", output_index=index, item={**item, **opening})
        if is_message:
            part = item["content"][0]
            yield said("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
            for delta in halves(part["text"]):
                yield said("response.output_text.delta", **place, content_index=0, delta=delta)
            yield said("response.output_text.done", **place, content_index=0, text=part["text"])
            yield said("response.content_part.done", **place, content_index=0, part=part)
        yield said("response.output_item.done", output_index=index, item=item)
    yield said("response.completed", response=response)


def _is_answer(item: Json) -> bool:
    return item.get("role") == "assistant" or str(item.get("type", "")).endswith("_call")


def _spoken(content: object) -> object:
    # The other fields of a part name its type.
    return [part.get("text", "") for part in content] if isinstance(content, list) else content
