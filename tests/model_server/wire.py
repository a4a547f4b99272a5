"""What all wire formats share: what a request asks, what is sent back, and the promises of a format."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from model_server.scenario import Turn

Json = dict[str, Any]

#: What a request that only wants a title, a summary or a verdict is told.
SIDE_ANSWER = Turn(text="side call")


class Asked(NamedTuple):
    """What one request asks, whatever its format."""

    said: tuple[str, ...]  # since the model's last answer: people's words and what tools gave back
    tools: Mapping[str, str]  # those offered, by name, with their kind
    model: str
    streamed: bool
    conversation: str  # the same for all requests of one conversation
    is_json: bool = False  # the answer must be a JSON object

    @property
    def is_side(self) -> bool:
        """Whether this is beside the agent's work: an agent that works offers its tools."""
        return self.is_json or not self.tools


class Reply(NamedTuple):
    """What goes back: the body lies in the parts that are sent one after another."""

    status: int
    headers: Mapping[str, str]
    parts: tuple[bytes, ...]
    kind: str = "application/json"


class Wire(Protocol):
    """One wire format: pure functions from a request and a turn to bytes."""

    def claims(self, path: str) -> bool:
        """Whether a path (without its query) asks this format for an answer."""

    def read(self, path: str, body: Json, headers: Mapping[str, str]) -> Asked:
        """What is asked. Any body that is not of this format raises KeyError, TypeError, ValueError or such."""

    def answer(self, turn: Turn, asked: Asked, *, now: int) -> Reply:
        """The turn as this format says it. Raises NotOffered."""

    def refusal(self, turn: Turn, *, now: int) -> Reply:
        """The fault of the turn as this format says it."""


def whole(body: Json, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Reply:
    """A reply in one JSON body, in two halves so that it can be cut between them."""
    text = json.dumps(body).encode()
    half = len(text) // 2
    return Reply(status, headers or {}, (text[:half], text[half:]))


def stream(events: Iterable[bytes], headers: Mapping[str, str] | None = None) -> Reply:
    """A reply that arrives event by event."""
    return Reply(200, headers or {}, tuple(events), "text/event-stream")


def event(body: Json, name: str = "") -> bytes:
    """One server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(body)}\n\n".encode()


def halves(text: str) -> tuple[str, str]:
    """A text in two deltas: CLIs must put them together."""
    half = len(text) // 2
    return text[:half], text[half:]


def texts(value: object) -> Iterator[str]:
    """Every string within a JSON value, the names of its fields left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def since_last(messages: Iterable[Json], roles: Collection[object]) -> list[Json]:
    """The messages at the end, after the last one that has one of these roles."""
    found: list[Json] = []
    for message in messages:
        if message.get("role") in roles:
            found.clear()
        else:
            found.append(message)
    return found
