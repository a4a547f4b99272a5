"""Checks of the requirements of tasks: labels, and the name of one host."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


#: The prefix of a word that requires one host. The host's name follows, or the identity of a home for the host of that
#: home.
PIN = "host:"
#: Separates the first name of a home from its unique id. No host name contains it.
MARK = "@"
#: The queue setting with the key by which hosts authenticate each other. Every reader of the queue may contact them.
HOSTS_KEY = "fleet.hosts_key"


class Host(Record):
    """A supervisor's report about itself. Only `drained_at` is set by a person."""

    id: str  # the owner of its claims
    name: str
    labels: tuple[str, ...] = ()  # includes the pin of its home
    slots: int = 0
    agents: int = 0
    load: float = 0.0
    version: str = ""
    address: str = ""  # where its supervisor answers other hosts; "" if nowhere
    machine: str = ""  # the machine that reported it since its last start; "" for an older fleet
    seen_at: datetime
    drained_at: datetime | None = None

    @property
    def offers(self) -> tuple[str, ...]:
        """Return the words that tasks may require and that this host fulfills."""
        return (*sorted(set(self.labels)), PIN + self.name)

    @property
    def shown_labels(self) -> tuple[str, ...]:
        """Return its labels without pins, for display."""
        return tuple(word for word in self.labels if not word.startswith(PIN))


def encode_requirements(words: Iterable[str]) -> str:
    """Return the text of a task's requirements for the words that its host must offer."""
    wanted = sorted(set(words))
    return encode(wanted) if wanted else ""


def parse_requirements(requires: str) -> tuple[str, ...] | None:
    """Return the words that a host must offer, or None if the text is not a list of words.

    No host can fulfill such a text.
    """
    if not requires:
        return ()
    try:
        words = decode(requires)
    except ValueError:
        return None
    return tuple(words) if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def pin_of(requires: str) -> str:
    """Return the word by which a task requires one host, or ""."""
    return next((word for word in parse_requirements(requires) or () if word.startswith(PIN)), "")


def is_of_home(word: str) -> bool:
    """Return True if a word means the host of one home, whatever its name."""
    return word.startswith(PIN) and MARK in word


def format_requirement(word: str, hosts: Iterable[Host]) -> str:
    """Return a word in the form that people know.

    For the host of a home, this is its last name. If the host is unknown, it is the home's first name.
    """
    if not is_of_home(word):
        return word
    known = [host for host in hosts if word in host.labels]
    return PIN + max(known, key=lambda host: host.seen_at).name if known else word.partition(MARK)[0]


def without_pin(requires: str) -> str:
    """Return a task's requirements without its host. Text that is not a list of words does not change."""
    words = parse_requirements(requires)
    return requires if words is None else encode_requirements(word for word in words if not word.startswith(PIN))


LONGEST_NAME, LONGEST_LABEL = 100, 64
#: More words would be a mistake, and each host checks them on each claim.
MOST_WORDS = 32


def make_requirements(labels: Iterable[str], host: str = "") -> str:
    """Return the requirements text for the labels and the host. Empty if none are given. Raises BadInput."""
    return _build_requirements(labels, name(host) if host else "")


def check_requirements(text: str) -> str:
    """Return the checked requirements text for user input in JSON: `["gpu", "host:build7"]`. Raises BadInput."""
    words = parse_requirements(text)
    if words is None:
        raise BadInput(
            f"{text[:80]!r} is not a list of host labels", hint='write a list such as ["gpu", "host:build7"]'
        )
    hosts = [_name_or_home(word.removeprefix(PIN)) for word in words if word.startswith(PIN)]
    if len(set(hosts)) > 1:
        raise BadInput("a task can be pinned to only one host", hint="pass one host")
    return _build_requirements([word for word in words if not word.startswith(PIN)], hosts[0] if hosts else "")


def change_requirements(text: str, labels: Iterable[str] | None, host: str | None) -> str:
    """Return the requirements text with new labels or a new host. None keeps the old value. Raises BadInput."""
    words = parse_requirements(text) or ()
    hosts = [word.removeprefix(PIN) for word in words if word.startswith(PIN)]
    kept = [word for word in words if not word.startswith(PIN)] if labels is None else labels
    return _build_requirements(kept, next(iter(hosts), "")) if host is None else make_requirements(kept, host)


def join_requirements(words: Iterable[str]) -> str:
    return ", ".join(f"host {word.removeprefix(PIN)}" if word.startswith(PIN) else word for word in words)


def label(text: str) -> str:
    """Return the label if it is valid. Raises BadInput."""
    if _is_word(text, "_.=+-", LONGEST_LABEL):
        return text
    hint = f"1 to {LONGEST_LABEL} letters, digits, _ . = + or -, a letter or digit first"
    raise BadInput(f"{text[:80]!r} is not a valid host label", hint=hint)


def name(text: str) -> str:
    """Return the host name if it is valid. Raises BadInput."""
    if _is_word(text, "_.-", LONGEST_NAME):
        return text
    hint = f"1 to {LONGEST_NAME} letters, digits, _ . or -, a letter or digit first"
    raise BadInput(f"{text[:80]!r} is not a valid host name", hint=hint)


def _build_requirements(labels: Iterable[str], host: str) -> str:
    words = [label(each) for each in labels]
    words += [PIN + host] if host else []
    if len(words) > MOST_WORDS:
        raise BadInput(f"too many host labels: {len(words)}", hint=f"pass at most {MOST_WORDS}")
    return encode_requirements(words)


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
