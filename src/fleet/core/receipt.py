"""A receipt: what fleet itself saw of a run, piece by piece, each with its hash, chained to the receipt before it."""

from __future__ import annotations

from fleet.core.digest import sha256
from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

#: The pieces, in the order they are taken: the letters are those of the kinds of evidence.
PIECES = ("spawn", "stream", "transcript", "process", "git", "claims", "verify", "base", "scope")
FORM = 1


class Receipt(Record):
    """A receipt as the history keeps it. One owner's are a chain: each names the hash of the one before."""

    run_id: str
    task_id: str
    owner: str
    coder: str = ""
    model: str = ""
    finding: str
    made_at: datetime
    previous: str = ""  # the hash of the receipt before it; empty: the first
    hash: str = ""
    body: str = "{}"  # JSON: form, finding, shown, pieces, hashes of the pieces

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = decode(self.body)
        return found


class FindingCount(Record):
    """What the ended runs of one coder and model came to."""

    coder: str
    model: str = ""
    finding: str = ""
    runs: int = 0
    first_runs: int = 0  # of them, those that were their task's first
    cost_usd: float = 0.0
    costed: int = 0  # how many of them have a known cost
    computed: int = 0  # and of how many fleet computed it
    seconds: float = 0.0  # from their start to their end, together
    tokens: int = 0


def drafted(finding: str, shown: tuple[str, ...], pieces: Mapping[str, Any]) -> str:
    """The body of a receipt: its pieces and the hash of each."""
    hashes = {name: hash_of(encode(piece)) for name, piece in pieces.items()}
    told = {"form": FORM, "finding": finding, "shown": list(shown), "pieces": dict(pieces), "hashes": hashes}
    return encode(told)


def chained(receipt: Receipt, previous: str) -> Receipt:
    """A receipt in its place of the chain."""
    placed = receipt.replace(previous=previous)
    return placed.replace(hash=_hash(placed))


def flaws(receipt: Receipt) -> list[str]:
    """What does not fit together in a receipt, in words; none: it is as it was made."""
    found = []
    if _hash(receipt) != receipt.hash:
        found.append("its hash is not that of its words")
    told = receipt.told
    for name, piece in told.get("pieces", {}).items():
        if hash_of(encode(piece)) != told.get("hashes", {}).get(name):
            found.append(f"the hash of its piece {name!r} is not that of its words")
    return found


def hash_of(text: str) -> str:
    """What a text is known by."""
    return sha256(text.encode("utf-8", "surrogatepass"))


def _hash(receipt: Receipt) -> str:
    named = (receipt.run_id, receipt.task_id, receipt.owner, receipt.coder, receipt.model, receipt.finding)
    return hash_of("\n".join((*named, receipt.made_at.isoformat(), receipt.previous, receipt.body)))
