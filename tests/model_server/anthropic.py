"""Anthropic's Messages, the wire format of claude."""

import json
import time
from collections.abc import Iterator, Mapping
from uuid import uuid4

from model_server.scenario import Fault, Turn, Usage
from model_server.tools import call_for
from model_server.wire import Asked, Json, Reply, event, halves, since_last, stream, whole

PLAN = "anthropic-ratelimit-unified"

#: Status, type and message of each refusal.
REFUSALS = {
    Fault.RATE_LIMITED: (429, "rate_limit_error", "This request would exceed your account's rate limit."),
    Fault.LIMIT_REACHED: (429, "rate_limit_error", "This request would exceed your account's rate limit."),
    Fault.UNAUTHORIZED: (401, "authentication_error", "invalid x-api-key"),
    Fault.CONTEXT_FULL: (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    Fault.SERVER_ERROR: (500, "api_error", "Internal server error"),
    Fault.OVERLOADED: (529, "overloaded_error", "Overloaded"),
}


def claims(path: str) -> bool:
    """Return True if a path asks for a message."""
    return path.endswith("/v1/messages")


def read(_path: str, body: Json, headers: Mapping[str, str]) -> Asked:
    """Return the content of a request."""
    said: list[str] = []
    for message in since_last(body["messages"], ("assistant",)):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said += [text for block in blocks for text in _words(block)]
    return Asked(
        said=tuple(said),
        tools={tool["name"]: "function" for tool in body.get("tools") or []},
        model=str(body["model"]),
        streamed=bool(body.get("stream")),
        conversation=headers.get("x-claude-code-session-id", ""),
    )


def answer(turn: Turn, asked: Asked, *, now: int) -> Reply:
    """Return the turn as a message, whole or in events."""
    call = call_for(turn, asked.tools)
    blocks: list[Json] = [{"type": "text", "text": turn.text}] if turn.text or not call else []
    if call:
        blocks.append({"type": "tool_use", "id": f"toolu_{uuid4().hex[:20]}", "name": call[0], "input": call[1]})
    message: Json = {
        "id": f"msg_{uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": blocks,
        "stop_reason": "tool_use" if call else "end_turn",
        "stop_sequence": None,
        "usage": counts(turn.usage),
    }
    headers = {"request-id": f"req_{uuid4().hex[:20]}", **plan_headers(turn, now)}
    return stream(_events(message), headers) if asked.streamed else whole(message, headers)


def refusal(turn: Turn, *, now: int) -> Reply:
    """Return the error body, with headers that give the time to wait."""
    assert turn.fault is not None
    status, kind, message = REFUSALS[turn.fault]
    headers = {"request-id": "req_scripted"}
    if turn.fault is Fault.RATE_LIMITED:
        reset = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + turn.retry_after))
        headers |= {"retry-after": str(turn.retry_after), "anthropic-ratelimit-requests-reset": reset}
    elif turn.fault is Fault.LIMIT_REACHED:
        headers |= {"retry-after": str(turn.retry_after), **plan_headers(turn._replace(limit_used=1.0), now)}
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}
    return whole(body, headers, status=status)


def plan_headers(turn: Turn, now: int) -> dict[str, str]:
    """Return headers with the usage of a subscription. CLIs read them only with a subscription's token."""
    if turn.limit_used is None:
        return {}
    used, reset = turn.limit_used, str(now + turn.retry_after)
    status = "rejected" if used >= 1 else "allowed_warning" if used >= 0.9 else "allowed"
    headers = {
        f"{PLAN}-status": status,
        f"{PLAN}-reset": reset,
        f"{PLAN}-representative-claim": "five_hour",
        f"{PLAN}-5h-status": status,
        f"{PLAN}-5h-reset": reset,
        f"{PLAN}-5h-utilization": str(used),
    }
    if status == "allowed_warning":
        headers[f"{PLAN}-5h-surpassed-threshold"] = "0.9"
    if status == "rejected":
        headers |= {f"{PLAN}-overage-status": "rejected", f"{PLAN}-overage-disabled-reason": "org_level_disabled"}
    return headers


def counts(usage: Usage) -> Json:
    """Return the token counts in the names of this format."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def _events(message: Json) -> Iterator[bytes]:
    opening: Json = {"content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield _event("message_start", message={**message, **opening})
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for part in halves(block["text"]):
                yield _event("content_block_delta", index=index, delta={"type": "text_delta", "text": part})
        else:
            yield _event("content_block_start", index=index, content_block={**block, "input": {}})
            yield from _arguments(index, block["input"])
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage=message["usage"])
    yield _event("message_stop")


def _arguments(index: int, given: Json) -> Iterator[bytes]:
    for part in halves(json.dumps(given)):
        yield _event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": part})


def _event(kind: str, **fields: object) -> bytes:
    return event({"type": kind, **fields}, kind)


def _words(block: Json) -> Iterator[str]:
    if block["type"] == "text":
        yield block["text"]
    elif block["type"] == "tool_result":
        content = block.get("content") or ""
        yield content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
