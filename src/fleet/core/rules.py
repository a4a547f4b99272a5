"""Rules for one task's work, as given when the task was created. The settings apply if a rule is absent."""

from __future__ import annotations

import functools

from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.core.task import Task

_LISTS = ("allow", "protect", "repos", "extra_args")
_FLAGS = ("fail_to_pass", "no_changes")
_WORDS = ("reasoning_effort",)
#: Maximum for counts of retries in rules, as in the settings, and for waits in seconds.
MOST_TIMES, MOST_SECONDS = 500, 1_000_000
_BOUNDS = {
    **dict.fromkeys(("retries", "stale_restarts", "rate_limit_retries"), MOST_TIMES),
    **dict.fromkeys(("rate_limit_base_seconds", "rate_limit_max_seconds"), MOST_SECONDS),
}


class Rules(Record):
    """A task's rules. Absent rules are None or empty."""

    allow: tuple[str, ...] = ()  # globs of files that it may change; empty: all
    protect: tuple[str, ...] = ()  # globs of files that it must not change
    fail_to_pass: bool | None = None  # its verify command must fail at the base
    no_changes: bool | None = None  # it may end without a change
    depth: int | None = None  # how many levels deep its agents may create tasks
    repos: tuple[str, ...] = ()  # in which repositories; empty: all
    at_once: int | None = None  # how many agents of all tasks with this origin may work at once
    retries: int | None = None  # failures that do not block it, instead of limits.retry_limit
    stale_restarts: int | None = None  # how often it restarts after a silence
    rate_limit_retries: int | None = None
    rate_limit_base_seconds: float | None = None
    rate_limit_max_seconds: float | None = None
    reasoning_effort: str = ""
    extra_args: tuple[str, ...] = ()  # further options for its coder's program, one word each

    def text(self) -> str:
        """Return the given rules as JSON, as a task stores them. Empty if no rule is given."""
        said = {name: value for name, value in self.as_dict().items() if value not in ((), None, "")}
        return encode(said) if said else ""


@functools.lru_cache(maxsize=256)  # a supervisor asks again and again of each task at work
def rules_in(text: str) -> Rules:
    """Return the rules that a task carries. A number out of bounds becomes the nearest bound. Raises ValueError."""
    if not text:
        return Rules()
    told = decode(text)
    if not isinstance(told, dict):
        raise ValueError("rules must be an object")
    return Rules(**{name: _check_rule(name, value) for name, value in told.items() if name in Rules._fields})


def rules_of(task: Task) -> Rules:
    """Return the rules that a task carries, or empty rules if they cannot be read."""
    try:
        return rules_in(task.rules)
    except ValueError:
        return Rules()


def _check_rule(name: str, value: Any) -> Any:
    if name in _LISTS:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{name} must be a list of texts")
        return tuple(value)
    kinds = (bool,) if name in _FLAGS else (str,) if name in _WORDS else (int, float)
    if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        raise ValueError(f"{name} is {'true or false' if name in _FLAGS else 'text' if name in _WORDS else 'a number'}")
    if isinstance(value, int | float) and not is_within(name, value):
        return _BOUNDS[name] if value > 0 else 0
    return value


def is_within(name: str, value: Any) -> bool:
    """Return False if a rule has a bound and its number is out of bounds."""
    return name not in _BOUNDS or value is None or 0 <= value <= _BOUNDS[name]


def beyond_bounds(text: str) -> str:
    """Return an error message for the first number of some rules that is out of bounds, or "". Raises ValueError."""
    for name, value in decode(text).items():
        if not is_within(name, value):
            return f"{name} is {value}; the range is 0 to {_BOUNDS[name]}"
    return ""
