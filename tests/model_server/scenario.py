"""What the scripted model does, as data: a list of turns, and the rule which of them a request gets."""

import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class Fault(StrEnum):
    """What can go wrong instead of an answer; every wire format says it in its own words."""

    RATE_LIMITED = "rate_limited"  # 429: too fast, come back in `retry_after` seconds
    LIMIT_REACHED = "limit_reached"  # 429: the plan is used up until `retry_after` seconds from now
    UNAUTHORIZED = "unauthorized"  # 401
    CONTEXT_FULL = "context_full"  # 400: the conversation is too long for the model
    SERVER_ERROR = "server_error"  # 500
    OVERLOADED = "overloaded"  # 529, or what the vendor says in its place
    HANG = "hang"  # the request is taken, and nothing is ever answered
    STALL = "stall"  # half of the answer, then silence
    CUT = "cut"  # half of the answer, then the connection closes


#: Faults that spoil an answer on its way; the others take its place.
SPOILING = frozenset({Fault.HANG, Fault.STALL, Fault.CUT})


class Usage(NamedTuple):
    """Tokens of one answer, as the model counts them."""

    input: int = 100  # neither read from the cache nor written to it
    cached: int = 1000
    written: int = 20
    output: int = 30  # the thinking included
    thinking: int = 10


#: 187,000 tokens of context: beyond what a CLI with a window of 200,000 goes on with.
NEARLY_FULL = Usage(input=12_000, cached=172_000, written=3_000, output=900, thinking=400)


class Turn(NamedTuple):
    """One answer: words, at most one tool call, or a fault. A turn without a call ends the model's work."""

    text: str = ""
    shell: str = ""  # a command for whatever shell tool the request offers
    write: str = ""  # a file to be written, with `content`, by whatever tool the request offers
    content: str = "hello\n"
    tool: str = ""  # any tool by its name, with `arguments`
    arguments: Mapping[str, Any] = {}
    heard: Mapping[str, str] = {}  # arguments from the request: a pattern's group where it was last; all for a list
    usage: Usage = Usage()
    fault: Fault | None = None
    retry_after: int = 20  # seconds, with a fault that names a time
    limit_used: float | None = None  # how much of the plan's five hours is used, told beside the answer
    when: str = ""  # words the request must hold; until then the turn before this one is given again


class UnfitTurns(ValueError):
    """A list of turns that no conversation could follow."""


def turn_from(plain: Mapping[str, Any]) -> Turn:
    """A turn from JSON: the names of its fields and their values. Raises UnfitTurns."""
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
    """The turn after the last one given (-1: none was): the next, or the same again at the end of the list.

    A turn that waits for words the request does not hold leaves the one before it in place.
    """
    coming = min(last + 1, len(turns) - 1)
    return last if turns[coming].when and not holds(turns[coming].when) else coming


class Script:
    """The turns of one scenario and how far they got; safe to ask from several threads.

    Requests advance through the turns together, whichever conversation they belong to, so that a second run goes on
    where the first one failed; or, `per_conversation`, each conversation has the whole list to itself.
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
        """The turn this request gets, and its place in the list."""
        key = conversation if self._per_conversation else ""
        with self._turn:
            place = self._given[key] = following(self._turns, self._given.get(key, -1), holds)
        return place, self._turns[place]
