"""A verification: what fleet's own look at a commit was asked for, and how it went."""

from __future__ import annotations

from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Wanted(Record):
    """What a verification is asked for."""

    command: str
    also: str = ""  # a command of the agent that made the task, which must pass besides
    seconds: float = 600.0
    protect: tuple[str, ...] = ()  # globs of files that are taken from the base, whatever the branch made of them
    fail_to_pass: bool = False  # it must fail at the base
    network: bool = False  # whether the command may reach others


class Verification(Record):
    """How a command ended at one commit, in a clean checkout of its own."""

    command: str
    commit: str
    base: str = ""
    status: int | None = None  # none: it did not end by itself, or was never begun
    why: str = ""  # what kept it from ending by itself, or from being begun
    seconds: float = 0.0
    tail: str = ""  # the end of what it printed
    passed: int | None = None  # tests, as the runner said; none: it did not
    failed: int | None = None
    skipped: int | None = None
    restored: tuple[str, ...] = ()  # protected files that the branch had changed, and that were taken from the base
    contested: tuple[str, ...] = ()  # tests of the base that the branch changed: what they show is the agent's own word
    without_them: int | None = None  # how it ended with those as they are at the base; none: not run
    base_status: int | None = None  # how it ended at the base; none: not run
    containment: str = ""  # what the command could not reach, in words
    programs: tuple[str, ...] = ()  # that judged, each with the hash of its file
    notes: tuple[str, ...] = ()  # what was not looked at, in words
    doubts: tuple[str, ...] = ()  # why an end with 0 proves less than it seems, in words

    @property
    def ok(self) -> bool:
        """Whether the command ended well at the commit."""
        return self.status == 0 and not self.why

    @property
    def proves(self) -> bool:
        """Whether that is proof: the agent's own changes to what judges it are not."""
        if not self.ok or self.doubts:
            return False
        return not self.contested or self.without_them == 0

    @property
    def in_words(self) -> str:
        return self.why or f"ended with exit code {self.status}"

    def text(self) -> str:
        return encode(self.as_dict())


def verification_in(text: str) -> Verification | None:
    """The verification that a JSON text tells of; none where it is empty."""
    if not text:
        return None
    told: dict[str, Any] = {name: value for name, value in decode(text).items() if name in Verification._fields}
    lists = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    return Verification(**(told | lists))
