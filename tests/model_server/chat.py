"""OpenAI's Chat Completions, the wire format of opencode and many others."""

import json
from collections.abc import Iterator, Mapping
from uuid import uuid4

from model_server.openai import REFUSALS
from model_server.scenario import Fault, Turn, Usage
from model_server.tools import call_for
from model_server.wire import Asked, Json, Reply, event, halves, since_last, stream, texts, whole


def claims(path: str) -> bool:
    """Return True if a path asks for a completion."""
    return path.endswith("/chat/completions")


def read(_path: str, body: Json, headers: Mapping[str, str]) -> Asked:
    """Return the content of a request."""
    latest = since_last(body["messages"], ("assistant", "system", "developer"))
    contents = [message.get("content") or "" for message in latest]
    spoken = [[part.get("text", "") for part in each] if isinstance(each, list) else each for each in contents]
    return Asked(
        said=tuple(texts(spoken)),
        tools={tool["function"]["name"]: str(tool["type"]) for tool in body.get("tools") or []},
        model=str(body["model"]),
        streamed=bool(body.get("stream")),
        conversation=headers.get("x-session-affinity") or first_words(body["messages"]),
    )


def answer(turn: Turn, asked: Asked, *, now: int) -> Reply:
    """Return the turn as a completion, whole or in chunks."""
    call = call_for(turn, asked.tools)
    message: Json = {"role": "assistant", "content": turn.text or (None if call else "")}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message["tool_calls"] = [
            {"index": 0, "id": f"call_{uuid4().hex[:12]}", "type": "function", "function": function}
        ]
    envelope: Json = {"id": f"chatcmpl-{uuid4().hex[:10]}", "created": now, "model": asked.model}
    ending = "tool_calls" if call else "stop"
    if asked.streamed:
        return stream(_chunks(envelope, message, ending, counts(turn.usage)))
    choices = [{"index": 0, "message": message, "finish_reason": ending}]
    return whole({**envelope, "object": "chat.completion", "choices": choices, "usage": counts(turn.usage)})


def refusal(turn: Turn, *, now: int) -> Reply:
    """Return the error body and the time to wait."""
    assert turn.fault is not None
    status, error = REFUSALS[turn.fault]
    names_time = turn.fault in (Fault.RATE_LIMITED, Fault.LIMIT_REACHED)
    return whole({"error": error}, {"retry-after": str(turn.retry_after)} if names_time else {}, status=status)


def counts(usage: Usage) -> Json:
    """Return the token counts in the names of this format, in which the prompt includes cached tokens."""
    given = usage.input + usage.cached + usage.written
    return {
        "prompt_tokens": given,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens": usage.output,
        "completion_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": given + usage.output,
    }


def first_words(messages: list[Json]) -> str:
    """Return the first text of the user. Each request repeats it, and many CLIs send no session id."""
    first = next((message for message in messages if message["role"] == "user"), {})
    return "".join(texts(first.get("content")))


def _chunks(envelope: Json, message: Json, ending: str, usage: Json) -> Iterator[bytes]:
    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return event({**envelope, "object": "chat.completion.chunk", "choices": choices})

    yield chunk({"role": "assistant", "content": ""})
    for part in halves(message["content"] or ""):
        yield chunk({"content": part})
    if "tool_calls" in message:
        yield chunk({"tool_calls": message["tool_calls"]})
    yield chunk({}, ending)
    yield event({**envelope, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"
