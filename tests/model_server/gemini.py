"""Google's generateContent, the wire format of gemini."""

import json
from collections.abc import Iterator, Mapping

from model_server.scenario import Fault, Turn, Usage
from model_server.tools import call_for
from model_server.wire import Asked, Json, Reply, event, halves, since_last, stream, texts, whole

STREAMED, WHOLE = ":streamGenerateContent", ":generateContent"
RPC = "type.googleapis.com/google.rpc"

#: The answer to a request for JSON: all fields that gemini's own side requests ask for.
VERDICT = {"reasoning": "scripted", "next_speaker": "user", "model_choice": "flash", "complexity_score": 1}

#: HTTP status, status word and message of each refusal.
REFUSALS = {
    Fault.RATE_LIMITED: (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    Fault.LIMIT_REACHED: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    Fault.UNAUTHORIZED: (401, "UNAUTHENTICATED", "API key not valid."),
    Fault.CONTEXT_FULL: (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    Fault.SERVER_ERROR: (500, "INTERNAL", "An internal error has occurred."),
    Fault.OVERLOADED: (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
}


def claims(path: str) -> bool:
    """Return True if a path asks for content."""
    return path.endswith((STREAMED, WHOLE))


def read(path: str, body: Json, headers: Mapping[str, str]) -> Asked:
    """Return the content of a request."""
    said: list[str] = []
    for content in since_last(body["contents"], ("model",)):
        said += [text for part in content["parts"] for text in _words(part)]
    declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    settings = body.get("generationConfig") or {}
    return Asked(
        said=tuple(said),
        tools={function["name"]: "function" for function in declared},
        model=path.rpartition("/")[2].partition(":")[0],
        streamed=path.endswith(STREAMED),
        # No field names the session, but every request repeats its first text.
        conversation="".join(texts(body["contents"][0]))[:100_000],
        is_json=settings.get("responseMimeType") == "application/json",
    )


def answer(turn: Turn, asked: Asked, *, now: int) -> Reply:
    """Return the turn as one candidate, whole or in chunks."""
    if asked.is_json:
        turn = turn._replace(text=json.dumps(VERDICT))
    call = call_for(turn, asked.tools)
    calls = [{"functionCall": {"name": call[0], "args": call[1]}, "thoughtSignature": "c2ln"}] if call else []
    if asked.streamed:
        return stream(_chunks(turn.text, calls, asked.model, counts(turn.usage)))
    parts = [{"text": turn.text}] if turn.text or not call else []
    return whole(_chunk([*parts, *calls], asked.model, counts(turn.usage), finishReason="STOP"))


def refusal(turn: Turn, *, now: int) -> Reply:
    """Return the error body, whose details give the time to wait."""
    assert turn.fault is not None
    status, word, message = REFUSALS[turn.fault]
    error: Json = {"code": status, "message": message, "status": word}
    if status != 429:
        return whole({"error": error}, status=status)
    error["details"] = [{"@type": f"{RPC}.RetryInfo", "retryDelay": f"{turn.retry_after}s"}]
    if turn.fault is Fault.LIMIT_REACHED:
        quota = "GenerateRequestsPerDayPerProjectPerModel"
        error["details"].append({"@type": f"{RPC}.QuotaFailure", "violations": [{"quotaId": quota}]})
    return whole({"error": error}, {"retry-after": str(turn.retry_after)}, status=status)


def counts(usage: Usage) -> Json:
    """Return the token counts in the names of this format.

    Thinking is separate, and the prompt includes cached tokens.
    """
    given = usage.input + usage.cached + usage.written
    return {
        "promptTokenCount": given,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.thinking,
        "thoughtsTokenCount": usage.thinking,
        "totalTokenCount": given + usage.output,
    }


def _chunks(text: str, calls: list[Json], model: str, usage: Json) -> Iterator[bytes]:
    for part in halves(text):
        yield event(_chunk([{"text": part}], model, usage))
    yield event(_chunk(calls or [{"text": ""}], model, usage, finishReason="STOP"))


def _chunk(parts: list[Json], model: str, usage: Json, **more: str) -> Json:
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "scripted"}


def _words(part: Json) -> Iterator[str]:
    if "functionResponse" in part:
        yield from texts(part["functionResponse"].get("response"))
    elif "text" in part:
        yield part["text"]
