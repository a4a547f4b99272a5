"""Checks of the requirements of tasks: labels, and the name of one host."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.host import MARK, PIN, required, requiring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_NAME, LONGEST_LABEL = 100, 64
#: More words would be a mistake, and each host checks them on each claim.
MOST_WORDS = 32


def wanted(labels: Iterable[str], host: str = "") -> str:
    """Return the requirements text for the labels and the host. Empty if none are given. Raises BadInput."""
    return _requiring(labels, name(host) if host else "")


def checked(text: str) -> str:
    """Return the checked requirements text for user input in JSON: `["gpu", "host:build7"]`. Raises BadInput."""
    words = required(text)
    if words is None:
        raise BadInput(f"{text[:80]!r} is no list of what a host must offer", hint='write ["gpu", "host:build7"].')
    hosts = [_name_or_home(word.removeprefix(PIN)) for word in words if word.startswith(PIN)]
    if len(set(hosts)) > 1:
        raise BadInput("a task that requires two hosts", hint="name one: it runs in one place.")
    return _requiring([word for word in words if not word.startswith(PIN)], hosts[0] if hosts else "")


def changed(text: str, labels: Iterable[str] | None, host: str | None) -> str:
    """Return the requirements text with new labels or a new host. None keeps the old value. Raises BadInput."""
    words = required(text) or ()
    hosts = [word.removeprefix(PIN) for word in words if word.startswith(PIN)]
    kept = [word for word in words if not word.startswith(PIN)] if labels is None else labels
    return _requiring(kept, next(iter(hosts), "")) if host is None else wanted(kept, host)


def plain(words: Iterable[str]) -> str:
    return ", ".join(f"host {word.removeprefix(PIN)}" if word.startswith(PIN) else word for word in words)


def label(text: str) -> str:
    """Return the label if it is valid. Raises BadInput."""
    if _is_word(text, "_.=+-", LONGEST_LABEL):
        return text
    hint = f"1 to {LONGEST_LABEL} letters, digits, _ . = + or -, a letter or digit first."
    raise BadInput(f"{text[:80]!r} cannot be a label of a host", hint=hint)


def name(text: str) -> str:
    """Return the host name if it is valid. Raises BadInput."""
    if _is_word(text, "_.-", LONGEST_NAME):
        return text
    hint = f"1 to {LONGEST_NAME} letters, digits, _ . or -, a letter or digit first."
    raise BadInput(f"{text[:80]!r} cannot be the name of a host", hint=hint)


def _requiring(labels: Iterable[str], host: str) -> str:
    words = [label(each) for each in labels]
    words += [PIN + host] if host else []
    if len(words) > MOST_WORDS:
        raise BadInput(f"a task that requires {len(words)} things of a host", hint=f"{MOST_WORDS} are the most.")
    return requiring(words)


def _name_or_home(text: str) -> str:
    """Return the name by which a task pins its host: the host's name or its home's identity. Raises BadInput."""
    first, mark, rest = text.partition(MARK)
    if not mark or not rest.isalnum():
        return name(text)
    return name(first) + mark + rest


def _is_word(text: str, marks: str, longest: int) -> bool:
    if not text or len(text) > longest or not text.isascii() or not text[0].isalnum():
        return False
    return all(char.isalnum() or char in marks for char in text)
