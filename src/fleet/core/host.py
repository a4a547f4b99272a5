"""A host: a machine whose supervisor takes tasks from a queue, as it last told of itself."""

from __future__ import annotations

from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

#: How a task says that it must run on one host: by its name, or as the host of one home, whatever that is called.
PIN = "host:"
#: What parts the name a home had when it got its identity from what tells it from all others; no name has it.
MARK = "@"
#: The queue's setting that holds the key by which hosts know one another: whoever may read the queue may ask them.
HOSTS_KEY = "fleet.hosts_key"


class Host(Record):
    """One supervisor's word about itself; whether it is drained is a person's."""

    id: str  # the owner of its claims
    name: str
    labels: tuple[str, ...] = ()  # and the pin of its home
    slots: int = 0
    agents: int = 0
    load: float = 0.0
    version: str = ""
    address: str = ""  # where its supervisor answers other hosts; empty: nowhere
    machine: str = ""  # which machine told it, since its last start; empty: an older fleet
    seen_at: datetime
    drained_at: datetime | None = None

    @property
    def offers(self) -> tuple[str, ...]:
        """The words that tasks may require and find here."""
        return (*sorted(set(self.labels)), PIN + self.name)

    @property
    def shown_labels(self) -> tuple[str, ...]:
        """What it offers to whoever wants more than a certain host."""
        return tuple(word for word in self.labels if not word.startswith(PIN))


def requiring(words: Iterable[str]) -> str:
    """What a task keeps about the words that a host must offer."""
    wanted = sorted(set(words))
    return encode(wanted) if wanted else ""


def required(requires: str) -> tuple[str, ...] | None:
    """The words that a host must offer; none where the text is no list of words, which no host can offer."""
    if not requires:
        return ()
    try:
        words = decode(requires)
    except ValueError:
        return None
    return tuple(words) if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def pin_of(requires: str) -> str:
    """The word by which a task requires one host; empty: none."""
    return next((word for word in required(requires) or () if word.startswith(PIN)), "")


def is_of_home(word: str) -> bool:
    """Whether a word means the host of one home, whatever that is called."""
    return word.startswith(PIN) and MARK in word


def named(word: str, hosts: Iterable[Host]) -> str:
    """A word as people know it: for the host of a home its last name, or the home's first one if it never was one."""
    if not is_of_home(word):
        return word
    known = [host for host in hosts if word in host.labels]
    return PIN + max(known, key=lambda host: host.seen_at).name if known else word.partition(MARK)[0]


def without_pin(requires: str) -> str:
    """What a task requires of whichever host; a text that is no list of words stays as it is."""
    words = required(requires)
    return requires if words is None else requiring(word for word in words if not word.startswith(PIN))
