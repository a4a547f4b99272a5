"""The rules that one task's work is held to, as whoever made it said; the settings speak where a task does not."""

from __future__ import annotations

from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Rules(Record):
    """What a task allows and asks for; nothing said is none or empty."""

    allow: tuple[str, ...] = ()  # globs of the files it may change; none: any
    protect: tuple[str, ...] = ()  # globs of the files it must not change
    fail_to_pass: bool | None = None  # its verify command must fail at the base
    no_changes: bool | None = None  # it may end without a change

    def text(self) -> str:
        """As a task carries them: JSON of what was said; empty for nothing."""
        said = {name: value for name, value in self.as_dict().items() if value not in ((), None)}
        return encode(said) if said else ""


def rules_in(text: str) -> Rules:
    """The rules that a task carries. ValueError for what is none."""
    if not text:
        return Rules()
    told = decode(text)
    if not isinstance(told, dict):
        raise ValueError("rules are an object")
    return Rules(**{name: _checked(name, value) for name, value in told.items() if name in Rules._fields})


def _checked(name: str, value: Any) -> Any:
    if name in ("allow", "protect"):
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{name} is a list of globs")
        return tuple(value)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is true or false")
    return value
