"""The answer to a request: the turn of its scenario in its wire format, decided without a socket."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from model_server import anthropic, chat, gemini, responses
from model_server.scenario import SPOILING, Fault, Script, Turn
from model_server.tools import NotOffered, with_heard
from model_server.wire import SIDE_ANSWER, Asked, Json, Reply, Wire, texts, whole

WIRES: dict[str, Wire] = {"anthropic": anthropic, "responses": responses, "chat": chat, "gemini": gemini}

#: Exceptions raised by reading a body that does not fit its format.
MISREAD = (KeyError, TypeError, ValueError, AttributeError, IndexError)


class Answered(NamedTuple):
    """A reply, the fault that spoils it on its way, and facts about the request."""

    reply: Reply
    spoiled: Fault | None = None
    wire: str = ""
    asked: Asked | None = None
    turn: int | None = None
    text: str = ""


def answer(script: Script, method: str, path: str, headers: Mapping[str, str], raw: bytes, *, now: int) -> Answered:
    """Return the answer to one request of a scenario. An unreadable body is refused and raises nothing here."""
    wire = next((name for name, each in WIRES.items() if each.claims(path)), "")
    if method != "POST" or not wire:
        return Answered(beside(path))
    try:
        body: Json = json.loads(raw)
        asked = WIRES[wire].read(path, body, headers)
        text = "\n".join(texts(body))
    except (*MISREAD, RecursionError) as error:
        return Answered(refused(400, f"not a request of {wire}: {type(error).__name__}: {error}"), wire=wire)
    if asked.is_side:
        return Answered(WIRES[wire].answer(SIDE_ANSWER, asked, now=now), wire=wire, asked=asked, text=text)
    place, turn = script.take(asked.conversation, text.__contains__)
    reply = say(WIRES[wire], turn, asked, text, now=now)
    spoiled = turn.fault if turn.fault in SPOILING else None
    return Answered(reply, spoiled, wire, asked, place, text)


def say(wire: Wire, turn: Turn, asked: Asked, text: str, *, now: int) -> Reply:
    """Return a turn in a wire format. A turn that needs a missing tool is refused, which fails a run at once."""
    if turn.fault and turn.fault not in SPOILING:
        return wire.refusal(turn, now=now)
    try:
        return wire.answer(with_heard(turn, text), asked, now=now)
    except NotOffered as error:
        return refused(400, str(error))


def beside(path: str) -> Reply:
    """Answer side requests of CLIs: the length of a text, and the list of models."""
    if path.endswith("/count_tokens"):
        return whole({"input_tokens": 1_234})
    if path.endswith(":countTokens"):
        return whole({"totalTokens": 1_234})
    if path.endswith("/models"):
        return whole({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})
    return refused(404, f"nothing at {path}")


def refused(status: int, message: str) -> Reply:
    """Return a refusal by the server itself, in a form that every CLI prints."""
    return whole({"type": "error", "error": {"type": "scripted_model", "message": message}}, status=status)
