"""The common parts of all wire formats: the content of a request, a reply, and the interface of a format."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from model_server.scenario import Turn

Json = dict[str, Any]

#: The answer to a request that only wants a title, a summary or a verdict.
SIDE_ANSWER = Turn(text="side call")


class Asked(NamedTuple):
    """The content of one request in any format."""

    said: tuple[str, ...]  # since the model's last answer: text of people and tool results
    tools: Mapping[str, str]  # the offered tools by name, with their kind
    model: str
    streamed: bool
    conversation: str  # equal for all requests of one conversation
    is_json: bool = False  # the answer must be a JSON object

    @property
    def is_side(self) -> bool:
        """Return True for a side request: a working agent offers its tools."""
        return self.is_json or not self.tools


class Reply(NamedTuple):
    """A reply, whose body consists of parts that are sent one after another."""

    status: int
    headers: Mapping[str, str]
    parts: tuple[bytes, ...]
    kind: str = "application/json"


class Wire(Protocol):
    """One wire format: pure functions from a request and a turn to bytes."""

    def claims(self, path: str) -> bool:
        """Return True if a path, without its query, asks this format for an answer."""

    def read(self, path: str, body: Json, headers: Mapping[str, str]) -> Asked:
        """Return the content of a request.

        A body in another format raises KeyError, TypeError, ValueError or similar.
        """

    def answer(self, turn: Turn, asked: Asked, *, now: int) -> Reply:
        """Return the turn in this format. Raises NotOffered."""

    def refusal(self, turn: Turn, *, now: int) -> Reply:
        """Return the fault of the turn in this format."""


def whole(body: Json, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Reply:
    """Return a reply with one JSON body, in two halves so that it can be cut between them."""
    text = json.dumps(body).encode()
    half = len(text) // 2
    return Reply(status, headers or {}, (text[:half], text[half:]))


def stream(events: Iterable[bytes], headers: Mapping[str, str] | None = None) -> Reply:
    """Return a reply that arrives event by event."""
    return Reply(200, headers or {}, tuple(events), "text/event-stream")


def event(body: Json, name: str = "") -> bytes:
    """Return one server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(body)}\n\n".encode()


def halves(text: str) -> tuple[str, str]:
    """Return a text in two deltas, which CLIs must join."""
    half = len(text) // 2
    return text[:half], text[half:]


def texts(value: object) -> Iterator[str]:
    """Yield every string within a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def since_last(messages: Iterable[Json], roles: Collection[object]) -> list[Json]:
    """Return the messages after the last one with one of these roles."""
    found: list[Json] = []
    for message in messages:
        if message.get("role") in roles:
            found.clear()
        else:
            found.append(message)
    return found
