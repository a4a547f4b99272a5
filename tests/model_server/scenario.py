"""The behavior of the scripted model as data: a list of turns, and the rule for the turn of a request."""

import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class Fault(StrEnum):
    """A fault instead of an answer. Each wire format has its own words for it."""

    RATE_LIMITED = "rate_limited"  # 429: too fast, retry in `retry_after` seconds
    LIMIT_REACHED = "limit_reached"  # 429: the plan is exhausted until `retry_after` seconds from now
    UNAUTHORIZED = "unauthorized"  # 401
    CONTEXT_FULL = "context_full"  # 400: the conversation is too long for the model
    SERVER_ERROR = "server_error"  # 500
    OVERLOADED = "overloaded"  # 529, or the vendor's code for it
    HANG = "hang"  # the request is accepted and never answered
    STALL = "stall"  # half of the answer, then silence
    CUT = "cut"  # half of the answer, then the connection closes


#: Faults that spoil an answer on its way. The others replace the answer.
SPOILING = frozenset({Fault.HANG, Fault.STALL, Fault.CUT})


class Usage(NamedTuple):
    """Token counts of one answer."""

    input: int = 100  # neither read from the cache nor written to it
    cached: int = 1000
    written: int = 20
    output: int = 30  # including the thinking
    thinking: int = 10


#: 187,000 tokens of context: too many for a CLI with a window of 200,000 to continue.
NEARLY_FULL = Usage(input=12_000, cached=172_000, written=3_000, output=900, thinking=400)


class Turn(NamedTuple):
    """One answer: text, at most one tool call, or a fault. A turn without a call ends the model's work."""

    text: str = ""
    shell: str = ""  # a command for the shell tool that the request offers
    write: str = ""  # a file to write, with `content`, by the file tool that the request offers
    content: str = "hello\n"
    tool: str = ""  # any tool by its name, with `arguments`
    arguments: Mapping[str, Any] = {}
    heard: Mapping[str, str] = {}  # arguments from the request: last match of a pattern's group, all for a list
    usage: Usage = Usage()
    fault: Fault | None = None
    retry_after: int = 20  # seconds, for a fault that gives a time
    limit_used: float | None = None  # usage of the plan's five hours, sent with the answer
    when: str = ""  # words the request must contain; until then the previous turn is repeated


class UnfitTurns(ValueError):
    """An error: a list of turns that no conversation could follow."""


def turn_from(plain: Mapping[str, Any]) -> Turn:
    """Return a turn from the names and values of its fields in JSON. Raises UnfitTurns."""
    unknown = sorted(set(plain) - set(Turn._fields))
    if unknown:
        raise UnfitTurns(f"a turn has no {', '.join(unknown)}; it has {', '.join(Turn._fields)}")
    try:
        fault = Fault(plain["fault"]) if plain.get("fault") else None
        usage = Usage(**plain.get("usage", {}))
    except (TypeError, ValueError) as error:
        raise UnfitTurns(f"{error}; a fault is one of: {', '.join(Fault)}") from None
    return Turn(**{**plain, "fault": fault, "usage": usage})


def following(turns: Sequence[Turn], last: int, holds: Callable[[str], bool]) -> int:
    """Return the index of the turn after `last`, which is -1 at first. The last turn of the list repeats.

    If the next turn waits for words that the request lacks, the previous turn is repeated.
    """
    coming = min(last + 1, len(turns) - 1)
    return last if turns[coming].when and not holds(turns[coming].when) else coming


class Script:
    """The turns of one scenario and its progress, safe for several threads.

    Requests of all conversations advance through the turns together, so that a second run continues after the first
    one failed. With `per_conversation`, each conversation has the whole list.
    """

    def __init__(self, turns: Sequence[Turn], *, per_conversation: bool = False) -> None:
        if not turns:
            raise UnfitTurns("a scenario needs a turn")
        if turns[0].when:
            raise UnfitTurns("the first turn cannot wait for words: there is none before it to give instead")
        self._turns = tuple(turns)
        self._per_conversation = per_conversation
        self._given: dict[str, int] = {}
        self._turn = threading.Lock()

    def take(self, conversation: str, holds: Callable[[str], bool]) -> tuple[int, Turn]:
        """Return the turn for this request and its index in the list."""
        key = conversation if self._per_conversation else ""
        with self._turn:
            place = self._given[key] = following(self._turns, self._given.get(key, -1), holds)
        return place, self._turns[place]
